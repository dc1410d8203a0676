"""Who is there, for one opened store: the page, and what follows from it.

After a commit nothing here raises: what was stored is stored. A table that cannot be read now costs at most that
everybody reads again.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..._errors import StoreClosed, StoreError
from ...clock import Clock
from ..notifier import Member
from ..ownership import owners
from . import page as at
from .page import Page, draw

if TYPE_CHECKING:
    from .notifier import SqliteNotifier

__all__ = ["LEASE_FIRST", "Audience", "Presence", "Rows"]

Rows = Callable[[str, Sequence[Any] | dict[str, Any]], list[Any]]
"""Runs a statement and returns all its rows: of what is committed."""

LEASE_FIRST: Final = "SELECT min(next) FROM job WHERE state = 1"
_ROSTER: Final = "SELECT json_group_array(json_array(worker, json(topics))) FROM member"
_LOOK: Final = 0.25  # seconds between looks whether the page is still the file of its name
_HELD: Final = 3_000  # ms of silence after which a worker cannot begin what it held: longer than ClaimPolicy.hold
_PAUSES: Final = (0.001, 0.010)  # seconds between looks at who is quiet: the first, the longest


class _Known(NamedTuple):
    """A worker that has announced topics."""

    worker: str
    topics: frozenset[str]
    nonce: int
    slot: int  # -1: it has none


class Roster:
    """All of them, as the store had them at one version of the page."""

    def __init__(self, page: Page, version: int, rows: str) -> None:
        self.page = page
        self.version = version  # read before the rows: if they are newer, they are read once more
        self.members = [_known(page, worker, topics) for worker, topics in sorted(json.loads(rows))]
        self.present = [one for one in self.members if one.slot >= 0]

    def holds(self, page: Page) -> bool:
        """Whether nobody came or went since."""
        return page is self.page and bool(page.words[at.VERSION] == self.version)


class Audience:
    """The workers that handle a topic, and which of them own its slices of time.

    Putters judge it after their commit. So no job is lost between two owners. Let w be a worker that comes to own a
    slice, by whatever it read in the page (R), and reads its jobs from the store after that. Either the putter's look
    comes before what R saw was written: then the commit came earlier still, and w reads the job. Or it comes after:
    then the putter sees the same, and tells w. What R may have seen is one of these, and `holds` looks at each: another
    VERSION; the heartbeat of a former owner, too old by then; the heartbeat of one that had been silent. A worker that
    finds itself to have been silent reads all again (`SqliteNotifier.beat`). The same holds with the horizon for R.
    """

    __slots__ = ("_alone", "_beats", "_horizons", "_silent", "_version", "owners", "page")

    def __init__(self, topic: str | None, roster: Roster, now: int) -> None:
        page = self.page = roster.page
        self._version = roster.version
        words = page.words
        there = [one for one in roster.present if topic in one.topics]
        heard = [one for one in there if words[at.NONCE + one.slot] == one.nonce and _spoke(words, one.slot, now)]
        slots = {one.worker: one.slot for one in heard or there}  # all silent: the host stood still, or one is alone
        self._alone = len(there) < 2
        self._silent = [at.HEARTBEAT + slot for slot in {one.slot for one in there} - {one.slot for one in heard}]
        self.owners = tuple(slots[worker] for worker in owners(topic or "", slots))
        """The slot of the owner of each shard; () without workers."""
        some = set(self.owners)
        self._beats = [at.HEARTBEAT + slot for slot in some] if heard else []
        self._horizons = [at.HORIZON + slot for slot in some]

    def holds(self, page: Page, now: Callable[[], int]) -> bool:
        """Whether nothing has changed since that makes other owners. Asks for the time only if that matters."""
        words = page.words
        if page is not self.page or words[at.VERSION] != self._version or words[at.RETIRED]:
            return False
        if self._alone:
            return True  # whoever is the only one is the owner, silent or not
        word, heard = words.__getitem__, now() - at.SILENT
        return min(map(word, self._beats), default=heard) >= heard > max(map(word, self._silent), default=heard - 1)

    def furthest(self) -> int:
        """Return the furthest horizon of the owners, -1 without any."""
        return max(map(self.page.words.__getitem__, self._horizons), default=-1)


class Presence:
    """The workers on one database, as this process sees them. From any thread. Without a database, those in memory."""

    def __init__(self, database: str | None, clock: Clock, rows: Rows) -> None:
        self.database = database
        self.closed = False
        self.me = draw(31) + 1
        self.lock = threading.RLock()
        self._clock = clock
        self.rows = rows
        self._roster: Roster | None = None
        self._audiences: dict[int, Audience] = {}
        self._names: dict[int, str] = {}  # they never change
        self._look_at = time.monotonic() + _LOOK
        self._notifiers: weakref.WeakSet[SqliteNotifier] = weakref.WeakSet()
        self.page = Page(database, self.now())
        # The page may be older than the database, or newer: of before a loss of power, or before a backup was restored.
        self.page.words[at.LEASED] += 1
        self.page.words[at.LEASE] = at.UNKNOWN

    def now(self) -> int:
        """Return the time of heartbeats, in ms."""
        return self._clock.time_ns() // 1_000_000

    # ---- the page ---------------------------------------------------------------------------------------------------

    def look(self, *, at_once: bool = False) -> None:
        """Follow if the page is no longer the file of its name: looked up four times a second, or `at_once`."""
        moment = time.monotonic()
        if not self.page.words[at.RETIRED] and moment < self._look_at and not at_once:
            return
        with self.lock:
            self._look_at = moment + _LOOK
            old = self.page
            if self.closed or old.current():
                return
            with suppress(StoreError):  # not now: it looks again
                page = Page(self.database, self.now())
                page.words[at.LEASE] = at.UNKNOWN  # leases may have been given in the old one
                old.words[at.RETIRED] = 1  # before the new one is used: who still uses the old one sees it from here on
                self.page = page
                self.alarm()  # a worker that began with the new one owns what was told to those of the old one

    def moved(self) -> None:
        """Say that somebody came or went, once that can be read in the store or in the page."""
        self.page.words[at.VERSION] = draw(62)  # not + 1: two who count at once would make one change of two

    def stir(self, unasked: Collection[int] = ()) -> None:
        """Say the same, and wake all but these slots."""
        self.moved()
        self.ring(slot for slot in self.page.taken() if slot not in unasked)

    def ring(self, slots: Iterable[int]) -> None:
        """Wake workers."""
        page = self.page
        for slot in slots:
            page.words[at.RUNG + slot] = 1
            page.wake(slot)

    def reload(self, slots: Iterable[int]) -> None:
        """Wake workers, and say that hints do not tell them all."""
        slots = list(slots)
        for slot in slots:
            self.page.words[at.RELOAD + slot] = draw(62)
        self.ring(slots)

    def alarm(self) -> None:
        """Have everybody read again: whom a change concerns cannot be found out."""
        self.reload(self.page.taken())

    # ---- who is there -----------------------------------------------------------------------------------------------

    def roster(self) -> Roster:
        """Return all who announced topics. No query unless somebody came or went."""
        page, roster = self.page, self._roster
        if roster is None or not roster.holds(page):
            version = page.words[at.VERSION]
            roster = self._roster = Roster(page, version, self.rows(_ROSTER, ())[0][0])
        return roster

    def members(self) -> list[Member]:
        """Return all of them that have a slot, by name. Some 200 ns each."""
        roster = self.roster()
        words = roster.page.words
        used, now = words[at.USED], self.now()
        beats = words[at.HEARTBEAT : at.HEARTBEAT + used].tolist()
        behind = words[at.BEHIND : at.BEHIND + used].tolist()
        return [
            Member(worker, topics, max(now - beats[slot], 0) / 1000, behind[slot])
            for worker, topics, _, slot in roster.present
        ]

    def audience(self, topic: int) -> Audience:
        """Return who hears of a topic now, by its number."""
        self.look()
        audience = self._audiences.get(topic)
        if audience is None or not audience.holds(self.page, self.now):
            audience = self._audiences[topic] = Audience(self.name(topic), self.roster(), self.now())
        return audience

    def name(self, topic: int) -> str | None:
        """Return the name of a topic that is committed."""
        name = self._names.get(topic)
        if name is None and (found := self.rows("SELECT name FROM topic WHERE id = ?", (topic,))):
            name = self._names[topic] = found[0][0]
        return name

    def slot(self, worker: str) -> int:
        """Return the slot of a worker, -1 if it has none."""
        nonce, likely = _nonce_of(worker)
        return self.page.find(nonce, likely) if nonce else -1

    def gone(self, worker: str) -> bool:
        """Whether a worker has closed, or has been silent for very long."""
        slot = self.slot(worker)
        return self.page.gone(slot, self.now()) if slot >= 0 else self.page.absent(self.now())

    # ---- pauses -----------------------------------------------------------------------------------------------------

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        until = time.monotonic() + seconds
        pause, longest = _PAUSES
        since, there = self.page.words[at.PAUSED], list[_Known]()
        for look in range(2**31):
            if self.closed:
                raise StoreClosed("the store was closed meanwhile: open another one")
            if self.rows("SELECT paused FROM topic WHERE name = ?", (topic,)) not in ([(1,)], [[1]]):
                return False
            if not look:  # who comes later has read that it is paused
                there = [one for one in self.roster().members if topic in one.topics]
            if all(self._still(one, since) for one in there):
                return True
            left = until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(pause * 2, longest)
        return False

    def _still(self, one: _Known, since: int) -> bool:
        """Whether a worker starts nothing that was paused before a hint."""
        page = self.page
        slot = page.find(one.nonce, one.slot)
        if slot < 0:
            return page.absent(self.now())
        return bool(page.words[at.QUIET + slot] >= since) or self.now() - page.words[at.HEARTBEAT + slot] > _HELD

    # ---- leases -----------------------------------------------------------------------------------------------------

    def lapsed(self, now: int) -> bool:
        """Whether a lease may be over."""
        lease: int = self.page.words[at.LEASE]
        return lease <= now  # also UNKNOWN

    def next_lease(self) -> int | None:
        """Return when a lease may be over at the earliest. One query, if no transaction has found it out yet."""
        lease: int | None = self.page.words[at.LEASE]
        if lease == at.UNKNOWN:
            lease = self.rows(LEASE_FIRST, ())[0][0]
        return None if lease == at.NO_LEASE else lease

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
            raise StoreError(f"{at.SLOTS} workers work on {self.database}: stop one first")
        return page, slot

    def close(self) -> None:
        """Close the notifiers, and have nothing to do with anybody. The rest goes when nobody uses it any more."""
        with self.lock:
            for notifier in list(self._notifiers):
                notifier.close()
            self._part()

    def after_fork(self) -> None:
        """The same in a forked child, unnoticed by the others: the slots are the parent's."""
        self.lock = threading.RLock()
        self._part()
        for notifier in list(self._notifiers):
            notifier.after_fork()

    def _part(self) -> None:
        self.closed = True
        self.page = Page(None, 0)  # what is written here reaches nobody
        self._roster = None
        self._audiences.clear()


def _nonce_of(worker: str) -> tuple[int, int]:
    """Return the nonce of a worker and the slot that it had first, (0, -1) if its id has none."""
    slot, _, nonce = worker.rpartition("@")[2].partition(".")
    try:
        return int(nonce, 16), int(slot)
    except ValueError:
        return 0, -1


def _known(page: Page, worker: str, topics: list[Any]) -> _Known:
    nonce, slot = _nonce_of(worker)
    return _Known(worker, frozenset(topics), nonce, page.find(nonce, slot) if nonce else -1)


def _spoke(words: Any, slot: int, now: int) -> bool:
    return bool(abs(now - words[at.HEARTBEAT + slot]) <= at.SILENT)
