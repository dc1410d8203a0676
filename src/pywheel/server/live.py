"""One reader of the store for pages and streams of events: a snapshot a second while anyone looks, none else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from .._errors import StoreError
from ..jobs.job import Counts
from ..jobs.queries import CountJobs, Ended, GetNextDues, ListEnded, ListTopics, ListWorkers
from ..stores.contract import Store
from ..stores.notifier import Member
from .coming import Coming, Forecaster

__all__ = ["Live", "Snapshot", "TopicNow"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_NEWEST: Final = 1_000  # ended jobs that are read at once
_BACK: Final = 5_000  # ms that a look goes back
_WINDOW: Final = 10_000  # ms over which jobs a second are counted
_SAMPLES: Final = 2_000  # latenesses that are kept of a topic
_MINUTE: Final = 60_000  # ms: for how long a lateness counts
_LINGER: Final = 15.0  # seconds that it goes on after the last viewer, who may just have gone to the next page
_AHEAD: Final = 50  # topics of which it is seen what is coming, at once
_WIDE: Final = 2_000  # topics, of all of which it is seen what is coming: it costs as many as there are
_TREND: Final = 60  # snapshots


class TopicNow(NamedTuple):
    """How a topic does."""

    name: str
    paused: bool
    counts: Counts
    rate: float | None  # jobs that ended, a second, over the last ten; None before the second snapshot
    late_p50: int | None  # ms from due to started, of what ended within a minute; None if nothing did
    late_p99: int | None
    first_due: int | None  # when the first delayed job is or was due, ms
    trend: tuple[int, ...]  # how many ended between snapshots, oldest first


class Snapshot(NamedTuple):
    """What there was to see at a moment."""

    number: int
    at: int  # by the store's clock, ms
    topics: tuple[TopicNow, ...]  # by name
    members: tuple[Member, ...]  # by name
    coming: dict[
        str | None, Coming | None
    ]  # by topic, those that somebody looks at; None is all topics, unless too many
    ended: tuple[Ended, ...]  # since the snapshot before, oldest first
    cut: bool  # whether more have ended than could be read
    took: float  # seconds that reading took
    error: str | None = None  # why this is the one before, with its time; the log has more


class Live:
    """What is to be seen of a queue, kept up to date for all who look.

    It belongs to one event loop at a time. Reading happens on a thread.

    Args:
        store: returns the store, at each snapshot anew.
        every: seconds between snapshots.
    """

    def __init__(self, store: Callable[[], Store], *, every: float = 1.0) -> None:
        self.every = every
        self._reader = Reader(store)
        self._latest: Snapshot | None = None
        self._taken = float("-inf")
        self._viewers = 0
        self._left = 0.0
        self._wanted: dict[str | None, int] = {}
        self._next: asyncio.Future[Snapshot | None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def viewers(self) -> int:
        """How many look now."""
        return self._viewers

    async def now(self, topics: Iterable[str | None] = ()) -> Snapshot:
        """Return a snapshot that is not older than the time between two, and has what is coming of these topics."""
        wanted = set(topics)
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        async with self._turn[1]:  # who comes while somebody looks takes what that one has seen
            latest = self._latest
            age = time.monotonic() - self._taken
            if latest is None or age >= max(self.every, latest.took) or not wanted <= latest.coming.keys():
                latest = await self._look(wanted)
            return latest

    async def watch(self, topics: Iterable[str | None] = ()) -> AsyncGenerator[Snapshot, None]:
        """Yield each snapshot from now on, and what is coming of these topics; one who is slow misses some."""
        wanted = tuple(topics)
        self._viewers += 1
        for topic in wanted:
            self._wanted[topic] = self._wanted.get(topic, 0) + 1
        try:
            while (snapshot := await self._coming_next()) is not None:
                yield snapshot
        finally:
            self._viewers -= 1
            self._left = time.monotonic()
            for topic in wanted:
                self._wanted[topic] -= 1
                if not self._wanted[topic]:
                    del self._wanted[topic]

    async def _coming_next(self) -> Snapshot | None:
        loop = asyncio.get_running_loop()
        if self._next is None or self._next.get_loop() is not loop:
            self._next = loop.create_future()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run())
        return await asyncio.shield(self._next)

    async def _run(self) -> None:
        try:
            while self._viewers or time.monotonic() - self._left < _LINGER:
                began = time.monotonic()
                self._tell(await self._look(set()))
                took = time.monotonic() - began
                await asyncio.sleep(max(self.every - took, took, self.every / 4))
        finally:
            self._tell(None)  # it failed: whoever looks asks anew

    async def _look(self, wanted: set[str | None]) -> Snapshot:
        self._latest = await asyncio.to_thread(self._reader.look, wanted | set(islice(self._wanted, _AHEAD)))
        self._taken = time.monotonic()
        return self._latest

    def _tell(self, snapshot: Snapshot | None) -> None:
        if self._next is not None and not self._next.done():
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._next.set_result(snapshot)
        self._next = None


class Reader:
    """Makes snapshots, on any thread, one at a time."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._forecaster = Forecaster()
        self._pasts: dict[str, _Past] = {}
        self._seen: dict[tuple[int, int], None] = {}  # what has ended of late, oldest first
        self._last: Snapshot | None = None

    def look(self, wanted: set[str | None]) -> Snapshot:
        """Return a new snapshot, or the one before with the error that kept this one from being made."""
        with self._lock:
            number = self._last.number + 1 if self._last else 1
            try:
                self._last = self._read(self._store(), number, wanted)
            except StoreError as error:
                _LOGGER.warning("no snapshot: %s", error)
                before = self._last or Snapshot(0, int(time.time() * 1000), (), (), {}, (), False, 0.0)
                self._last = before._replace(number=number, ended=(), cut=False, error=type(error).__name__)
            return self._last

    def _read(self, store: Store, number: int, wanted: set[str | None]) -> Snapshot:
        began = time.monotonic()
        at = store.clock.wall()
        counts = store.ask(CountJobs())
        topics = store.ask(ListTopics())
        firsts = store.ask(GetNextDues())
        ended, cut = self._ended(store, at)
        by_topic: dict[str, list[Ended]] = {}
        for one in ended:
            by_topic.setdefault(one.topic, []).append(one)
        shown = []
        for topic in topics:
            count = counts.get(topic.name, _NONE)
            past = self._pasts.get(topic.name)
            if past is None:
                past = self._pasts[topic.name] = _Past(count, at)
            past.see(count, by_topic.get(topic.name, ()), at, cut)
            shown.append(
                TopicNow(topic.name, topic.paused, count, *past.figures(at), firsts.get(topic.name), past.trend)
            )
        for gone in self._pasts.keys() - {topic.name for topic in topics}:
            del self._pasts[gone]
        coming = {
            topic: None if topic is None and len(topics) > _WIDE else self._forecaster.look(store, topic, at)
            for topic in wanted
        }
        members = tuple(store.ask(ListWorkers()))
        took = time.monotonic() - began
        return Snapshot(number, at, tuple(shown), members, coming, tuple(ended), cut, took)

    def _ended(self, store: Store, at: int) -> tuple[list[Ended], bool]:
        """Return what has ended since the snapshot before, oldest first, and whether there was more than that.

        It looks back a little further: a job may be seen to have ended after another one that ended later.
        """
        since = at - _MINUTE if self._last is None else max(self._last.at - _BACK, at - _MINUTE)
        found = store.ask(ListEnded(None, since, _NEWEST))
        new = [one for one in reversed(found) if (one.ended, one.id) not in self._seen]
        self._seen |= dict.fromkeys((one.ended, one.id) for one in new)
        for old in list(islice(self._seen, max(len(self._seen) - 10 * _NEWEST, 0))):
            del self._seen[old]
        return new, len(found) >= _NEWEST or (self._last is not None and self._last.at < since)


_NONE: Final = Counts()


class _Past:
    """What was seen of a topic before."""

    __slots__ = ("_at", "_began", "_counts", "_late", "_rates", "trend")

    def __init__(self, counts: Counts, at: int) -> None:
        self.trend: tuple[int, ...] = ()
        self._counts = counts
        self._began = self._at = at
        self._rates: list[tuple[int, int]] = []  # (until when, how many ended)
        self._late: list[tuple[int, int]] = []  # (ended, ms late)

    def see(self, counts: Counts, ended: Sequence[Ended], at: int, cut: bool) -> None:
        """Take in what is counted now, and what has ended since; `cut`: more has than that."""
        gap = at - self._at
        if gap > 0:
            # The difference is too small where finished jobs are purged, and what was read where it is cut off.
            number = max(len(ended), counts.done + counts.dead - self._counts.done - self._counts.dead)
            if gap > _WINDOW:  # nobody has looked for a while: what ended before that is nothing of now
                number = number * _WINDOW // gap if cut else sum(one.ended >= at - _WINDOW for one in ended)
            self.trend = (*self.trend[1 - _TREND :], number)
            if number:
                self._rates.append((at, number))
        self._counts, self._at = counts, at
        self._rates = [rate for rate in self._rates if rate[0] >= at - _WINDOW]
        late = [(one.ended, max(one.lateness, 0)) for one in ended if one.lateness is not None]
        self._late = [one for one in self._late + late if one[0] >= at - _MINUTE][-_SAMPLES:]

    def figures(self, at: int) -> tuple[float | None, int | None, int | None]:
        """Return jobs a second, and lateness p50 and p99 in ms."""
        seconds = min(at - self._began, _WINDOW) / 1000
        rate = sum(number for _, number in self._rates) / seconds if seconds > 0 else None
        late = sorted(late for _, late in self._late)
        if not late:
            return rate, None, None
        return rate, late[len(late) // 2], late[min(len(late) * 99 // 100, len(late) - 1)]
