"""Chancy on PostgreSQL: client, worker when run, and schema."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from chancy import Chancy, Job, Queue, Worker

from benchmarks.queues.handler import CONCURRENCY, awork
from benchmarks.queues.peers.postgres import counted

app = Chancy(os.environ["JOBS_URL"])


@cache
def opened() -> Chancy:
    return app.__enter__()


def job(due: float, text: str, delay: float) -> Any:
    made = Job.from_func(awork, kwargs={"due": due, "text": text})
    return made.with_scheduled_at(datetime.now(UTC) + timedelta(seconds=delay)) if delay else made


def put(due: float, text: str, delay: float) -> None:
    opened().sync_push(job(due, text, delay))


def put_many(jobs: list[tuple[float, str, float]]) -> None:
    for _ in opened().sync_push_many([job(*one) for one in jobs]):
        pass


def left() -> int:
    return counted("chancy_jobs WHERE state NOT IN ('succeeded', 'failed')")


async def serve() -> None:
    queue = Queue(
        "default", concurrency=CONCURRENCY, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True
    )
    async with app:
        await app.migrate()
        await app.declare(queue, upsert=True)
        if sys.argv[1:] == ["schema"]:
            return
        async with Worker(app) as worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    asyncio.run(serve())
