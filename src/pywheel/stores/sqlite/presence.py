"""Who is there, for one opened store: the page, the bells, and what follows from them.

After a commit nothing here raises: what was stored is stored. A bell that cannot be rung, or a table that cannot be
read now, costs at most that everybody reads again.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreClosed, StoreError
from ...clock import Clock
from ..notifier import Member
from .audience import Audience, Roster, nonce_of
from .bell import Ringer
from .presence_page import (
    BEHIND,
    HEARTBEAT,
    HORIZON,
    LEASE,
    LEASED,
    NO_LEASE,
    QUIET,
    RELOAD,
    RETIRED,
    SLOTS,
    UNKNOWN,
    USED,
    VERSION,
    NoPage,
    Page,
)
from .presence_page import RUNG as _RUNG

if TYPE_CHECKING:
    from .notifier import SqliteNotifier

__all__ = ["Presence", "Rows"]

Rows = Callable[[str, Sequence[Any] | dict[str, Any]], list[Any]]
"""Runs a statement by its name and returns all its rows, on a connection that only reads: of what is committed."""

_LOOK: Final = 0.25  # seconds between looks whether the page is still the file of its name
_HELD: Final = 3_000  # ms of silence after which a worker cannot begin any more with what it held: Terms.hold is less
_PAUSES: Final = (0.001, 0.010)  # seconds between looks at who is quiet: the first, the longest


class Presence:
    """The workers on one database, as this process sees them. From any thread."""

    def __init__(self, database: str, clock: Clock, rows: Rows) -> None:
        self.database = database
        self.closed = False
        self.ringer = Ringer(database)
        self.lock = threading.RLock()
        self._clock = clock
        self.rows = rows
        self._roster: Roster | None = None
        self._audiences: dict[int, Audience] = {}
        self._names: dict[int, str] = {}  # they never change
        self._look_at = time.monotonic() + _LOOK
        self._notifiers: weakref.WeakSet[SqliteNotifier] = weakref.WeakSet()
        self.page = Page(database, self.now())
        _PRESENCES.add(self)

    def now(self) -> int:
        """Return the time of heartbeats, in ms."""
        return self._clock.time_ns() // 1_000_000

    # ---- the page ---------------------------------------------------------------------------------------------------

    def look(self, *, at_once: bool = False) -> None:
        """Follow if the page is no longer the file of its name: looked up four times a second, or `at_once`."""
        moment = time.monotonic()
        if not self.page.words[RETIRED] and moment < self._look_at and not at_once:
            return
        with self.lock:
            self._look_at = moment + _LOOK
            old = self.page
            if self.closed or old.current():
                return
            with suppress(StoreError):  # not now: it looks again
                page = Page(self.database, self.now())
                page.words[LEASE] = UNKNOWN  # leases may have been given in the old one
                old.words[RETIRED] = 1  # before the new one is used: who still uses the old one sees it from here on
                self.page = page
                self.alarm()  # a worker that began with the new one owns what was told to those of the old one

    def moved(self) -> None:
        """Say that somebody came or went, once that can be read in the store or in the page."""
        self.page.words[VERSION] = randbits(62)  # not + 1: two who count at once would make one change of two

    def stir(self, unasked: Collection[int] = ()) -> None:
        """Say the same, and wake all but these slots."""
        self.moved()
        self.ring(slot for slot in self.page.taken() if slot not in unasked)

    def ring(self, slots: Iterable[int]) -> None:
        """Wake workers."""
        words = self.page.words
        for slot in slots:
            words[_RUNG + slot] = 1
            self.ringer.ring(slot)

    def reload(self, slot: int) -> None:
        """Say that hints do not tell a worker all. It is to be rung then."""
        self.page.words[RELOAD + slot] = randbits(62)

    # ---- who is there -----------------------------------------------------------------------------------------------

    def roster(self) -> Roster:
        """Return all who announced topics. No query unless somebody came or went."""
        page, roster = self.page, self._roster
        if roster is None or not roster.holds(page):
            version = page.words[VERSION]
            roster = self._roster = Roster(page, version, self.rows("roster", ())[0][0])
        return roster

    def members(self) -> list[Member]:
        """Return all of them that have a slot, by name. Some 200 ns each."""
        roster = self.roster()
        words = roster.page.words
        used, now = words[USED], self.now()
        beats = words[HEARTBEAT : HEARTBEAT + used].tolist()
        behind = words[BEHIND : BEHIND + used].tolist()
        workers, topics, slots = roster.present
        silent = [max(now - beats[slot], 0) / 1000 for slot in slots]
        return list(map(Member._make, zip(workers, topics, silent, [behind[slot] for slot in slots], strict=True)))

    def audience(self, topic: int, uncommitted: str | None = None) -> Audience:
        """Return who hears of a topic now, by its number; `uncommitted` is its name if it may be new."""
        self.look()
        audience = self._audiences.get(topic)
        if audience is None or not audience.holds(self.page, self.now):
            name = self._name(topic)
            audience = Audience(name or uncommitted, self.roster(), self.now())
            if name is not None:
                self._audiences[topic] = audience
        return audience

    def furthest(self, topic: int) -> int:
        """Return the furthest horizon of those who hear of a topic, -1 without any."""
        return self.audience(topic).furthest()

    def missed(self, earliest: Mapping[int, int]) -> None:
        """Tell the owners whose horizon has reached out meanwhile to jobs that were stored without a hint.

        `earliest` is the first due time of each topic: whoever owns another shard of it only reads once more.
        """
        try:
            for topic, due in earliest.items():
                audience = self._audiences.get(topic)  # `furthest` has looked just now
                if audience is None or not audience.holds(self.page, self.now):
                    audience = self.audience(topic)
                for slot in audience.some:
                    if due <= self.page.words[HORIZON + slot]:
                        self.reload(slot)
                        self.ring([slot])
        except Exception:  # noqa: BLE001  (the job is stored)
            self.alarm()

    def alarm(self) -> None:
        """Have everybody read again: whom a change concerns cannot be found out."""
        slots = self.page.taken()
        for slot in slots:
            self.reload(slot)
        self.ring(slots)

    def handling(self, topic: int) -> list[int]:
        """Return the slots of all who handle a topic, by number, silent or not; of all for 0."""
        if not topic:
            return self.page.taken()
        name = self._name(topic)
        return [one.slot for one in self.roster().members if one.slot >= 0 and name in one.topics]

    def _name(self, topic: int) -> str | None:
        name = self._names.get(topic)
        if name is None and (found := self.rows("topic_name", (topic,))):
            name = self._names[topic] = found[0][0]
        return name

    def slot(self, worker: str) -> int:
        """Return the slot of a worker, -1 if it has none."""
        nonce, likely = nonce_of(worker)
        return self.page.find(nonce, likely) if nonce else -1

    def gone(self, worker: str) -> bool:
        """Whether a worker has closed, or has been silent for very long, or its process has ended."""
        slot = self.slot(worker)
        return self.page.gone(slot, self.now()) if slot >= 0 else self.page.absent(self.now())

    # ---- pauses -----------------------------------------------------------------------------------------------------

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        until = time.monotonic() + seconds
        pause, longest = _PAUSES
        there: list[tuple[int, int]] | None = None
        while True:
            if self.closed:
                raise StoreClosed("the store was closed meanwhile: open another one")
            found = self.rows("pause_of", (topic,))
            if not found or not found[0][0]:
                return False
            _, paused, oldest = found[0]
            since = paused or oldest or 0
            if there is None:  # who comes later has read that it is paused
                there = [(one.nonce, one.slot) for one in self.roster().members if topic in one.topics]
            if all(self._still(nonce, slot, since) for nonce, slot in there):
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, longest)

    def _still(self, nonce: int, likely: int, since: int) -> bool:
        """Whether a worker starts nothing that was paused before a hint."""
        page = self.page
        slot = page.find(nonce, likely)
        if slot < 0:
            return page.absent(self.now())
        if page.words[QUIET + slot] >= since:
            return True
        return self.now() - page.words[HEARTBEAT + slot] > _HELD or page.gone(slot, self.now())

    # ---- leases -----------------------------------------------------------------------------------------------------

    def next_lease(self) -> int | None:
        """Return when a lease may be over at the earliest. One query, if no transaction has found it out yet."""
        lease: int | None = self.page.words[LEASE]
        if lease == UNKNOWN:
            lease = self.rows("lease_first", ())[0][0]
        return None if lease == NO_LEASE else lease

    def leased(self, until: int) -> None:
        """Note that a lease ends then. Within the transaction that gives it: if that fails, it is just too early."""
        words = self.page.words
        words[LEASED] += 1
        if until < words[LEASE]:
            words[LEASE] = until

    def leases(self) -> int:
        """Return what `expired` asks for, as it is in the transaction that ends leases."""
        return int(self.page.words[LEASED])

    def lease_unknown(self) -> bool:
        """Whether a transaction has to find out the next lease: the page is new."""
        return bool(self.page.words[LEASE] == UNKNOWN)

    def expired(self, next_lease: int | None, leases: int) -> None:
        """Note the earliest end of a lease, as it was when so many had been given. In a later transaction's turn."""
        if self.leases() == leases:
            self.page.words[LEASE] = NO_LEASE if next_lease is None else next_lease

    # ---- life -------------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> SqliteNotifier:
        """Return a notifier for a new worker. StoreError if all slots are taken."""
        from .notifier import SqliteNotifier

        with self.lock:  # or it might begin after `close` has closed all there were
            if self.closed:
                raise StoreClosed("the store was closed meanwhile: open another one")
            self.look(at_once=True)
            notifier = SqliteNotifier(self, name)
            self._notifiers.add(notifier)
        return notifier

    def take(self, nonce: int, wanted: int) -> tuple[Page, int]:
        """Return the page, and a slot in it. StoreError if all are taken."""
        with self.lock:
            page = self.page
            slot = page.take(nonce, wanted, self.now())
        if slot is None:
            raise StoreError(f"{SLOTS} workers work on {self.database}: stop one first")
        return page, slot

    def close(self) -> None:
        """Close the notifiers, and have nothing to do with anybody. The rest goes when nobody uses it any more."""
        with self.lock:
            for notifier in list(self._notifiers):
                notifier.close()
            self._part()
        self.ringer.close()

    def after_fork(self) -> None:
        """The same in a forked child, unnoticed by the others: slots and bells are the parent's."""
        self.lock = threading.RLock()
        self._part()
        for notifier in list(self._notifiers):
            notifier.after_fork()
        self.ringer.close()

    def _part(self) -> None:
        self.closed = True
        self.page = NoPage()
        self._roster = None
        self._audiences.clear()


_PRESENCES: Final[weakref.WeakSet[Presence]] = weakref.WeakSet()


def _after_fork() -> None:
    for presence in list(_PRESENCES):
        presence.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
