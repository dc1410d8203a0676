"""huey on SQLite."""

from __future__ import annotations

import os

from huey import SqliteHuey

from benchmarks.queues.record import record

app = SqliteHuey(filename=os.environ["JOBS_URL"], fsync=True, results=False)
handle = app.task()(record)


def put(body: str, delay: float) -> None:
    if delay:
        handle.schedule((body,), delay=delay)
    else:
        handle(body)
