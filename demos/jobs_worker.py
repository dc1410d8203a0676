"""The worker process of the demo: notes each delivery, in one write, in a file that survives it.

usage: python -m demos.jobs_worker URL LEDGER
"""

from __future__ import annotations

import os
import struct
import sys
import time

from pywheel import Fixed, Job, JobQueue, Worker

RECORD = struct.Struct("<qqq")  # id, attempt, microseconds after the due time
TOPIC = "order.close"


def main(url: str, ledger: str) -> None:
    """Work until told to stop."""
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    queue = JobQueue(url)

    @queue.handler(TOPIC, concurrency=8, ttr="2s", retry=Fixed("50ms", attempts=100))
    def close_order(job: Job) -> None:
        os.write(file, RECORD.pack(job.id, job.attempt, time.time_ns() // 1000 - job.due * 1000))

    Worker(queue, grace=5).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
