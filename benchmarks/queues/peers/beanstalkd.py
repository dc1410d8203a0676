"""beanstalkd through greenstalk: client, and worker when run. The call is JSON of ours, as the queue knows no calls."""

from __future__ import annotations

import json
import os
import threading
from functools import cache

import greenstalk

from benchmarks.queues.handler import CONCURRENCY, work

GRAIN = 1  # delays are whole seconds


@cache
def connection() -> greenstalk.Client:
    return connect()


def connect() -> greenstalk.Client:
    host, port = os.environ["JOBS_URL"].split(":")
    return greenstalk.Client((host, int(port)))


def put(due: float, text: str, delay: float) -> None:
    connection().put(json.dumps([due, text]), delay=round(delay))


def left() -> int:
    about = connection().stats_tube("default")
    return int(about["current-jobs-ready"]) + int(about["current-jobs-reserved"])


def serve() -> None:
    client = connect()
    while True:
        job = client.reserve()
        work(*json.loads(job.body))
        client.delete(job)


if __name__ == "__main__":
    for _ in range(CONCURRENCY):
        threading.Thread(target=serve).start()
