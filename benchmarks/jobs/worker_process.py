"""A worker process with a no-op handler; at its end it writes down what it saw.

usage: python -m benchmarks.jobs.worker_process URL REPORT
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from pathlib import Path

from benchmarks.resident import resident_bytes
from pywheel import JobQueue, Worker
from pywheel.events import Event, JobStarted


def main(url: str, report: str) -> None:
    """Work until told to stop."""
    began = time.time()
    lateness: list[float] = []
    statements = [0]
    first: list[float] = []

    def note(event: Event) -> None:
        if isinstance(event, JobStarted):
            lateness.append(event.late)

    queue = JobQueue(url, listeners=[note])

    def count(statement: str) -> None:
        statements[0] += 1

    @queue.handler("t", concurrency=8)
    def handle(job: object) -> None:
        if not first:
            first.append(time.time() - began)
            Path(f"{report}.first").write_text(str(first[0]))

    if report.endswith("idle.json"):
        queue.store._connection.set_trace_callback(count)  # type: ignore[attr-defined]
        queue.store._reader._connection.set_trace_callback(count)  # type: ignore[attr-defined]
    worker = Worker(queue)
    worker.start()
    Path(f"{report}.ready").touch()
    idle = (time.process_time(), time.monotonic(), 0)
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
    result = {"late": sorted(lateness), "idle_seconds": seconds, "cpu": cpu, "queries": asked, "rss": resident_bytes()}
    Path(report).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
