"""What workers are told of a transaction, after its commit: hints in the page, and rings."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from ...jobs.job import slice_of
from ..sql.transaction import Transaction
from . import page as at
from .page import Page, draw
from .presence import LEASE_FIRST, Presence

__all__ = ["Telling"]

_NEVER: Final = 2**63 - 1


class Telling:
    """The changes of a transaction, on their way to those whom they concern.

    Whoever dies between the commit and the ring leaves a mark in the page: then the next writer, or a worker's next
    look, has everybody read again.
    """

    __slots__ = ("_at", "_changes", "_first", "_leases", "_mark", "_page", "_presence")

    def __init__(self, tx: Transaction, presence: Presence, *, in_turn: bool) -> None:
        """Take a transaction that has changed all that it will. `in_turn`: nobody else writes hints until `tell`."""
        self._changes = tx.changes
        self._presence = presence
        self._page: Page = presence.page
        self._at = at.UNTOLD if in_turn else at.WITHIN
        self._mark = 0
        self._first: int | None = None  # the end of the next lease, if it is known now
        self._leases = 0

    @property
    def leases(self) -> bool:
        """Whether leases have changed, or it is not known when the next one is over."""
        changes = self._changes
        return changes.leases < _NEVER or changes.expired is not None or self._page.words[at.LEASE] == at.UNKNOWN

    def begin(self) -> None:
        """Say before the commit, which comes next, that there will be something to tell."""
        words, changes = self._page.words, self._changes
        if words[at.USED] and (changes.moved or changes.paused or changes.announced):
            me, mark = self._presence.me, words[self._at]
            if mark and (self._at == at.UNTOLD or mark >> 31 != me):
                self._presence.alarm()  # somebody died, or has not told yet
            words[self._at] = self._mark = me << 31 | draw(31)

    def note_leases(self, connection: sqlite3.Connection) -> None:
        """Say before the commit when the next lease is over."""
        words, changes = self._page.words, self._changes
        first = None
        if changes.expired is not None:
            [first] = changes.expired
        elif words[at.LEASE] == at.UNKNOWN:
            [first] = connection.execute(LEASE_FIRST).fetchone()
        if changes.expired is not None or words[at.LEASE] == at.UNKNOWN:
            self._first = min(_NEVER if first is None else first, changes.leases)
        if changes.leases < _NEVER:  # if the commit fails, it is just too early
            words[at.LEASED] += 1
            words[at.LEASE] = min(words[at.LEASE], changes.leases)
        self._leases = words[at.LEASED]

    def failed(self) -> None:
        """Say that nothing was stored."""
        if self._mark and self._page.words[self._at] == self._mark:
            self._page.words[self._at] = 0

    def tell(self) -> None:
        """After the commit: ring whom it concerns. Raises nothing."""
        presence, changes, words = self._presence, self._changes, self._page.words
        try:
            if self._first is not None and words[at.LEASED] == self._leases:
                words[at.LEASE] = at.NO_LEASE if self._first == _NEVER else self._first
                if words[at.LEASED] != self._leases:
                    words[at.LEASE] = at.UNKNOWN  # another lease was given at this moment
            if changes.leases < _NEVER:
                presence.look(at_once=True)  # in a page that nobody uses any more, nobody would find the lease
            if changes.announced:
                presence.stir([presence.slot(worker) for worker in changes.announced])
            if presence.page.words[at.USED] and (changes.moved or changes.paused):
                self._hint(presence)
        except Exception:  # noqa: BLE001  (it is stored, whatever it is)
            presence.alarm()
        self.failed()

    def _hint(self, presence: Presence) -> None:
        """Give each job's owner a hint if it looks so far, and all a hint of pauses."""
        hints: list[tuple[int, int]] = []
        rung: set[int] = set()
        for topic, dues in self._changes.dues.items():
            audience = presence.audience(topic)
            if min([due for _, due in dues]) <= audience.furthest():
                hints += _hints(audience.owners, audience.page.words, dues)
        for slot, _ in hints:
            rung.add(slot)
        page = presence.page
        if self._changes.paused:
            hints.append((at.ALL, 0))
            names = {presence.name(topic) for topic in self._changes.paused}
            rung.update(one.slot for one in presence.roster().present if not names.isdisjoint(one.topics))
        if hints and (self._at == at.WITHIN or page is not self._page or not page.hint(hints)):
            page.words[at.TOLD] += 1  # a pause has a number of its own
            presence.reload(page.taken() if self._changes.paused else rung)
        elif rung:
            presence.ring(rung)
        if self._changes.paused:
            page.words[at.PAUSED] = page.words[at.TOLD]


def _hints(owners: Sequence[int], words: memoryview[int], dues: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return slot and job of those that are due within the horizon of their owner."""
    slots = [owners[slice_of(due)] for _, due in dues]
    return [(slot, id) for slot, (id, due) in zip(slots, dues, strict=True) if due <= words[at.HORIZON + slot]]
