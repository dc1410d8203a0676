"""beanstalkd through greenstalk: client, and worker when run."""

from __future__ import annotations

import os
import threading
from functools import cache

import greenstalk

from benchmarks.queues.record import record

GRAIN = 1  # delays are whole seconds


@cache
def connection() -> greenstalk.Client:
    return connect()


def connect() -> greenstalk.Client:
    host, port = os.environ["JOBS_URL"].split(":")
    return greenstalk.Client((host, int(port)))


def put(body: str, delay: float) -> None:
    connection().put(body, delay=round(delay))


def work() -> None:
    client = connect()
    while True:
        job = client.reserve()
        record(job.body)
        client.delete(job)


if __name__ == "__main__":
    for _ in range(8):
        threading.Thread(target=work).start()
