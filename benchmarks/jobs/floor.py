"""What the disk and SQLite themselves need, beside which every figure of the jobs is to be read."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from statistics import median

from pywheel.jobs import JobQueue
from pywheel.stores.sqlite.statements import SQL

BODY = b"x" * 128


def fsync_p50(folder: Path, rounds: int = 300) -> float:
    """Return the median seconds of a 4 KB write with fdatasync."""
    file = os.open(folder / "fsync", os.O_RDWR | os.O_CREAT)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        os.pwrite(file, b"x" * 4096, 0)
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
    os.close(file)
    return median(times)


def wake_p99(rounds: int = 500) -> float:
    """Return the seconds by which a sleep of 1 ms lasts longer, at p99: no delivery can be more punctual than that."""
    late = []
    for _ in range(rounds):
        began = time.perf_counter()
        time.sleep(0.001)
        late.append(time.perf_counter() - began - 0.001)
    return sorted(late)[rounds * 99 // 100]


class RawInserts:
    """The statement of a put on a bare connection, on a file with the same tables and settings."""

    def __init__(self, folder: Path) -> None:
        self._queue = JobQueue(f"sqlite:///{folder}/floor.db")
        self._queue.put("t", BODY)
        self._execute = self._queue.store._connection.execute  # type: ignore[attr-defined]
        self._draw = random.Random(1)

    def insert(self, count: int) -> None:
        """Insert rows one by one, each in a transaction of its own."""
        for _ in range(count):
            due = time.time_ns() // 1_000_000 + self._draw.randrange(5_000, 20_000)
            self._execute(SQL["put_plain"], (1, due, 7_000, BODY))

    def insert_many(self, count: int) -> None:
        """Insert rows in one transaction, by `executemany`."""
        now = time.time_ns() // 1_000_000
        rows = [(1, now + self._draw.randrange(5_000, 20_000), 7_000, BODY) for _ in range(count)]
        self._execute("BEGIN IMMEDIATE")
        self._queue.store._connection.executemany(SQL["put_plain"], rows)  # type: ignore[attr-defined]
        self._execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._queue.close()
