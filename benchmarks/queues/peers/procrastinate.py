"""procrastinate on PostgreSQL."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from procrastinate import App, PsycopgConnector

from benchmarks.queues.record import record

app = App(connector=PsycopgConnector(conninfo=os.environ["JOBS_URL"]))


@app.task(name="handle")
async def handle(body: str) -> None:
    record(body)


@cache
def opened() -> App:
    return app.open()


opened_async = app.open_async


def due(app: App, delay: float) -> Any:
    return app.configure_task("handle", **({"schedule_in": {"milliseconds": round(1000 * delay)}} if delay else {}))


def put(body: str, delay: float) -> None:
    due(opened(), delay).defer(body=body)


async def aput(body: str, delay: float) -> None:
    await due(app, delay).defer_async(body=body)


def put_many(jobs: list[tuple[str, float]]) -> None:
    """A batch has one moment: the first job's."""
    due(opened(), jobs[0][1]).batch_defer(*({"body": body} for body, _ in jobs))
