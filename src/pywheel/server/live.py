"""One reader of the store for pages and streams of events: a snapshot a second while anyone looks, none else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, repeat
from typing import Final, NamedTuple, TypeAlias

from .._errors import StoreError
from ..jobs.job import Counts
from ..jobs.queries import CountJobs, Ended, GetNextDues, ListEnded, ListTopics, ListWorkers
from ..stores.contract import Store
from ..stores.notifier import Member
from .coming import Coming, Forecaster

__all__ = ["Live", "Snapshot", "TopicNow", "Topics", "Watch"]

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
_PASTS: Final = 5_000  # topics of which it is remembered what ended: those in which something did last
_SHARE: Final = 4  # a look of a second is followed by so many seconds without
_NONE: Final = Counts()


class TopicNow(NamedTuple):
    """How a topic does."""

    name: str
    paused: bool
    counts: Counts
    first_due: int | None  # when the first delayed job is or was due, ms
    rate: float | None  # jobs that ended, a second, over the last ten; None before the second snapshot
    late_p50: int | None  # ms from due to started, of what ended within a minute; None if nothing did
    late_p99: int | None
    trend: tuple[int, ...]  # how many ended between snapshots, oldest first

    def overdue(self, now: int) -> int:
        """Return for how many ms its first delayed job has been due; 0 if none is."""
        return max(now - self.first_due, 0) if self.first_due is not None else 0


_Figures: TypeAlias = tuple[float | None, int | None, int | None, tuple[int, ...]]  # the last four of these


@dataclass(frozen=True, eq=False)
class Topics(Mapping[str, TopicNow]):
    """How each topic does, by name. What is not asked for is not made: there may be very many."""

    counts: Mapping[str, Counts]
    paused: Collection[str]
    firsts: Mapping[str, int]
    lively: Mapping[str, _Figures]  # the figures of topics in which something has ended of late
    quiet: _Figures  # those of any other one

    def __getitem__(self, name: str) -> TopicNow:
        figures = self.lively.get(name, self.quiet)
        return TopicNow(name, name in self.paused, self.counts[name], self.firsts.get(name), *figures)

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def rate(self, names: Iterable[str]) -> float | None:
        """Return how many jobs of some topics end in a second; None before the second snapshot."""
        if self.quiet[0] is None:
            return None
        return sum(self.lively[name][0] or 0.0 for name in names if name in self.lively)


_NO_TOPICS: Final = Topics({}, (), {}, {}, (None, None, None, ()))


class Snapshot(NamedTuple):
    """What there was to see at a moment."""

    number: int
    at: int  # by the store's clock, ms
    topics: Topics
    members: tuple[Member, ...]  # by name
    coming: dict[str | None, Coming | None]  # of topics that somebody looks at; None is all topics, unless too many
    ended: tuple[Ended, ...]  # since the snapshot before, oldest first
    changed: Sequence[str]  # topics whose counts are others than in the snapshot before
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
        # Of very many topics a look takes room, and each thread would keep some of its own.
        self._thread = ThreadPoolExecutor(1, "pywheel-live")
        self._latest: Snapshot | None = None
        self._taken = float("-inf")
        self._watches: dict[Watch, None] = {}  # oldest first
        self._left = 0.0
        self._task: asyncio.Task[None] | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def now(self, topics: Iterable[str | None] = ()) -> Snapshot:
        """Return a snapshot that is not older than the time between two, and has what is coming of these topics."""
        wanted = set(topics)
        async with self._alone():  # who comes while somebody looks takes what that one has seen
            latest = self._latest
            age = time.monotonic() - self._taken
            if latest is None or age >= max(self.every, _SHARE * latest.took) or not wanted <= latest.coming.keys():
                latest = await self._look(wanted)
            return latest

    def watch(self, topics: Iterable[str | None] = (), *, kept: int = 1) -> Watch:
        """Return each snapshot from now on, with what is coming of these topics; so many are kept for who is slow."""
        watch, loop = Watch(self, tuple(topics), kept), asyncio.get_running_loop()
        self._watches[watch] = None
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run())
        return watch

    def leave(self, watch: Watch) -> None:
        """Let somebody watch no longer. Idempotent."""
        self._watches.pop(watch, None)
        self._left = time.monotonic()

    async def _run(self) -> None:
        try:
            while self._watches or time.monotonic() - self._left < _LINGER:
                began = time.monotonic()
                async with self._alone():
                    await self._look(set())
                took = time.monotonic() - began
                await asyncio.sleep(max(self.every - took, _SHARE * took, self.every / 4))
        finally:
            self._tell(None)  # it failed: whoever looks asks anew

    def close(self) -> None:
        """Let the thread go. It comes back if somebody looks again."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = ThreadPoolExecutor(1, "pywheel-live")

    def _alone(self) -> asyncio.Lock:
        """Return what one holds to look: between two looks all who watch have their turn, and miss none."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    async def _look(self, wanted: set[str | None]) -> Snapshot:
        watched = dict.fromkeys(chain.from_iterable(watch.topics for watch in self._watches))
        look = partial(self._reader.look, wanted | set(islice(watched, _AHEAD)))
        latest = await asyncio.get_running_loop().run_in_executor(self._thread, look)
        self._latest, self._taken = latest, time.monotonic()
        self._tell(latest)  # whoever asked for it: what has ended is in no other one
        return latest

    def _tell(self, snapshot: Snapshot | None) -> None:
        for watch in self._watches:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                watch.tell(snapshot)


class Watch:
    """The snapshots for one who watches, until he closes it. Of those that wait for him the oldest are left out."""

    def __init__(self, live: Live, topics: tuple[str | None, ...], kept: int) -> None:
        self.topics = topics
        self._live = live
        self._waiting = asyncio.Queue[Snapshot | None](kept)

    def tell(self, snapshot: Snapshot | None) -> None:
        """Keep a snapshot until it is taken; None if there will be no more."""
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(snapshot)

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Snapshot:
        snapshot = await self._waiting.get()
        if snapshot is None:
            raise StopAsyncIteration
        return snapshot

    async def aclose(self) -> None:
        """Watch no longer."""
        self._live.leave(self)


class Reader:
    """Makes snapshots, on any thread, one at a time. What it remembers is bounded, but for a few bytes a topic."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._forecaster = Forecaster()
        self._pasts: dict[str, _Past] = {}  # of the topics in which something has ended of late, the last one last
        self._counts: Mapping[str, Counts] = {}  # as they were seen last
        self._times = deque[int](maxlen=_TREND)  # of snapshots, ms
        self._began = self._at = 0  # when it first looked, and last
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
                before = self._last or Snapshot(0, int(time.time() * 1000), _NO_TOPICS, (), {}, (), (), False, 0.0)
                self._last = before._replace(number=number, ended=(), changed=(), cut=False, error=type(error).__name__)
            return self._last

    def _read(self, store: Store, number: int, wanted: set[str | None]) -> Snapshot:
        began = time.monotonic()
        at = store.clock.wall()
        counts = store.ask(CountJobs())
        paused = frozenset(topic.name for topic in store.ask(ListTopics()) if topic.paused)
        firsts = store.ask(GetNextDues())
        members = tuple(store.ask(ListWorkers()))
        coming = {
            topic: None if topic is None and len(counts) > _WIDE else self._forecaster.look(store, topic, at)
            for topic in wanted
        }
        ended, cut = self._ended(store, at)
        changed = (
            [name for name, each in counts.items() if self._counts.get(name, _NONE) != each] if self._began else []
        )
        self._take_in(counts, changed, ended, at, cut)
        seconds = min(at - self._began, _WINDOW) / 1000
        lively = {name: past.figures(at, seconds, self._times) for name, past in self._pasts.items()}
        topics = Topics(counts, paused, firsts, lively, _Past().figures(at, seconds, self._times))
        return Snapshot(number, at, topics, members, coming, tuple(ended), changed, cut, time.monotonic() - began)

    def _take_in(
        self, counts: Mapping[str, Counts], changed: Sequence[str], ended: Sequence[Ended], at: int, cut: bool
    ) -> None:
        """Remember what has ended since the snapshot before, and in which topics."""
        gap, before = at - self._at if self._began else 0, self._counts
        self._began, self._at, self._counts = self._began or at, at, counts
        by_topic: dict[str, list[Ended]] = {name: [] for name in changed}
        for one in ended:
            by_topic.setdefault(one.topic, []).append(one)
        if gap > 0:
            self._times.append(at)
        for name, here in by_topic.items():
            was, now = before.get(name, _NONE), counts.get(name, _NONE)
            # The difference is too small where finished jobs are purged, and what was read where it is cut off.
            number = max(len(here), now.done + now.dead - was.done - was.dead)
            if gap > _WINDOW:  # nobody has looked for a while: what ended before that is nothing of now
                number = number * _WINDOW // gap if cut else sum(one.ended >= at - _WINDOW for one in here)
            if here or number:
                past = self._pasts[name] = self._pasts.pop(name) if name in self._pasts else _Past()
                past.see(number if gap > 0 else 0, here, at)
        oldest = self._times[0] if self._times else at
        for name, past in list(self._pasts.items()):
            if name not in counts or past.forget(oldest, at) or len(self._pasts) > _PASTS:
                del self._pasts[name]

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


@dataclass(slots=True)
class _Past:
    """What has ended in a topic of late."""

    _numbers: list[tuple[int, int]] = field(default_factory=list)  # (at which snapshot, how many ended before it)
    _late: list[tuple[int, int]] = field(default_factory=list)  # (ended, ms late)

    def see(self, number: int, ended: Sequence[Ended], at: int) -> None:
        """Take in that so many ended since the snapshot before, and those of them that were read."""
        if number:
            self._numbers.append((at, number))
        late = [(one.ended, max(one.lateness, 0)) for one in ended if one.lateness is not None]
        self._late = (self._late + late)[-_SAMPLES:]

    def forget(self, oldest: int, at: int) -> bool:
        """Forget what is too long ago, and return whether that is all."""
        self._numbers = [one for one in self._numbers if one[0] >= oldest]
        self._late = [one for one in self._late if one[0] >= at - _MINUTE]
        return not self._numbers and not self._late

    def figures(self, at: int, seconds: float, times: Iterable[int]) -> _Figures:
        """Return jobs a second, lateness p50 and p99 in ms, and the trend over the times of snapshots."""
        trend = tuple(map(dict(self._numbers).get, times, repeat(0)))
        rate = sum(number for when, number in self._numbers if when >= at - _WINDOW) / seconds if seconds > 0 else None
        late = sorted(late for _, late in self._late)
        if not late:
            return rate, None, None, trend
        return rate, late[len(late) // 2], late[min(len(late) * 99 // 100, len(late) - 1)], trend
