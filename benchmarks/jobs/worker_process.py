"""A worker process; at its end it writes down what it saw.

usage: python -m benchmarks.jobs.worker_process URL REPORT [OPTIONS]

The options are JSON: `topics`, a list, or how many; `listened`, those whose lateness counts; `handler`, a name from
`HANDLERS`; `handling` and `working`, what the handler's registration (a limit as a list) and the worker take; `listens`
and `counts`, whether it notes lateness and statements; `wait`, a file before which it does not begin.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import pack
from typing import Any

from benchmarks.resident import resident_bytes
from pywheel import Fixed, Job, JobQueue, Limit, Worker
from pywheel.events import Event, JobStarted

_BEGAN = time.time()


def nothing(report: str) -> Callable[[Job], None]:
    """Return a handler that does nothing; the first call is written down."""
    first: list[float] = []

    def handle(job: Job) -> None:
        if not first:
            first.append(time.time() - _BEGAN)
            Path(f"{report}.first").write_text(str(first[0]))

    return handle


def sleeps(_: str) -> Callable[[Job], Awaitable[None]]:
    """Return a coroutine function that waits for 2 ms."""

    async def handle(_: Job) -> None:
        await asyncio.sleep(0.002)

    return handle


def computes(_: str) -> Callable[[Job], None]:
    """Return a handler that is at work in Python for 0.2 ms."""

    def handle(_: Job) -> None:
        end = time.thread_time_ns() + 200_000
        while time.thread_time_ns() < end:
            pass

    return handle


def runs_and_tells(report: str) -> Callable[[Job], None]:
    """Return a handler that writes down when it begins, and takes the seconds that its body says."""
    file = os.open(f"{report}.starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(job: Job) -> None:
        os.write(file, b"%d %f\n" % (job.id, time.time()))
        time.sleep(float(job.body))

    return handle


HANDLERS: dict[str, Callable[[str], Callable[[Job], Any]]] = {
    "nothing": nothing,
    "sleeps": sleeps,
    "computes": computes,
    "runs_and_tells": runs_and_tells,
}


class Statements:
    """A counter of the statements to SQLite, on every connection that is opened from now on."""

    def __init__(self) -> None:
        self.count = 0
        connect: Any = sqlite3.connect

        def traced(*arguments: Any, **more: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **more)
            connection.set_trace_callback(self._add)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]

    def _add(self, _: str) -> None:
        self.count += 1


def main(url: str, report: str, given: str = "{}") -> None:
    """Work until told to stop."""
    options = json.loads(given)
    statements = Statements() if options.get("counts") else None
    late = Path(f"{report}.late").open("wb")  # a file, as memory is measured  # noqa: SIM115
    topics = options.get("topics", ["t"])
    names = topics if isinstance(topics, list) else [f"t{number}" for number in range(topics)]
    listened = set(options.get("listened", names))

    def listen(event: Event) -> None:
        if isinstance(event, JobStarted) and event.job.topic in listened:
            late.write(pack("d", event.late))

    queue = JobQueue(url, listeners=[listen] if options.get("listens", True) else [])
    handle = HANDLERS[options.get("handler", "nothing")](report)
    handling = {"concurrency": 8, "retry": Fixed(0), **options.get("handling", {})}
    if "limit" in handling:
        handling["limit"] = Limit(*handling["limit"])
    for topic in names:
        queue.handler(topic, **handling)(handle)
    worker = Worker(queue, **options.get("working", {}))
    Path(f"{report}.ready").touch()
    while "wait" in options and not Path(options["wait"]).exists():
        time.sleep(0.001)
    worker.start()
    idle = (time.process_time(), time.monotonic(), 0)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def settled(*_: object) -> None:
        nonlocal idle
        idle = (time.process_time(), time.monotonic(), statements.count if statements else 0)

    signal.signal(signal.SIGUSR1, settled)
    while not stop.wait(1_000):
        pass
    seconds = time.monotonic() - idle[1]
    cpu, asked = time.process_time() - idle[0], (statements.count if statements else 0) - idle[2]
    worker.stop()
    worker.join()
    late.close()
    seen = sorted(array("d", Path(late.name).read_bytes()))
    result = {"late": seen, "idle_seconds": seconds, "cpu": cpu, "queries": asked, "rss": resident_bytes()}
    Path(report).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
