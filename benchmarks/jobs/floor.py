"""The floor of SQLite: the statement of a put on a bare connection."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Protocol

from pywheel import JobQueue
from pywheel.stores.sqlite.connection import connect

BODY = b"x" * 128
PUT = "INSERT INTO job (topic, next, created, body) VALUES (?, ?, ?, ?)"


class Floor(Protocol):
    """Inserts without pywheel, by the driver that it uses."""

    def insert(self, count: int) -> None:
        """Insert rows one by one, each in a transaction of its own."""

    def insert_many(self, count: int) -> None:
        """Insert rows in one transaction, in the fastest way that the driver has."""

    def close(self) -> None:
        """Close the connection."""


class RawInserts:
    """The statement of a put on a bare connection, on a file with the same tables and settings."""

    def __init__(self, folder: Path) -> None:
        path = f"{folder}/floor.db"
        with JobQueue(f"sqlite:///{path}") as queue:
            queue.put("t", BODY)
        self._connection = connect(path)
        self._execute = self._connection.execute
        self._draw = random.Random(1)

    def insert(self, count: int) -> None:
        """Insert rows one by one, each in a transaction of its own."""
        for _ in range(count):
            self._execute(PUT, self._row(time.time_ns() // 1_000_000))

    def insert_many(self, count: int) -> None:
        """Insert rows in one transaction, by `executemany`."""
        now = time.time_ns() // 1_000_000
        rows = [self._row(now) for _ in range(count)]
        self._execute("BEGIN IMMEDIATE")
        self._connection.executemany(PUT, rows)
        self._execute("COMMIT")

    def _row(self, now: int) -> tuple[int, int, int, bytes]:
        return 1, now + self._draw.randrange(5_000, 20_000), now, BODY

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
