"""Celery on Redis."""

from __future__ import annotations

import os

from celery import Celery

from benchmarks.queues.record import record

app = Celery("peer", broker=os.environ["JOBS_URL"])
app.conf.update(
    broker_transport_options={"visibility_timeout": 3 * 86_400},  # longer than the longest delay, as its pages ask for
    task_ignore_result=True,
    worker_prefetch_multiplier=64,  # for many short tasks
)
handle = app.task(record, name="handle")


def put(body: str, delay: float) -> None:
    handle.apply_async((body,), countdown=delay or None)
