"""The lateness of jobs, and the cost of an idle worker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import percentiles, start, worker
from benchmarks.jobs.put import delay, fill
from pywheel import JobQueue


def lateness(url: str, folder: Path, count: int, batch: int = 1) -> dict[str, Any]:
    """Put jobs due in 5 to 20 s, one by one or some at once, beside a worker process."""
    report = folder / "late.json"
    with JobQueue(url) as queue, worker(url, report):
        for _ in range(0, count, batch):
            queue.put_many([queue.job("t", BODY, delay=delay()) for _ in range(batch)])
        while queue.topics.counts()["t"].done < count:
            time.sleep(0.5)
    return percentiles(report)


def near(url: str, folder: Path, count: int = 1_000) -> dict[str, Any]:
    """Put jobs due in 50 ms from another process, one every 5 ms."""
    report = folder / "near.json"
    with JobQueue(url) as queue, worker(url, report):
        time.sleep(0.5)
        for _ in range(count):
            queue.put("t", BODY, delay=0.05)
            time.sleep(0.005)
        while queue.topics.counts()["t"].done < count:
            time.sleep(0.1)
    return percentiles(report)


def beside_a_producer(url: str, folder: Path, count: int = 3_000) -> dict[str, Any]:
    """The same with a third process that puts far jobs as fast as it can."""
    report = folder / "beside.json"
    code = f"from pywheel import JobQueue\nq = JobQueue({url!r})\nwhile True: q.put('far', b'x' * 128, delay=9999)"
    with JobQueue(url) as queue, worker(url, report):
        queue.put_many(queue.job("t", BODY, delay=2 + 8 * n / count) for n in range(count))
        busy = subprocess.Popen([sys.executable, "-c", code])
        try:
            time.sleep(10.5)
            while queue.topics.counts()["t"].done < count:
                time.sleep(0.5)
            puts = queue.topics.counts()["far"].delayed
        finally:
            busy.kill()
            busy.wait()
    return {**percentiles(report), "puts_a_second": puts / 10.5}


def idle(url: str, folder: Path, stored: int, seconds: float) -> dict[str, float]:
    """Return the cost of a worker while all jobs are far."""
    report = folder / "idle.json"
    fill(url, stored)
    with worker(url, report, counts=True) as process:
        time.sleep(3)
        process.send_signal(signal.SIGUSR1)  # the worker counts from here on
        time.sleep(seconds)
    result = json.loads(report.read_text())
    spent = result["idle_seconds"]
    return {
        "queries/s": result["queries"] / spent,
        "cpu %": 100 * result["cpu"] / spent,
        "rss MB": result["rss"] / 1e6,
    }


def first_delivery(url: str, folder: Path, stored: int) -> dict[str, float]:
    """Return the seconds from the start of a worker's program to its first handler, and the same after a kill -9."""
    fill(url, stored)
    found = {}
    for name in ("start", "after kill -9"):
        with JobQueue(url) as queue:
            queue.put_many(queue.job("t", BODY) for _ in range(20_000))
        report = folder / f"first {name}.json"
        process = start(url, report)
        first = Path(f"{report}.first")
        while not first.exists() or not first.read_text():
            time.sleep(0.002)
        found[name] = float(first.read_text())
        process.kill()
        process.wait()
    return found
