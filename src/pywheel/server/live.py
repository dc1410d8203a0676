"""One reader of the store for pages and event streams: a snapshot a second while anyone looks, otherwise none."""

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
from ..jobs.queries import CountJobs, Ended, GetNextDues, ListEnded, ListTopics, ListWorkers, Member
from ..stores.contract import Store
from .coming import Coming, Forecaster

_LOGGER: Final = logging.getLogger("pywheel.server")
_NEWEST: Final = 1_000  # ended jobs in one read
_BACK: Final = 5_000  # ms that a look goes back
_WINDOW: Final = 10_000  # ms over which jobs a second are counted
_SAMPLES: Final = 2_000  # latenesses that are kept of a topic
_MINUTE: Final = 60_000  # ms for which a lateness counts
_LINGER: Final = 15.0  # seconds without viewers until it stops: the last one may just have gone to the next page
_AHEAD: Final = 50  # topics with a forecast in one snapshot
_WIDE: Final = 2_000  # topics up to which all of them together have a forecast: its cost grows with their number
_TREND: Final = 60  # snapshots
_PASTS: Final = 5_000  # topics whose ended jobs are remembered: those with the latest ones
_SHARE: Final = 4  # the pause after two looks is this many times as long as the shorter one
_NONE: Final = Counts()


class TopicNow(NamedTuple):
    """The state of a topic."""

    name: str
    paused: bool
    counts: Counts
    first_due: int | None  # when the first delayed job is or was due, ms
    rate: float | None  # jobs that end in a second, over the last ten seconds; None before the second snapshot
    late_p50: int | None  # ms from due to started, of jobs that ended within a minute; None without such jobs
    late_p99: int | None
    trend: tuple[int, ...]  # how many jobs ended between snapshots, oldest first

    def overdue(self, now: int) -> int:
        """Return for how many ms its first delayed job has been due; 0 if none is."""
        return max(now - self.first_due, 0) if self.first_due is not None else 0


_Figures: TypeAlias = tuple[float | None, int | None, int | None, tuple[int, ...]]  # the last four of these


@dataclass(frozen=True, eq=False)
class Topics(Mapping[str, TopicNow]):
    """The state of each topic, by name. An entry is made on access, as there may be very many topics."""

    counts: Mapping[str, Counts]
    paused: Collection[str]
    firsts: Mapping[str, int]
    lively: Mapping[str, _Figures]  # the figures of topics with recently ended jobs
    quiet: _Figures  # the figures of all other topics

    def __getitem__(self, name: str) -> TopicNow:
        figures = self.lively.get(name, self.quiet)
        return TopicNow(name, name in self.paused, self.counts[name], self.firsts.get(name), *figures)

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def rate(self, names: Iterable[str]) -> float | None:
        """Return how many jobs of these topics end in a second; None before the second snapshot."""
        if self.quiet[0] is None:
            return None
        return sum(self.lively[name][0] or 0.0 for name in names if name in self.lively)


_NO_TOPICS: Final = Topics({}, (), {}, {}, (None, None, None, ()))


class Snapshot(NamedTuple):
    """The state of the store at a moment."""

    number: int
    at: int  # ms, by the store's clock
    topics: Topics
    members: tuple[Member, ...]  # by name
    coming: dict[str | None, Coming | None]  # of watched topics; None is all topics, unless there are too many
    ended: tuple[Ended, ...]  # since the snapshot before, oldest first
    changed: Sequence[str]  # topics whose counts differ from the snapshot before
    cut: bool  # whether more jobs have ended than could be read
    took: float  # seconds that the read took
    error: str | None = None  # why this repeats the snapshot before, with its time; the log has more


class Live:
    """Snapshots of a queue, kept up to date for all viewers.

    It belongs to one event loop at a time. A thread reads the store.

    Args:
        store: returns the store, called anew at each snapshot.
        every: seconds between snapshots.
    """

    def __init__(self, store: Callable[[], Store], *, every: float = 1.0) -> None:
        self.every = every
        self._reader = Reader(store)
        # With very many topics a look needs much memory, and each thread would keep some of its own.
        self._thread = ThreadPoolExecutor(1, "pywheel-live")
        self._latest: Snapshot | None = None
        self._taken = float("-inf")
        self._rest = 0.0  # seconds for which the store is not looked at
        self._watches: dict[Watch, None] = {}  # oldest first
        self._left = 0.0
        self._task: asyncio.Task[None] | None = None
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    async def now(self, topics: Iterable[str | None] = ()) -> Snapshot:
        """Return a snapshot that is younger than the time between two and has the forecast of these topics."""
        wanted, turn = set(topics), self._alone()
        await turn.acquire()  # a caller that comes during a look takes its result
        latest, age = self._latest, time.monotonic() - self._taken
        if latest and age < max(self.every, self._rest) and wanted <= latest.coming.keys():
            turn.release()
            return latest
        look = asyncio.get_running_loop().create_task(self._look(wanted))
        look.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(look)  # a cancelled caller does not cancel it: the watchers need its ended jobs

    def watch(self, topics: Iterable[str | None] = (), *, kept: int = 1) -> Watch:
        """Return all snapshots from now on, with these topics' forecasts. At most `kept` wait for a slow reader."""
        watch, loop = Watch(self, tuple(topics), kept), asyncio.get_running_loop()
        self._watches[watch] = None
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run())
        return watch

    def leave(self, watch: Watch) -> None:
        """End a watch. Idempotent."""
        self._watches.pop(watch, None)
        self._left = time.monotonic()

    async def _run(self) -> None:
        try:
            while self._watches or time.monotonic() - self._left < _LINGER:
                began = time.monotonic()
                async with self._alone():
                    await self._look(set())
                took = time.monotonic() - began
                await asyncio.sleep(max(self.every - took, self._rest, self.every / 4))
        finally:
            self._tell(None)  # if it failed, each viewer asks anew

    def close(self) -> None:
        """Release the thread. The next look starts another one."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._thread = ThreadPoolExecutor(1, "pywheel-live")

    def _alone(self) -> asyncio.Lock:
        """Return the lock for a look. Between two looks all watchers get their turn and miss none."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    async def _look(self, wanted: set[str | None]) -> Snapshot:
        watched = dict.fromkeys(chain.from_iterable(watch.topics for watch in self._watches))
        look = partial(self._reader.look, wanted | set(islice(watched, _AHEAD)))
        latest = await asyncio.get_running_loop().run_in_executor(self._thread, look)
        before, self._latest, self._taken = self._latest, latest, time.monotonic()
        # A single slow look, or one that failed, says nothing of the next: its state would be shown for too long.
        self._rest = _SHARE * min(latest.took, before.took) if before and not latest.error else 0.0
        self._tell(latest)  # to all watchers: no other snapshot has these ended jobs
        return latest

    def _tell(self, snapshot: Snapshot | None) -> None:
        for watch in self._watches:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                watch.tell(snapshot)


class Watch:
    """The snapshots for one watcher, until it closes the watch. If too many wait, the oldest are left out."""

    def __init__(self, live: Live, topics: tuple[str | None, ...], kept: int) -> None:
        self.topics = topics
        self._live = live
        self._waiting = asyncio.Queue[Snapshot | None](kept)

    def tell(self, snapshot: Snapshot | None) -> None:
        """Keep a snapshot until it is taken. None: no more will come."""
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
        """End the watch."""
        self._live.leave(self)


class Reader:
    """The maker of snapshots: on any thread, one at a time. Its memory is bounded, except for a few bytes a topic."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._forecaster = Forecaster()
        self._pasts: dict[str, _Past] = {}  # topics with recently ended jobs, the latest last
        self._counts: Mapping[str, Counts] = {}  # as of the last snapshot
        self._times = deque[int](maxlen=_TREND)  # of snapshots, ms
        self._began = self._at = 0  # time of the first look and of the last, ms
        self._seen: dict[tuple[int, int], None] = {}  # ended jobs that looks have found, the last ones last
        self._last: Snapshot | None = None

    def look(self, wanted: set[str | None]) -> Snapshot:
        """Return a new snapshot. If the store fails, return the one before with that error."""
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
        """Remember which jobs have ended since the snapshot before, by topic."""
        gap, before = at - self._at if self._began else 0, self._counts
        if gap < -_BACK:  # the clock was set back: what was noted before then has times to come
            self._began, gap = 0, 0
            self._times.clear()
            self._pasts.clear()
        self._began, self._at, self._counts = self._began or at, at, counts
        by_topic: dict[str, list[Ended]] = {name: [] for name in changed}
        for one in ended:
            by_topic.setdefault(one.topic, []).append(one)
        if gap > 0:
            self._times.append(at)
        for name, here in by_topic.items():
            was, now = before.get(name, _NONE), counts.get(name, _NONE)
            # The difference is too small if finished jobs are purged, the number of read jobs if the read is cut off.
            number = max(len(here), now.done + now.dead - was.done - was.dead)
            if gap > _WINDOW:  # nobody has looked for a while: earlier ends do not count for the rate
                number = number * _WINDOW // gap if cut else sum(one.ended >= at - _WINDOW for one in here)
            if here or number:
                past = self._pasts[name] = self._pasts.pop(name) if name in self._pasts else _Past()
                past.see(number if gap > 0 else 0, here, at)
        oldest = self._times[0] if self._times else at
        for name, past in list(self._pasts.items()):
            if name not in counts or past.forget(oldest, at) or len(self._pasts) > _PASTS:
                del self._pasts[name]

    def _ended(self, store: Store, at: int) -> tuple[list[Ended], bool]:
        """Return the jobs that ended since the snapshot before, oldest first, and whether there were more.

        It looks back a little further: a job may appear as ended after another job that ended later.
        """
        since = at - _MINUTE if self._last is None else max(self._last.at - _BACK, at - _MINUTE)
        found = store.ask(ListEnded(None, since, _NEWEST))
        cut = len(found) >= _NEWEST
        if cut and found[0].ended > at + _BACK:  # the clock was set back: these hide what has ended now
            now = store.ask(ListEnded(None, since, _NEWEST, at + _BACK))
            found = [one for one in found if one.ended > at + _BACK] + now
            cut = len(now) >= _NEWEST
        new = [one for one in reversed(found) if (one.ended, one.id) not in self._seen]
        for one in reversed(found):  # those that each look finds must not be forgotten
            self._seen.pop((one.ended, one.id), None)
            self._seen[one.ended, one.id] = None
        for old in list(islice(self._seen, max(len(self._seen) - 10 * _NEWEST, 0))):
            del self._seen[old]
        return new, cut or (self._last is not None and self._last.at < since)


@dataclass(slots=True)
class _Past:
    """The jobs of a topic that ended recently."""

    _numbers: list[tuple[int, int]] = field(default_factory=list)  # (ms of the snapshot, jobs that ended before it)
    _late: list[tuple[int, int]] = field(default_factory=list)  # (time of the end, lateness), in ms

    def see(self, number: int, ended: Sequence[Ended], at: int) -> None:
        """Note how many jobs ended since the snapshot before, and the lateness of those that were read."""
        if number:
            self._numbers.append((at, number))
        late = [(one.ended, max(one.lateness, 0)) for one in ended if one.lateness is not None]
        self._late = (self._late + late)[-_SAMPLES:]

    def forget(self, oldest: int, at: int) -> bool:
        """Forget old entries, and return whether none is left."""
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
