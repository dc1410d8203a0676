"""The workers on one opened store, and the announcement of its transactions to them, by the page.

After a commit nothing here raises, as its changes are stored. If a table cannot be read then, everybody reads again at
worst.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..._errors import StoreClosed, StoreError
from ...clock import Clock
from ...jobs.job import slice_of
from ...jobs.queries import Member
from ..contract import CLOSED
from ..ownership import owners
from ..presence import until_quiet
from ..sql.transaction import Transaction
from . import page as at
from .notifier import SqliteNotifier
from .page import Page, draw

Rows = Callable[[str, Sequence[Any] | dict[str, Any]], list[Any]]
"""Runs a statement and returns all its rows, of committed data."""

_LEASE_FIRST: Final = "SELECT min(next) FROM job WHERE state = 1"
_ROSTER: Final = "SELECT json_group_array(json_array(worker, json(topics))) FROM member"
_LOOK: Final = 0.25  # seconds between looks whether the page is still the file of its name
_HELD: Final = 3_700  # ms of silence after which a worker cannot start jobs: 2.5 s after a claim, 1 s after a beat


class _Known(NamedTuple):
    """A worker that has announced topics."""

    worker: str
    topics: frozenset[str]
    nonce: int
    slot: int  # -1: it has none


class Roster:
    """All workers with topics, as the store had them at one version of the page."""

    def __init__(self, page: Page, version: int, rows: str) -> None:
        self.page = page
        self.version = version  # read before the rows: if they are newer, they are read once more
        self.members = []
        for worker, topics in sorted(json.loads(rows)):
            nonce, slot = _nonce_of(worker)
            self.members.append(_Known(worker, frozenset(topics), nonce, page.find(nonce, slot) if nonce else -1))
        self.present = [one for one in self.members if one.slot >= 0]

    def holds(self, page: Page) -> bool:
        """Whether nobody has come or gone since."""
        return page is self.page and bool(page.words[at.VERSION] == self.version)


class Audience:
    """The workers that handle a topic, and which of them own its slices of time.

    Writers look at it after their commit. So no job is lost between two owners. Let w be a worker that comes to own a
    slice, by some value that it read in the page (R), and then reads the slice's jobs from the store. If the writer's
    look comes before R's value was written, the commit came earlier still, and w reads the job. If it comes after, the
    writer sees the same value, and tells w. R's value is one of these, and `holds` looks at each: another VERSION; the
    heartbeat of a former owner, too old by then; the heartbeat of a worker that had been silent. A worker that finds
    itself to have been silent reads all again (`SqliteNotifier.beat`). The same holds with the horizon for R.
    """

    __slots__ = ("_alone", "_beats", "_horizons", "_silent", "_version", "owners", "page")

    def __init__(self, topic: str | None, roster: Roster, now: int) -> None:
        page = self.page = roster.page
        self._version = roster.version
        words = page.words
        there = [one for one in roster.present if topic in one.topics]
        spoke = {slot for _, _, _, slot in there if abs(now - words[at.HEARTBEAT + slot]) <= at.SILENT}
        heard = [one for one in there if words[at.NONCE + one.slot] == one.nonce and one.slot in spoke]
        slots = {one.worker: one.slot for one in heard or there}  # all silent: the host stood still, or one is alone
        self._alone = len(there) < 2
        self._silent = [at.HEARTBEAT + slot for slot in {one.slot for one in there} - {one.slot for one in heard}]
        self.owners = tuple(slots[worker] for worker in owners(topic or "", slots))
        """The slot of the owner of each shard; () without workers."""
        some = set(self.owners)
        self._beats = [at.HEARTBEAT + slot for slot in some] if heard else []
        self._horizons = [at.HORIZON + slot for slot in some]

    def holds(self, page: Page, now: Callable[[], int]) -> bool:
        """Whether the owners are still the same. Asks for the time only if that matters."""
        words = page.words
        if page is not self.page or words[at.VERSION] != self._version or words[at.RETIRED]:
            return False
        if self._alone:
            return True  # a single worker is the owner, silent or not
        word, heard = words.__getitem__, now() - at.SILENT
        return min(map(word, self._beats), default=heard) >= heard > max(map(word, self._silent), default=heard - 1)

    def furthest(self) -> int:
        """Return the furthest horizon of the owners, -1 without any."""
        return max(map(self.page.words.__getitem__, self._horizons), default=-1)


class Presence:
    """The workers on one database, as this process sees them. Any thread may use it. None: a database in memory."""

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
        self.page = Page(database, self.now)
        # The page may be older or newer than the database: after a loss of power, or once a backup was restored.
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
            with suppress(StoreError):  # the next look tries again
                page = Page(self.database, self.now)
                old.words[at.RETIRED] = 1  # before the new one is used: users of the old page see it from here on
                self.page = page
                self.alarm()  # a worker that began with the new page owns jobs that only the old one's workers know

    def moved(self) -> None:
        """Mark that a worker came or went, once that can be read in the store or in the page."""
        self.page.words[at.VERSION] = draw(62)  # not + 1: of two at once, one change would be lost

    def stir(self, unasked: Collection[int] = ()) -> None:
        """Mark the same, and wake all workers except these slots."""
        self.moved()
        self.ring(slot for slot in self.page.taken() if slot not in unasked)

    def ring(self, slots: Iterable[int]) -> None:
        """Wake workers."""
        page = self.page
        for slot in slots:
            page.words[at.RUNG + slot] = 1
            page.wake(slot)

    def reload(self, slots: Iterable[int]) -> None:
        """Wake workers, and tell them that their hints are not complete."""
        slots = list(slots)
        for slot in slots:
            self.page.words[at.RELOAD + slot] = draw(62)
        self.ring(slots)

    def alarm(self) -> None:
        """Have everybody read again, when the workers that a change concerns cannot be found."""
        self.reload(self.page.taken())

    # ---- who is there -----------------------------------------------------------------------------------------------

    def roster(self) -> Roster:
        """Return all workers that announced topics. No query unless one came or went."""
        page, roster = self.page, self._roster
        if roster is None or not roster.holds(page):
            version = page.words[at.VERSION]
            roster = self._roster = Roster(page, version, self.rows(_ROSTER, ())[0][0])
        return roster

    def members(self) -> list[Member]:
        """Return all workers that have a slot, by name. Some 200 ns each."""
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
        """Return the present audience of a topic, by its number."""
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
        return self.page.gone(slot) if slot >= 0 else self.page.absent()

    # ---- pauses -----------------------------------------------------------------------------------------------------

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no job claimed before the pause can start, False after `seconds` or if resumed."""
        since = self.page.words[at.PAUSED]
        there: list[_Known] | None = None

        def look() -> bool | None:
            nonlocal there
            if self.closed:
                raise StoreClosed(CLOSED)
            self.page.whole()
            if not self.rows("SELECT 1 FROM topic WHERE name = ? AND paused = 1", (topic,)):
                return None
            if there is None:  # a worker that comes later has read that the topic is paused
                there = [one for one in self.roster().members if topic in one.topics]
            return all(self._still(one, since) for one in there)

        return until_quiet(seconds, look, 0.01)

    def _still(self, one: _Known, since: int) -> bool:
        """Whether a worker starts nothing any more that was paused before a hint."""
        page = self.page
        slot = page.find(one.nonce, one.slot)
        if slot < 0:
            return page.absent()
        return bool(page.words[at.QUIET + slot] >= since) or self.now() - page.words[at.HEARTBEAT + slot] > _HELD

    # ---- leases -----------------------------------------------------------------------------------------------------
    # LEASE is lowered before a commit that gives a lease, and raised in a transaction that changes nothing. SQLite lets
    # nobody else commit meanwhile. So LEASE is never too late, wherever a process is stopped or killed.

    def leased(self, end: int) -> None:
        """Note, before the commit, the end of a lease that it gives. If the commit fails, LEASE is merely too early."""
        self.look(at_once=True)  # nobody would find it in a retired page
        words = self.page.words
        words[at.LEASE] = min(words[at.LEASE], end)

    def find_lease(self, connection: sqlite3.Connection) -> None:
        """Look up, after a commit, the end of the next lease; not now if others write."""
        try:
            connection.execute("BEGIN IMMEDIATE")
            first = connection.execute(_LEASE_FIRST).fetchone()[0]
            self.page.words[at.LEASE] = at.NO_LEASE if first is None else first
        except sqlite3.Error:
            pass
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def lapsed(self, now: int) -> bool:
        """Whether a lease may be over."""
        lease: int = self.page.words[at.LEASE]
        return lease <= now  # also UNKNOWN

    def next_lease(self) -> int | None:
        """Return the earliest time at which a lease may be over. One query, if no transaction has looked it up yet."""
        lease: int | None = self.page.words[at.LEASE]
        if lease == at.UNKNOWN:
            lease = self.rows(_LEASE_FIRST, ())[0][0]
        return None if lease == at.NO_LEASE else lease

    # ---- life -------------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> SqliteNotifier:
        """Return a notifier for a new worker. StoreError if all slots are taken."""
        with self.lock:  # else the notifier might begin after `close` has closed all others
            if self.closed:
                raise StoreClosed(CLOSED)
            self.look(at_once=True)
            notifier = SqliteNotifier(self, name)
            self._notifiers.add(notifier)
        return notifier

    def take(self, nonce: int, wanted: int) -> tuple[Page, int]:
        """Return the page, and a slot in it. StoreError if all are taken."""
        with self.lock:
            return self.page, self.page.take(nonce, wanted)

    def close(self) -> None:
        """Close the notifiers, and leave the page. The rest is freed when nobody uses it any more."""
        with self.lock:
            for notifier in list(self._notifiers):
                notifier.close()
            self._part()

    def after_fork(self) -> None:
        """Leave in a forked child, unnoticed by the others: the slots are the parent's."""
        self.lock = threading.RLock()
        self._part()
        for notifier in list(self._notifiers):
            notifier.after_fork()

    def _part(self) -> None:
        self.closed = True
        self.page = Page(None, self.now)  # nobody reads this one
        self._roster = None
        self._audiences.clear()


class Telling:
    """The changes of a transaction, on their way to the workers that they concern.

    If a writer dies between the commit and the ring, its mark stays in the page. Then the next writer, or a worker's
    next look, has everybody read again.
    """

    __slots__ = ("_at", "_changes", "_mark", "_page", "_presence")

    def __init__(self, tx: Transaction, presence: Presence, *, in_turn: bool) -> None:
        """Take a transaction that has made all its changes. `in_turn`: nobody else writes hints until `tell`."""
        self._changes = tx.changes
        self._presence = presence
        self._page: Page = presence.page
        self._at = at.UNTOLD if in_turn else at.WITHIN
        self._mark = 0

    def begin(self) -> None:
        """Mark, just before the commit, that there will be news."""
        words, changes = self._page.words, self._changes
        if words[at.USED] and (changes.moved or changes.paused or changes.announced):
            me, mark = self._presence.me, words[self._at]
            if mark and (self._at == at.UNTOLD or mark >> 31 != me):
                self._presence.alarm()  # a writer died, or has not announced its changes yet
            words[self._at] = self._mark = me << 31 | draw(31)

    def failed(self) -> None:
        """Take the mark back, as nothing was stored."""
        if self._mark and self._page.words[self._at] == self._mark:
            self._page.words[self._at] = 0

    def tell(self) -> None:
        """Ring the workers that the commit concerns. Raises nothing."""
        presence, changes = self._presence, self._changes
        try:
            presence.page.whole()
            if changes.announced:
                presence.stir([presence.slot(worker) for worker in changes.announced])
            if (changes.moved or changes.paused) and presence.page.words[at.USED]:
                self._hint(presence)
        except Exception:  # noqa: BLE001  (the changes are stored in any case)
            presence.alarm()
        if self._mark:
            self.failed()

    def _hint(self, presence: Presence) -> None:
        """Hint at each job to its owner, if the owner's horizon reaches it, and at pauses to all."""
        hints: list[tuple[int, int]] = []
        for topic, dues in self._changes.dues.items():
            audience = presence.audience(topic)
            if min([due for _, due in dues]) <= audience.furthest():
                words = audience.page.words
                slots = [audience.owners[slice_of(due)] for _, due in dues]
                pairs = zip(slots, dues, strict=True)
                hints += [(slot, id) for slot, (id, due) in pairs if due <= words[at.HORIZON + slot]]
        rung = {slot for slot, _ in hints}
        page, paused = presence.page, self._changes.paused
        if paused:
            hints.append((at.ALL, 0))
            names = {presence.name(topic) for topic in paused}
            rung.update(one.slot for one in presence.roster().present if not names.isdisjoint(one.topics))
        if hints and (self._at == at.WITHIN or page is not self._page or not page.hint(hints)):
            page.words[at.TOLD] += 1  # a pause has a number of its own
            presence.reload(page.taken() if paused else rung)
        elif rung:
            presence.ring(rung)
        if paused:
            page.words[at.PAUSED] = page.words[at.TOLD]


def _nonce_of(worker: str) -> tuple[int, int]:
    """Return the nonce of a worker and the slot that it had first, (0, -1) if its id has none."""
    slot, _, nonce = worker.rpartition("@")[2].partition(".")
    try:
        return int(nonce, 16), int(slot)
    except ValueError:
        return 0, -1
