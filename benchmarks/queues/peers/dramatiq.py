"""Dramatiq on Redis."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.queues.record import record

dramatiq.set_broker(RedisBroker(url=os.environ["JOBS_URL"]))
handle = dramatiq.actor(record)


def put(body: str, delay: float) -> None:
    handle.send_with_options(args=(body,), delay=round(1000 * delay) or None)
