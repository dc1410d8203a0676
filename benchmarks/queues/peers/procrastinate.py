"""procrastinate on PostgreSQL."""

from __future__ import annotations

import os
from functools import cache

from procrastinate import App, PsycopgConnector

from benchmarks.queues.record import record

app = App(connector=PsycopgConnector(conninfo=os.environ["JOBS_URL"]))


@app.task(name="handle")
async def handle(body: str) -> None:
    record(body)


@cache
def opened() -> App:
    return app.open()


def put(body: str, delay: float) -> None:
    when = {"schedule_in": {"milliseconds": round(1000 * delay)}} if delay else {}
    opened().configure_task("handle", **when).defer(body=body)
