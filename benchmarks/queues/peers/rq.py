"""RQ on Redis."""

from __future__ import annotations

import os
from datetime import timedelta

from redis import Redis
from rq import Queue

from benchmarks.queues.handler import work

queue = Queue(connection=Redis.from_url(os.environ["JOBS_URL"]))


def put(due: float, text: str, delay: float) -> None:
    if delay:
        queue.enqueue_in(timedelta(seconds=delay), work, due, text, result_ttl=0)
    else:
        queue.enqueue(work, due, text, result_ttl=0)


def put_many(jobs: list[tuple[float, str, float]]) -> None:
    """Without delays, which a batch has not."""
    queue.enqueue_many([Queue.prepare_data(work, (due, text), result_ttl=0) for due, text, _ in jobs])


def left() -> int:
    return queue.count + queue.started_job_registry.get_job_count(cleanup=False)
