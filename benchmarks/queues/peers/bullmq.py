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


def options(delay: float) -> dict[str, Any]:
    return {"delay": round(1000 * delay), "removeOnComplete": True}


async def aput(body: str, delay: float) -> None:
    await queue().add("t", {"body": body}, options(delay))


def put(body: str, delay: float) -> None:
    LOOP.run_until_complete(aput(body, delay))


def put_many(jobs: list[tuple[str, float]]) -> None:
    named = [{"name": "t", "data": {"body": body}, "opts": options(delay)} for body, delay in jobs]
    LOOP.run_until_complete(queue().addBulk(named))


async def handle(job: Any, token: str) -> None:
    record(job.data["body"])


async def work() -> None:
    worker = Worker("t", handle, {**OPTIONS, "concurrency": 8})
    await asyncio.Event().wait()
    await worker.close()


if __name__ == "__main__":
    LOOP.run_until_complete(work())
