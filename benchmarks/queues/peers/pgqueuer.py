"""PgQueuer on PostgreSQL: client, worker when run, and schema."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import timedelta
from functools import cache

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.queues.handler import CONCURRENCY, awork
from benchmarks.queues.peers.postgres import counted

LOOP = asyncio.new_event_loop()
URL = os.environ["JOBS_URL"]


@cache
def queries() -> Queries:
    return Queries(AsyncpgDriver(LOOP.run_until_complete(asyncpg.connect(URL))))


def put(due: float, text: str, delay: float) -> None:
    put_many([(due, text, delay)])


def put_many(jobs: list[tuple[float, str, float]]) -> None:
    bodies: list[bytes | None] = [json.dumps([due, text]).encode() for due, text, _ in jobs]
    delays: list[timedelta | None] = [timedelta(seconds=delay) for *_, delay in jobs]
    LOOP.run_until_complete(queries().enqueue(["work"] * len(jobs), bodies, [0] * len(jobs), delays))


def left() -> int:
    return counted("pgqueuer")


async def serve() -> None:
    app = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(URL))

    @app.entrypoint("work")
    async def handle(job: Job) -> None:
        await awork(*json.loads(job.payload or b""))

    # Batches of the number of coroutines; more at once than twice as many it does not take.
    await app.run(timedelta(seconds=0.1), batch_size=CONCURRENCY, max_concurrent_tasks=2 * CONCURRENCY)


if __name__ == "__main__":
    LOOP.run_until_complete(queries().install() if sys.argv[1:] == ["schema"] else serve())
