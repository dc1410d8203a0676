"""pywheel, on any store: client, and worker when run."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.queues.record import record
from pywheel import JobQueue, Worker

URL = os.environ["JOBS_URL"]
queue = JobQueue(URL if "://" in URL else f"sqlite:///{URL}")


@queue.handler("t", concurrency=8)
def handle(job: Any) -> None:
    record(job.body.decode())


def put(body: str, delay: float) -> None:
    queue.put("t", body.encode(), delay=delay)


async def aput(body: str, delay: float) -> None:
    await queue.aio.put("t", body.encode(), delay=delay)


def put_many(jobs: list[tuple[str, float]]) -> None:
    queue.put_many([queue.job("t", body.encode(), delay=delay) for body, delay in jobs])


if __name__ == "__main__":
    Worker(queue).run()
