"""The floors of SQLite: the statements of a put, and of a delivery, on a bare connection.

`python -m benchmarks.jobs.floor` prints how many a second they are.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from pywheel import JobQueue
from pywheel.stores.sql.claim import _START
from pywheel.stores.sql.settle import _FINISH, _HELD, _RECEIPTS
from pywheel.stores.sql.statement import WriteJobs
from pywheel.stores.sqlite.connection import connect
from pywheel.stores.sqlite.dialect import SQLITE

BODY = b"x" * 128
PUT = "INSERT INTO job (topic, next, created, body) VALUES (?, ?, ?, ?)"
_DUE: Final = SQLITE.text(
    "SELECT id, claims, body FROM job WHERE state = 0 AND topic = 1 AND priority = 0 AND next <= {now} "
    "ORDER BY next, id LIMIT :most"
)
_CLAIM: Final = SQLITE.changed(WriteJobs(_START, "{w: id}", "+j.state = 0", {}), alike=True, few=False)[1]
_ACK: Final = SQLITE.changed(WriteJobs(_FINISH, _RECEIPTS, _HELD, {}), alike=True, few=False)[1]
_DROP: Final = SQLITE.text("DELETE FROM job WHERE id {in w}")
_LEASE: Final = 60_000  # ms


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

    def deliver(self, most: int) -> int:
        """Claim and settle all that is due, so many jobs a transaction, each beside the acks of those before."""
        before, done = "[]", 0
        while True:
            now = time.time_ns() // 1_000_000
            self._execute("BEGIN IMMEDIATE")
            self._execute(_ACK, {"w": before, "w_claims": 1, "now": now})
            self._execute(_DROP, {"w": before})
            rows = self._execute(_DUE, {"now": now, "most": most}).fetchall()
            before = json.dumps([id for id, *_ in rows])
            lease = {"w_next": now + _LEASE, "w_begun": 1, "w_tries": 10, "w_backoff": 5_000}
            self._execute(_CLAIM, {"w": before, "started": now, "worker": 1, "jitter": 0.1, **lease})
            self._execute("COMMIT")
            if not rows:
                return done
            done += len(rows)

    def make_due(self) -> None:
        """Let all jobs be due now."""
        self._execute("UPDATE job SET next = 0")

    def _row(self, now: int) -> tuple[int, int, int, bytes]:
        return 1, now + self._draw.randrange(5_000, 20_000), now, BODY

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _rate(count: int, work: Callable[[], object]) -> str:
    began = time.perf_counter()
    work()
    return f"{count / (time.perf_counter() - began):,.0f}"


def _main(count: int = 20_000) -> None:
    with TemporaryDirectory() as folder:
        floor = RawInserts(Path(folder))
        print("inserts one by one, a second:", _rate(count // 10, lambda: floor.insert(count // 10)))
        print("in one transaction:", _rate(count, lambda: floor.insert_many(count)))
        floor.make_due()
        all_of_them = count + count // 10 + 1  # one that `RawInserts` has put
        print("claimed and settled, by 1 000:", _rate(all_of_them, lambda: floor.deliver(1_000)))
        floor.close()


if __name__ == "__main__":
    _main()
