"""pywheel on SQLite: client, and worker when run."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.queues.record import record
from pywheel import JobQueue, Worker

queue = JobQueue(os.environ["JOBS_URL"])


@queue.handler("t", concurrency=8)
def handle(job: Any) -> None:
    record(job.body.decode())


def put(body: str, delay: float) -> None:
    queue.put("t", body.encode(), delay=delay)


if __name__ == "__main__":
    Worker(queue).run()
