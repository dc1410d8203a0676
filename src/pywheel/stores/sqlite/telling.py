"""What is told to workers of a transaction: hints in it, bells after it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from ...jobs.job import slice_of
from ..sql.transaction import Transaction
from .audience import Audience
from .presence import Presence
from .presence_page import HORIZON
from .statements import SQL

__all__ = ["Telling"]

_HINTS_KEPT: Final = 10_000
_ALL: Final = -1  # the slot of hints for everybody
_NEVER: Final = 2**63 - 1


class _Said:
    """What was noted of one topic."""

    __slots__ = ("audience", "beyond", "earliest", "words")

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.words = audience.page.words
        self.earliest = _NEVER  # of all that changed
        self.beyond: dict[int, int] = {}  # by slot, the earliest beyond its horizon, so without a hint


class Telling:
    """The changes of a transaction, on their way to those whom they concern."""

    __slots__ = ("_changes", "_connection", "_hints", "_leases", "_next_lease", "_presence", "_said", "_unknown")

    def __init__(self, connection: sqlite3.Connection, tx: Transaction, presence: Presence) -> None:
        self._connection = connection
        self._changes = changes = tx.changes
        self._presence = presence
        self._said: dict[int, _Said] = {}
        self._hints: list[tuple[int, int]] = []  # slot, job
        self._leases = 0  # given, as it was before the commit
        self._next_lease: int | None = None
        self._unknown = False
        for topic, dues in changes.dues.items():
            self._changed(_Said(presence.audience(topic, tx.name(topic))), topic, dues)

    def _changed(self, said: _Said, topic: int, dues: Sequence[tuple[int, int]]) -> None:
        """Give each job's owner a hint if it looks so far; else note the earliest that it was not told of."""
        self._said[topic] = said
        said.earliest = earliest = min([due for _, due in dues])
        if earliest > said.audience.furthest():
            for slot in said.audience.some:
                _beyond(said, slot, earliest)
            return
        owners, words, hints = said.audience.owners, said.words, self._hints
        if owners:
            for id, due in dues:
                slot = owners[slice_of(due)]
                if due <= words[HORIZON + slot]:
                    hints.append((slot, id))
                else:
                    _beyond(said, slot, due)

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to write in the transaction, or to look up."""
        changes = self._changes
        said = self._hints or changes.paused or changes.leases < _NEVER or changes.expired is not None
        return not said and not self._presence.lease_unknown()

    # ---- in the transaction -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write hints, and say that leases were given. The commit comes next."""
        changes = self._changes
        if changes.leases < _NEVER:
            self._presence.leased(changes.leases)
        hints = self._hints + [(_ALL, topic) for topic in changes.paused]
        if hints:
            self._store_hints(hints)
        if changes.expired is not None:
            [first] = changes.expired
            self._next_lease = min((one for one in (first, changes.leases) if one not in (None, _NEVER)), default=None)
            self._unknown = True
        elif self._presence.lease_unknown():
            [self._next_lease] = self._connection.execute(SQL["lease_first"]).fetchone()
            self._unknown = True
        if self._unknown:
            self._leases = self._presence.leases()

    def committed(self) -> None:
        """Say when the next lease ends, now that it is sure. Still in the turn.

        After the commit, as that may fail; in a turn, as others may lease just now.
        """
        if not self._unknown:
            return
        with suppress(sqlite3.Error):  # then it stays too early
            self._connection.execute("BEGIN IMMEDIATE")
            self._presence.expired(self._next_lease, self._leases)
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def _store_hints(self, hints: list[tuple[int, int]]) -> None:
        """Write hints, and now and then drop those that all have read, or will not miss."""
        execute: Any = self._connection.execute
        if len(hints) == 1:
            execute(SQL["hint_one"], hints[0])
        else:
            execute(SQL["hint_many"], (json.dumps(hints),))
        [last] = execute(SQL["hint_last"]).fetchone()
        if last // _HINTS_KEPT != (last - len(hints)) // _HINTS_KEPT:
            execute(SQL["hints_trim"], (last - _HINTS_KEPT,))

    # ---- after it ---------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """After the commit: ring whom it concerns. Raises nothing."""
        presence, changes = self._presence, self._changes
        try:
            if changes.leases < _NEVER:
                presence.look(at_once=True)  # in a page that nobody uses any more, nobody would find the lease
            if changes.announced:
                presence.stir([presence.slot(worker) for worker in changes.announced])
            rung = {slot for slot, _ in self._hints}
            for topic, said in self._said.items():
                rung |= self._missed(said, presence.audience(topic))
            for topic in changes.paused:
                rung.update(presence.handling(topic))
            if rung:
                presence.ring(rung)
        except Exception:  # noqa: BLE001  (it is stored, whatever it is)
            presence.alarm()

    def _missed(self, said: _Said, audience: Audience) -> set[int]:
        """Have workers look again whose horizon is by now beyond what was stored without a hint; return their slots.

        Why that is all of them, see `audience`.
        """
        words = audience.page.words
        if audience.same(said.audience):
            missed = {slot for slot, due in said.beyond.items() if due <= words[HORIZON + slot]}
        else:
            missed = {slot for slot in audience.some if said.earliest <= words[HORIZON + slot]}
        for slot in missed:
            self._presence.reload(slot)
        return missed


def _beyond(said: _Said, slot: int, due: int) -> None:
    if due < said.beyond.get(slot, _NEVER):
        said.beyond[slot] = due
