"""pywheel on SQLite: client, and worker when run."""

from __future__ import annotations

import os

from benchmarks.job_peers.record import record
from pywheel import Job, JobQueue

queue = JobQueue(os.environ["JOBS_URL"])


@queue.handler("t", concurrency=8)
def handle(job: Job) -> None:
    record(job.body.decode())


def put(body: str, delay: float) -> None:
    queue.put("t", body.encode(), delay=delay)


if __name__ == "__main__":
    queue.run()
