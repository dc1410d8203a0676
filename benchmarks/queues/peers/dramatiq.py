"""Dramatiq on Redis."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.queues.handler import work

broker = RedisBroker(url=os.environ["JOBS_URL"])
dramatiq.set_broker(broker)
handle = dramatiq.actor(work)


def put(due: float, text: str, delay: float) -> None:
    handle.send_with_options(args=(due, text), delay=round(1000 * delay) or None)


def left() -> int:
    return int(broker.client.hlen("dramatiq:default.msgs"))
