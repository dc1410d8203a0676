"""procrastinate on PostgreSQL."""

from __future__ import annotations

import os
from functools import cache

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks.job_peers.record import record

URL = os.environ["JOBS_URL"]
app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="handle")
async def handle(body: str) -> None:
    record(body)


@cache
def opened() -> App:
    sync = app.with_connector(SyncPsycopgConnector(conninfo=URL))
    sync.open()
    return sync


def put(body: str, delay: float) -> None:
    when = {"schedule_in": {"milliseconds": round(1000 * delay)}} if delay else {}
    opened().configure_task("handle", **when).defer(body=body)
