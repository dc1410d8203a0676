"""pywheel, on any store: client, and worker when run."""

from __future__ import annotations

import os

from benchmarks.queues.handler import CONCURRENCY, HANDLER, SLEEPS, awork, work
from pywheel import JobQueue, Worker

URL = os.environ["JOBS_URL"]
queue = JobQueue(URL if "://" in URL else f"sqlite:///{URL}")
handle = queue.task("work", concurrency=CONCURRENCY)(awork if HANDLER in SLEEPS else work)


def put(due: float, text: str, delay: float) -> None:
    handle.options(delay=delay).put(due, text)


async def aput(due: float, text: str, delay: float) -> None:
    await handle.options(delay=delay).aio.put(due, text)


def put_many(jobs: list[tuple[float, str, float]]) -> None:
    queue.put_many([handle.options(delay=delay).job(due, text) for due, text, delay in jobs])


def left() -> int:
    counts = queue.topics.counts()["work"]
    return counts.delayed + counts.running


if __name__ == "__main__":
    Worker(queue).run()
