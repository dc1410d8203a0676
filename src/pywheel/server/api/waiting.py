"""Waiting reserves: one thread of the process listens to the store and wakes callers when their jobs are due.

To other workers it is one of them: it announces the topics with waiting callers, hears of new jobs there, and knows
when the next job of each topic is due. A woken caller claims for itself. A few times a second, one query for all topics
looks for jobs that the owners of other shards left. No table is polled for each caller.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ...jobs.commands import Expire
from ...jobs.job import Due
from ...jobs.queries import GetNextDues, GetNextLease
from ...stores.contract import Store, intact
from ...stores.listener import StoreListener, Topic
from ...stores.notifier import Notifier, workers
from ...stores.ownership import shards_of, turn

_LOGGER: Final = logging.getLogger("pywheel.server")
_IDLE: Final = 1.0  # seconds without anything to do
_PATIENCE: Final = (0.02, 1.0)  # seconds before another caller is woken for a topic that gave nothing: first, longest
_AGAIN: Final = 0.5  # seconds until the thread goes on after an error that is not of the store
_SOME: Final = 500  # topics in one query: a caller with thousands of topics delays nobody else
_ALONE: Final = 1.0  # seconds between looks at all topics
_BESIDE: Final = 0.25  # the same while others work there
_OVERDUE: Final = 250  # ms after which a job in another worker's slice of time is taken
_DEPUTY: Final = 500  # ms after which this process ends a lost lease that the worker in charge has left
_HORIZON: Final = 5_000  # ms: jobs that are due later are read before that
_EXPIRED: Final = 200  # leases that are ended in one step


class Waiter(asyncio.Event):
    """A waiting caller: set when it is woken, until it claims. If it leaves before that, the next one is woken."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__()
        self.topics = topics


@dataclass(slots=True)
class _Topic(Topic):
    """When to wake a caller for a topic."""

    due: int | None = None  # ms
    patience: float = _PATIENCE[0]
    quiet_until: float = 0.0  # no wake before this time: the topic gave nothing though it was due, and may be paused

    def hushed(self, now: float) -> None:
        """Wake nobody for a moment, unless something is claimed or put meanwhile."""
        self.due = None
        self.quiet_until = now + self.patience
        self.patience = min(2 * self.patience, _PATIENCE[1])

    def stirred(self) -> None:
        """Wake a caller as soon as something is due."""
        self.quiet_until, self.patience = 0.0, _PATIENCE[0]


class Waiting(StoreListener[_Topic]):
    """All waiting callers of this process. `enter`, `leave` and `claimed` are called on the loop."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, "pywheel-waiting", "http", "waiting for jobs", "", _LOGGER)
        self._loop = asyncio.get_running_loop()
        self._unseen: set[str] = set()  # topics whose next due time is to be read
        self._later: dict[str, None] = {}  # topics whose next due time is read after those
        self._rest = 0.0  # seconds until then
        self._rung = True
        self._look_at = 0.0
        self._lease: int | None = None  # when to end a lost one, ms
        self._handling: dict[str, list[str]] = {}  # workers by topic
        self.count = 0

    # ---- on the loop ------------------------------------------------------------------------------------------------

    @property
    def here(self) -> bool:
        """Whether the running loop is that of the callers."""
        return self._loop is asyncio.get_running_loop()

    def enter(self, topics: Sequence[str]) -> Waiter:
        """Begin to wait for jobs of topics. The caller claims jobs that are already due itself, after this."""
        waiter = Waiter(topics)
        with self._mutex:
            fresh = [name for name in topics if name not in self._topics]
            self._topics.update((name, _Topic()) for name in fresh)
            self._unseen.update(fresh)
            self._begin()  # before the waiter is known: if there is no thread, nobody waits
            for name in topics:
                self._topics[name].waiters[waiter] = None
        self.count += 1
        if fresh:
            self._wake()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Stop waiting. If the waiter was woken and has not claimed, the next one is woken."""
        self.count -= 1
        with self._mutex:
            for name in waiter.topics:
                if name in self._topics:
                    self._topics[name].leave(waiter)
        if waiter.is_set():
            for name in waiter.topics:
                self._ring(name, 1)

    def claimed(self, name: str, jobs: int, *, more: bool) -> None:
        """Note the result of a claim: `jobs` of a topic were claimed, and with `more` others may be due."""
        topic = self._topics.get(name)
        if topic is None:
            return
        if jobs:
            topic.stirred()
        if more:
            self._ring(name, 2)
            return
        with self._mutex:
            self._unseen.add(name)
        self._wake()

    def _ring(self, name: str, count: int) -> None:
        """Wake `count` idle waiters of a topic; without an idle one, the first waiter. Woken waiters go to the end."""
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None:
                return
            idle = (waiter for waiter in topic.waiters if not waiter.is_set())
            for waiter in list(islice(idle, count)) or list(islice(topic.waiters, 1)):
                topic.waiters.move_to_end(waiter)
                waiter.set()

    def _ring_all(self, rung: Sequence[tuple[str, int]]) -> None:
        for name, count in rung:
            self._ring(name, count)

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:  # noqa: ARG002  (the claims of callers get the store's error)
        with self._mutex:
            everybody = [(name, len(topic.waiters)) for name, topic in self._topics.items()]
        if self._tell(everybody):
            time.sleep(_AGAIN)  # then the thread goes on for those who still wait

    def _tell(self, rung: Sequence[tuple[str, int]]) -> bool:
        """Wake callers; return False if their loop was closed, so that nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(self._ring_all, rung)
        except RuntimeError:
            with self._mutex:
                self._topics = {}
            return False
        return True

    def _turn(self, notifier: Notifier, topics: tuple[str, ...], *, announced: bool) -> None:
        if announced:
            self._look_at, self._rung = 0.0, True
        if time.monotonic() >= self._look_at:
            self._look(notifier)
            self._later |= dict.fromkeys(topics)
        counted: dict[str, int] = {}
        hints = self._hints(notifier, topics) if self._rung else ()
        with self._mutex:
            for due, _, name, _ in hints:
                topic = self._topics.get(name)
                if topic is not None:
                    counted[name] = counted.get(name, 0) + 1
                    topic.due = due if topic.due is None else min(topic.due, due)
                    topic.stirred()
        began = time.monotonic()
        for name, first in self._firsts(notifier.worker, self._some()).items():
            if name in self._topics:
                self._topics[name].due = first
        self._rest = time.monotonic() - began
        rung = self._due(counted)
        if rung:
            self._tell(rung)
        seconds, now = self._next(), time.monotonic()
        if self._lease is not None:
            self._look_at = min(self._look_at, now + max(self._store.clock.until(self._lease), 0.0))
        self._rung = notifier.wait(max(min(seconds, self._look_at - now), 0.0))

    def _look(self, notifier: Notifier) -> None:
        """Announce this process, look which others are there, and end lost leases."""
        now, me, members = time.monotonic(), notifier.worker, self._beat(notifier, self._behind())
        notifier.publish(self._store.clock.wall() + _HORIZON)
        there = [one for one in workers(members) if one.worker == me or one.silent <= 1.25 * notifier.silent]
        self._handling = {
            topic: [member.worker for member in there if topic in member.topics] for topic in self._announced
        }
        self._look_at = now + (_ALONE if len(members) <= 1 else _BESIDE)
        later = 0 if len(there) <= 1 else _DEPUTY
        lease = end_lost(self._store, later)
        self._lease = None if lease is None else lease + later

    def _hints(self, notifier: Notifier, topics: tuple[str, ...]) -> Sequence[Due]:
        """Return the jobs that were put or rescheduled since. If some are missing, all topics are read again."""
        found = notifier.hints()
        if not found.reload:
            return found.due
        notifier.quiet()  # no job starts here, so a pause need not wait for one
        self._later |= dict.fromkeys(topics)
        return ()

    def _some(self) -> list[str]:
        """Return the topics to be read now."""
        with self._mutex:
            some = list(islice(self._unseen, _SOME))
            self._unseen.difference_update(some)
            some += islice(self._later, _SOME - len(some))
            for name in some:
                self._later.pop(name, None)
            return [name for name in some if name in self._topics]

    def _firsts(self, me: str, topics: Sequence[str]) -> dict[str, int | None]:
        """Return when to wake a caller for each topic. One query.

        For a job in another worker's slice of time, the answer is a moment later: its owner comes first.
        """
        found: dict[str, int | None] = dict.fromkeys(topics)
        for name, due in self._store.ask(GetNextDues(topics)).items() if topics else ():
            handling = self._handling.get(name)
            found[name] = turn(shards_of(me, name, handling), due, _OVERDUE) if handling else due
        return found

    def _behind(self) -> int:
        """Return when the oldest overdue job was due, if nobody waits here; 0 with waiters, -1 without such a job."""
        topics = list(self._topics.values())
        if any(topic.waiters for topic in topics):
            return 0
        wall = self._store.clock.wall()
        return min((topic.due for topic in topics if topic.due is not None and topic.due < wall), default=-1)

    def _due(self, counted: dict[str, int]) -> list[tuple[str, int]]:
        """Return the topics to wake callers for, and how many callers for each."""
        wall, now = self._store.clock.wall(), time.monotonic()
        rung = []
        for name, topic in list(self._topics.items()):
            if topic.due is not None and topic.due <= wall and now >= topic.quiet_until and topic.waiters:
                rung.append((name, max(counted.get(name, 1), 1)))
                topic.hushed(now)  # until the woken caller reports
        return rung

    def _next(self) -> float:
        """Return for how many seconds there is nothing to do."""
        if self._unseen:
            return 0.0
        now, clock = time.monotonic(), self._store.clock
        times = [
            max(clock.until(topic.due), topic.quiet_until - now)
            for topic in list(self._topics.values())
            if topic.due is not None and topic.waiters
        ]
        if self._later:
            times.append(self._rest)
        return max(min(times, default=_IDLE), 0.0)


def end_lost(store: Store, later: int = 0) -> int | None:
    """End leases that expired at least `later` ms ago; return when the next one expires, or has if some are left."""
    lease = store.ask(GetNextLease())
    if lease is not None and store.clock.wall() >= lease + later:
        [expired] = intact(store.apply([Expire(_EXPIRED)]))
        if expired.ended < _EXPIRED:
            lease = expired.next_lease
    return lease
