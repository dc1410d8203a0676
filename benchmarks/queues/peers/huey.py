"""huey on SQLite."""

from __future__ import annotations

import os

from huey import SqliteHuey

from benchmarks.queues.handler import work

app = SqliteHuey(filename=os.environ["JOBS_URL"], fsync=True, results=False)
handle = app.task()(work)


def put(due: float, text: str, delay: float) -> None:
    if delay:
        handle.schedule((due, text), delay=delay)
    else:
        handle(due, text)


def left() -> int:
    """Return how many jobs have not begun: begun jobs are in no store."""
    return app.pending_count()  # type: ignore[no-any-return]
