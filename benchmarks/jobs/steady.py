"""Hundreds of jobs a second for many minutes: nothing may grow, and no open transaction may make them late."""

from __future__ import annotations

import random
import sqlite3
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import of, percentiles, resident, until, worker
from pywheel import JobQueue

RATE = 500
_DRAW = random.Random(4)
Held = Callable[[str], AbstractContextManager[object]]


def soak(folder: Path, minutes: float) -> dict[str, Any]:
    """Return sizes in MB after a sixth of the time and at the end, with jobs that are kept for 1 min."""
    path, report = folder / "soak.db", folder / "soak.json"
    url = f"sqlite:///{path}"
    sizes: list[tuple[float, float]] = []
    with JobQueue(url) as queue, worker(url, report, working={"keep": "1m"}) as process:
        for part in (1 / 6, 5 / 6):
            _work(queue, part * minutes * 60)
            sizes.append((_size(path), resident(process)))
        _settle(queue)
    (early, memory), (late, memory_late) = sizes
    return {
        "file MB": early / 1e6,
        "at the end": late / 1e6,
        "memory MB": memory / 1e6,
        "then": memory_late / 1e6,
        **percentiles(report),
    }


def beside_a_transaction(url: str, folder: Path, held: Held, minutes: float) -> dict[str, float]:
    """Return how late jobs come at p99, in ms, in the first and the last minute, while a transaction stays open.

    `held` opens one in the database of an address. Of less than four minutes a quarter counts.
    """
    report = folder / "held.json"
    with JobQueue(url) as queue, worker(url, report):
        queue.put("t", BODY)
        until(lambda: queue.topics.counts()["t"].done == 1)
        with held(url):
            _work(queue, 60 * minutes)
            _settle(queue)
    late = array("d", Path(f"{report}.late").read_bytes())[1:]
    some = round(RATE * min(60, 15 * minutes))
    first, last = (of(1_000 * one for one in part)["p99"] for part in (late[:some], late[-some:]))
    return {"first": first, "last": last, "ratio": last / first}


@contextmanager
def held_on_sqlite(url: str) -> Iterator[None]:
    """Hold a transaction open that has read the file of an address."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


def _work(queue: JobQueue, seconds: float) -> None:
    """Put jobs that are due in 1 to 5 s, 20 times a second."""
    began = time.monotonic()
    for turn in range(round(20 * seconds)):
        queue.put_many([queue.job("t", BODY, delay=_DRAW.uniform(1, 5)) for _ in range(RATE // 20)])
        time.sleep(max(began + turn / 20 - time.monotonic(), 0))


def _settle(queue: JobQueue) -> None:
    until(lambda: queue.topics.counts()["t"].delayed == queue.topics.counts()["t"].running == 0, 0.2)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, Path(f"{path}-wal")))
