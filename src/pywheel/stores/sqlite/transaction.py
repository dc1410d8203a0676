"""One write transaction: what its commands share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Final

from ...jobs.commands import NONCES_KEPT
from ...jobs.job import SHARDS, Outcome, State
from .audience import Audience
from .presence import Presence
from .presence_page import HORIZON
from .statements import SQL
from .tally import Tally

__all__ = ["FINISHED", "OUTCOMES", "Names", "Transaction"]

FINISHED = (State.DONE, State.CANCELLED, State.DEAD)
"""The states that the column `state` numbers; NULL is a live job."""
OUTCOMES = (Outcome.DONE, Outcome.CANCELLED, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED)
"""The outcomes that the column `outcome` numbers."""

_HINTS_KEPT: Final = 10_000
_ALL: Final = -1  # the slot of hints for everybody
_NEVER: Final = 2**63 - 1


class Names:
    """Names of topics or workers and their numbers, which never change once committed."""

    def __init__(self, find: str, add: str) -> None:
        self._find, self._add = SQL[find], SQL[add]
        self._known: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def number(self, connection: sqlite3.Connection, name: str) -> int:
        """Return the number of a name; a new one is stored."""
        number = self._known.get(name)
        if number is None:
            row = (
                connection.execute(self._find, (name,)).fetchone() or connection.execute(self._add, (name,)).fetchone()
            )
            number = self._known[name] = row[0]
            self._names[number] = name
        return number

    def known(self, name: str) -> int | None:
        """Return the number of a name if it is at hand; it is committed then, outside a transaction."""
        return self._known.get(name)

    def name(self, number: int) -> str | None:
        """Return the name of a number if it is at hand."""
        return self._names.get(number)

    def forget(self) -> None:
        """Know no number any more: some may have been rolled back."""
        self._known.clear()
        self._names.clear()


class _Said:
    """What was noted of one topic."""

    __slots__ = ("audience", "beyond", "earliest", "words")

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.words = audience.page.words
        self.earliest = _NEVER  # of all that changed
        self.beyond: dict[int, int] = {}  # by slot, the earliest beyond its horizon, so without a hint


class Transaction:
    """A transaction under way, and what is to be told about it afterwards."""

    __slots__ = (
        "_announced",
        "_expired",
        "_hints",
        "_leased",
        "_leases",
        "_next_lease",
        "_paused",
        "_said",
        "connection",
        "now",
        "presence",
        "tally",
        "topics",
        "workers",
    )

    def __init__(
        self, connection: sqlite3.Connection, now: int, topics: Names, workers: Names, presence: Presence
    ) -> None:
        self.connection = connection
        self.now = now
        self.topics = topics
        self.workers = workers
        self.presence = presence
        self.tally = Tally()
        self._said: dict[int, _Said] = {}
        self._hints: list[tuple[int, int]] = []  # slot, job
        self._paused: list[int] = []
        self._announced: list[str] | None = None
        self._leased = False
        self._leases = 0  # given, as it was before the commit
        self._expired = False
        self._next_lease: int | None = None

    # ---- statements -------------------------------------------------------------------------------------------------

    def rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run a statement and return all its rows."""
        return self.connection.execute(SQL[name], parameters).fetchall()

    def each(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Iterator[Any]:
        """Run a statement and yield its rows as they are read."""
        with closing(self.connection.execute(SQL[name], parameters)) as cursor:
            yield from cursor

    def row(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """Run a statement and return its first row, or None."""
        return self.connection.execute(SQL[name], parameters).fetchone()

    def run(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> int:
        """Run a statement; return how many rows it changed."""
        return self.connection.execute(SQL[name], parameters).rowcount

    def topic(self, name: str) -> int:
        """Return the number of a topic."""
        return self.topics.number(self.connection, name)

    # ---- what changed -----------------------------------------------------------------------------------------------

    def changed(self, id: int, topic: int, due: int) -> None:
        """Note that a job of a topic, by number, is or was due then: its owner gets a hint if it looks so far."""
        said = self._said.get(topic) or self._heard(topic)
        if due < said.earliest:
            said.earliest = due
        if said.audience.owners:
            slot = said.audience.owners[id % SHARDS]
            if due <= said.words[HORIZON + slot]:
                self._hints.append((slot, id))
            else:
                _beyond(said, slot, due)

    def changed_many(self, ids: Sequence[int], topic: int, dues: Sequence[int]) -> None:
        """Note the same of many jobs of a topic. O(1) for each, less if all are far ahead."""
        if not ids:
            return
        said = self._said.get(topic) or self._heard(topic)
        earliest = min(dues)
        if earliest <= said.audience.furthest():
            for id, due in zip(ids, dues, strict=True):
                self.changed(id, topic, due)
            return
        said.earliest = min(said.earliest, earliest)
        for slot in said.audience.some:
            _beyond(said, slot, earliest)

    def _heard(self, topic: int) -> _Said:
        said = self._said[topic] = _Said(self.presence.audience(topic, self.topics.name(topic)))
        return said

    def reload(self, topic: int = 0) -> None:
        """Note that a topic, by number, was paused or resumed: all who handle it read again. 0 is any topic."""
        self._paused.append(topic)

    def announced(self, workers: list[str]) -> None:
        """Note that workers handle other topics, or none any more: all others look."""
        self._announced = workers

    def leased(self, until: int) -> None:
        """Note that a lease now ends then."""
        self._leased = True
        self.presence.leased(until)
        if self._next_lease is None or until < self._next_lease:
            self._next_lease = until

    def expired(self, next_lease: int | None) -> None:
        """Note the earliest end of a lease that is not over, of all there are now; later ones come by `leased`."""
        self._expired = True
        self._next_lease = next_lease

    def forget_nonces(self, limit: int) -> None:
        """Drop up to so many nonces of puts, if they are old enough."""
        self.run("nonces_forget", (limit, self.now - NONCES_KEPT))

    def forget_notes(self, limit: int) -> None:
        """Drop up to so many notes that are over."""
        self.run("notes_forget", (self.now, limit))

    # ---- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write counts and hints. The commit comes next."""
        self.tally.store(self.connection)
        hints = self._hints + [(_ALL, topic) for topic in self._paused]
        if hints:
            self._store_hints(hints)
        if not self._expired and self.presence.lease_unknown():
            self.expired(self.row("lease_first")[0])
        if self._expired:
            self._leases = self.presence.leases()

    def committed(self) -> None:
        """Say when the next lease ends, now that it is sure. Still in the turn."""
        if self._expired:
            self._raise_lease(self._leases)

    def _store_hints(self, hints: list[tuple[int, int]]) -> None:
        """Write hints, and now and then drop those that all have read, or will not miss."""
        if len(hints) == 1:
            self.run("hint_one", hints[0])
        else:
            self.run("hint_many", (json.dumps(hints),))
        [last] = self.row("hint_last")
        if last // _HINTS_KEPT != (last - len(hints)) // _HINTS_KEPT:
            self.run("hints_trim", (last - _HINTS_KEPT,))

    def _raise_lease(self, leases: int) -> None:
        """Set the next lease anew: after the commit, as that may fail; in a turn, as others may lease just now."""
        with suppress(sqlite3.Error):  # then it stays too early
            self.connection.execute("BEGIN IMMEDIATE")
            self.presence.expired(self._next_lease, leases)
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    def tell(self) -> None:
        """After the commit: ring whom it concerns. Raises nothing."""
        presence = self.presence
        try:
            if self._leased:
                presence.look(at_once=True)  # in a page that nobody uses any more, nobody would find the lease
            if self._announced is not None:
                presence.stir([presence.slot(worker) for worker in self._announced])
            rung = {slot for slot, _ in self._hints}
            for topic, said in self._said.items():
                rung |= self._missed(said, presence.audience(topic))
            for topic in self._paused:
                rung.update(presence.handling(topic))
            if rung:
                presence.ring(rung)
        except Exception:  # noqa: BLE001  (it is stored, whatever it is)
            presence.alarm()

    def _missed(self, said: _Said, audience: Audience) -> set[int]:
        """Have windows read again that reach out by now to what was stored without a hint; return their slots.

        Why that is all of them, see `audience`.
        """
        words = audience.page.words
        if audience.same(said.audience):
            missed = {slot for slot, due in said.beyond.items() if due <= words[HORIZON + slot]}
        else:
            missed = {slot for slot in audience.some if said.earliest <= words[HORIZON + slot]}
        for slot in missed:
            self.presence.reload(slot)
        return missed


def _beyond(said: _Said, slot: int, due: int) -> None:
    if due < said.beyond.get(slot, _NEVER):
        said.beyond[slot] = due
