"""Celery on Redis."""

from __future__ import annotations

import os

from celery import Celery
from redis import Redis

from benchmarks.queues.handler import work

app = Celery("peer", broker=os.environ["JOBS_URL"])
app.conf.update(
    broker_transport_options={"visibility_timeout": 3_600},
    task_acks_late=True,  # or a killed worker loses what it has begun
    task_ignore_result=True,
    worker_prefetch_multiplier=64,  # for many short tasks
)
handle = app.task(work, name="work")
store = Redis.from_url(os.environ["JOBS_URL"])


def put(due: float, text: str, delay: float) -> None:
    handle.apply_async((due, text), countdown=delay or None)


def left() -> int:
    waiting, taken = store.pipeline().llen("celery").hlen("unacked").execute()
    return int(waiting + taken)
