"""arq on Redis: client, and settings of its worker."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from functools import cache
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings

from benchmarks.queues.handler import CONCURRENCY, awork

LOOP = asyncio.new_event_loop()
SETTINGS = RedisSettings.from_dsn(os.environ["JOBS_URL"])


async def work(_: Any, due: float, text: str) -> None:
    await awork(due, text)


class Settings:
    functions = (work,)
    redis_settings = SETTINGS
    max_jobs = CONCURRENCY
    poll_delay = 0.1  # by default 0.5 s
    keep_result = 0


@cache
def pool() -> ArqRedis:
    return LOOP.run_until_complete(create_pool(SETTINGS))


async def _put(pool: ArqRedis, due: float, text: str, delay: float) -> None:
    await pool.enqueue_job("work", due, text, _defer_by=timedelta(seconds=delay) if delay else None)


def put(due: float, text: str, delay: float) -> None:
    LOOP.run_until_complete(_put(pool(), due, text, delay))


def left() -> int:
    return int(LOOP.run_until_complete(pool().zcard("arq:queue")))
