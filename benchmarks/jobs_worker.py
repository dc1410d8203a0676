"""A worker process with a no-op handler; at its end it writes down what it saw.

usage: python -m benchmarks.jobs_worker URL REPORT
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pywheel import JobQueue, Tally, Worker


def _trace(count: Callable[[str], None]) -> None:
    """Have every statement of the stores opened from now on counted."""
    from pywheel.stores.sqlite import connection, database, queries

    connect = connection.connect

    def traced(path: str, **options: bool) -> sqlite3.Connection:
        made = connect(path, **options)
        made.set_trace_callback(count)
        return made

    for module in (database, queries):
        module.connect = traced  # type: ignore[attr-defined]


def main(url: str, report: str) -> None:
    """Work until told to stop."""
    began = time.time()
    tally = Tally()
    statements = [0]
    first: list[float] = []

    def count(statement: str) -> None:
        statements[0] += 1

    if report.endswith("idle.json"):
        _trace(count)
    queue = JobQueue(url, metrics=tally)

    @queue.handler("t", concurrency=8)
    def handle(job: object) -> None:
        if not first:
            first.append(time.time() - began)
            Path(f"{report}.first").write_text(str(first[0]))

    worker = Worker(queue)
    worker.start()
    Path(f"{report}.ready").touch()
    idle = (time.process_time(), time.monotonic(), 0)
    import signal
    import threading

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def settled(*_: object) -> None:
        nonlocal idle
        idle = (time.process_time(), time.monotonic(), statements[0])

    signal.signal(signal.SIGUSR1, settled)
    while not stop.wait(1_000):
        pass
    seconds = time.monotonic() - idle[1]
    cpu, asked = time.process_time() - idle[0], statements[0] - idle[2]
    worker.stop()
    worker.join()
    late = sorted(value for (name, _), values in tally.values.items() if name == "lateness" for value in values)
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    result = {"late": late, "idle_seconds": seconds, "cpu": cpu, "queries": asked, "rss": rss}
    Path(report).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
