"""How many jobs of a topic are in which state, kept with the jobs themselves.

A single plain put is one statement, and touches no other row: so the topics' rows count the jobs up to an id, and those
behind it, the *tail*, are counted when somebody asks. Each job of the tail was put since, and nothing else happened to
it. Whoever changes a job's state counts the tail too, and every 1 024th put does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
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
    """What a transaction changes of the counts. Plain lists: it is on the way of every put with a key."""

    __slots__ = ("_first", "_last", "_moved", "_put")

    def __init__(self) -> None:
        self._moved: list[tuple[int, int, int]] = []  # topic, state, by how many
        self._put: list[tuple[int, int]] = []  # topic, how many
        self._first = _END  # the jobs that this transaction put; nobody else does meanwhile
        self._last = 0

    def put(self, first: int, last: int, topics: Iterable[tuple[int, int]]) -> None:
        """Note that jobs were put, with these ids, so many of each topic."""
        self._first = min(self._first, first)
        self._last = last
        self._put += topics

    def moved(self, topic: int, before: int, after: int | None, jobs: int = 1) -> None:
        """Note that jobs of a topic changed their state, or with None were forgotten."""
        self._moved.append((topic, before, -jobs))
        if after is not None:
            self._moved.append((topic, after, jobs))

    def store(self, connection: sqlite3.Connection) -> None:
        """Write what was noted; a few jobs that were put alone are left to the tail."""
        if self._moved or self._last // TAIL > (self._first - 1) // TAIL:
            self.fold(connection)

    def fold(self, connection: sqlite3.Connection) -> None:
        """Write what was noted, and count the tail. Before jobs are forgotten: they may belong to it."""
        tail = connection.execute(SQL["count_tail"], (self._first,)).fetchall()
        rows: dict[int, list[int]] = {}  # by topic: live, done, cancelled, dead, topic
        for topic, state, jobs in [*self._moved, *((topic, LIVE, jobs) for topic, jobs in [*tail, *self._put])]:
            rows.setdefault(topic, [0, 0, 0, 0, topic])[state] += jobs
        if len(rows) == 1:
            connection.execute(SQL["count"], *rows.values())
        elif rows:
            connection.executemany(SQL["count"], list(rows.values()))
        if tail or self._put:
            connection.execute(SQL["counted"])
        self._moved, self._put = [], []
        self._first, self._last = _END, 0
