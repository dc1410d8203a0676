"""BullMQ's Python package on Redis: client, and worker when run."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import Any

from bullmq import Queue, Worker

from benchmarks.queues.record import record

LOOP = asyncio.new_event_loop()
OPTIONS = {"connection": os.environ["JOBS_URL"]}


@cache
def queue() -> Queue:
    return Queue("t", OPTIONS)


async def add(body: str, delay: float) -> None:
    await queue().add("t", {"body": body}, {"delay": round(1000 * delay), "removeOnComplete": True})


def put(body: str, delay: float) -> None:
    LOOP.run_until_complete(add(body, delay))


async def handle(job: Any, token: str) -> None:
    record(job.data["body"])


async def work() -> None:
    worker = Worker("t", handle, {**OPTIONS, "concurrency": 8})
    await asyncio.Event().wait()
    await worker.close()


if __name__ == "__main__":
    LOOP.run_until_complete(work())
