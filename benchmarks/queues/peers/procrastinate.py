"""procrastinate on PostgreSQL."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.queues.handler import awork
from benchmarks.queues.peers.postgres import counted

app = App(connector=PsycopgConnector(conninfo=os.environ["JOBS_URL"]))
app.task(name="work")(awork)


@cache
def opened() -> App:
    return app.open()


opened_async = app.open_async


def due_in(app: App, delay: float) -> Any:
    return app.configure_task("work", **({"schedule_in": {"milliseconds": round(1000 * delay)}} if delay else {}))


def put(due: float, text: str, delay: float) -> None:
    due_in(opened(), delay).defer(due=due, text=text)


async def aput(due: float, text: str, delay: float) -> None:
    await due_in(app, delay).defer_async(due=due, text=text)


def put_many(jobs: list[tuple[float, str, float]]) -> None:
    """A batch has one moment: the first job's."""
    due_in(opened(), jobs[0][2]).batch_defer(*({"due": due, "text": text} for due, text, _ in jobs))


def left() -> int:
    return counted("procrastinate_jobs WHERE status IN ('todo', 'doing')")
