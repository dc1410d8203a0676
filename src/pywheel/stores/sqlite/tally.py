"""How many jobs of a topic are in which state, kept with the jobs themselves.

A single plain put is one statement, and touches no other row: so the topics' rows count the jobs up to an id, and those
behind it, the *tail*, are counted when somebody asks. Each job of the tail was put since, and nothing else happened to
it. Whoever changes a job's state counts the tail too, and every 1 024th put does.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection
from typing import Final

from .statements import SQL

__all__ = ["CANCELLED", "DEAD", "DONE", "LIVE", "TAIL", "Tally"]

LIVE: Final = 0
DONE: Final = 1
CANCELLED: Final = 2
DEAD: Final = 3
TAIL: Final = 1_024
_END: Final = 2**63 - 1


class Tally:
    """What a transaction changes of the counts."""

    __slots__ = ("_changes", "_first", "_last", "_put")

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()  # by topic and state
        self._put: Counter[int] = Counter()  # by topic
        self._first = _END  # the jobs that this transaction put; nobody else does meanwhile
        self._last = 0

    def put(self, first: int, topics: Counter[int]) -> None:
        """Note that jobs were put, from this id on, so many of each topic."""
        self._first = min(self._first, first)
        self._last = first + topics.total() - 1
        self._put += topics

    def moved(self, topic: int, before: int, after: int | None, jobs: int = 1) -> None:
        """Note that jobs of a topic changed their state, or with None were forgotten."""
        self._changes[topic, before] -= jobs
        if after is not None:
            self._changes[topic, after] += jobs

    def store(self, connection: sqlite3.Connection) -> None:
        """Write what was noted; a few jobs that were put alone are left to the tail."""
        if self._changes or self._last // TAIL > (self._first - 1) // TAIL:
            self.fold(connection)

    def fold(self, connection: sqlite3.Connection) -> None:
        """Write what was noted, and count the tail. Before jobs are forgotten: they may belong to it."""
        tail = Counter(dict(connection.execute(SQL["count_tail"], (self._first,)).fetchall()))
        for topic, jobs in (tail + self._put).items():
            self._changes[topic, LIVE] += jobs
        rows = [[self._changes[topic, state] for state in range(4)] + [topic] for topic in self._topics()]
        if len(rows) == 1:
            connection.execute(SQL["count"], rows[0])
        elif rows:
            connection.executemany(SQL["count"], rows)
        if tail or self._put:
            connection.execute(SQL["counted"])
        self._changes.clear()
        self._put.clear()
        self._first, self._last = _END, 0

    def _topics(self) -> Collection[int]:
        return sorted({topic for topic, _ in self._changes})
