"""RQ on Redis."""

from __future__ import annotations

import os
from datetime import timedelta

from redis import Redis
from rq import Queue

from benchmarks.queues.record import record

queue = Queue(connection=Redis.from_url(os.environ["JOBS_URL"]))


def put(body: str, delay: float) -> None:
    if delay:
        queue.enqueue_in(timedelta(seconds=delay), record, body, result_ttl=0)
    else:
        queue.enqueue(record, body, result_ttl=0)
