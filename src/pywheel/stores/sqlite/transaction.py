"""One write transaction: what its commands share."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from ...jobs.job import Outcome, State
from .statements import SQL
from .tally import Tally

__all__ = ["FINISHED", "OUTCOMES", "Names", "Transaction"]

FINISHED = (State.DONE, State.CANCELLED, State.DEAD)
"""The states that the column `state` numbers; NULL is a live job."""
OUTCOMES = (Outcome.DONE, Outcome.CANCELLED, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED)
"""The outcomes that the column `outcome` numbers."""

_HINTS_KEPT = 10_000


class Names:
    """Names of topics or workers and their numbers, which never change once committed."""

    def __init__(self, find: str, add: str) -> None:
        self._find, self._add = SQL[find], SQL[add]
        self._known: dict[str, int] = {}

    def number(self, connection: sqlite3.Connection, name: str) -> int:
        """Return the number of a name; a new one is stored."""
        number = self._known.get(name)
        if number is None:
            row = (
                connection.execute(self._find, (name,)).fetchone() or connection.execute(self._add, (name,)).fetchone()
            )
            number = self._known[name] = row[0]
        return number

    def known(self, name: str) -> int | None:
        """Return the number of a name if it is at hand; it is committed then, outside a transaction."""
        return self._known.get(name)

    def forget(self) -> None:
        """Know no number any more: some may have been rolled back."""
        self._known.clear()


class Transaction:
    """A transaction under way, and what is to be told about it afterwards."""

    __slots__ = (
        "connection",
        "first_beyond",
        "first_hinted",
        "hinted",
        "horizon",
        "now",
        "tally",
        "topics",
        "workers",
    )

    def __init__(self, connection: sqlite3.Connection, now: int, topics: Names, workers: Names, horizon: int) -> None:
        self.connection = connection
        self.now = now
        self.topics = topics
        self.workers = workers
        self.tally = Tally()
        self.horizon = horizon  # up to which due times somebody wants hints; it may move on meanwhile
        self.hinted: list[int] = []
        self.first_hinted: int | None = None  # the earliest due time with a hint
        self.first_beyond: int | None = None  # the earliest without, as nobody wanted it then

    def rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run a statement and return all its rows."""
        return self.connection.execute(SQL[name], parameters).fetchall()

    def row(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """Run a statement and return its first row, or None."""
        return self.connection.execute(SQL[name], parameters).fetchone()

    def run(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return self.connection.execute(SQL[name], parameters).rowcount

    def run_many(self, name: str, rows: Sequence[Any]) -> None:
        """Run a statement for each row of parameters."""
        if len(rows) == 1:
            self.connection.execute(SQL[name], rows[0])
        elif rows:
            self.connection.executemany(SQL[name], rows)

    def topic(self, name: str) -> int:
        """Return the number of a topic."""
        return self.topics.number(self.connection, name)

    def changed(self, id: int, topic: int, due: int) -> None:
        """Note that a job is, or was until now, due then."""
        del topic
        if due <= self.horizon:
            self.hinted.append(id)
            if self.first_hinted is None or due < self.first_hinted:
                self.first_hinted = due
        elif self.first_beyond is None or due < self.first_beyond:
            self.first_beyond = due

    def changed_many(self, ids: Sequence[int], topic: int, dues: Sequence[int]) -> None:
        """Note the same of many jobs of a topic."""
        for id, due in zip(ids, dues, strict=True) if min(dues, default=2**63) <= self.horizon else ():
            self.changed(id, topic, due)

    def reload(self, topic: int = 0) -> None:
        """Note that a topic was paused or resumed."""

    def leased(self, until: int) -> None:
        """Note that a lease now ends then."""

    def expired(self, next_lease: int | None) -> None:
        """Note the earliest end of a lease that is not over, of all there are now."""

    def announced(self) -> None:
        """Note that workers came, went, or handle other topics."""

    def commit(self) -> None:
        """Write counts and hints, and commit."""
        self.tally.store(self.connection)
        self.connection.execute("COMMIT")
