"""The near future of a worker's topics: a wheel of (due, id), fed from the store in pages and by hints.

The *horizon* is what this worker tells others: of changes up to there it wants hints. It is published before the store
is read, so that a job put meanwhile is either read or hinted. Each topic has a window of its own, bounded: what is
beyond it waits in the store and is read when there is room. A topic with nothing near sleeps until shortly before its
first job; once in a while each is read from the beginning, in case a hint was lost.

Each priority that jobs of a topic have is a *lane*: a window beside the topic's own. So no backlog hides what comes
first.

What is known and not yet due lies before the window's *cursor*, and of what lies before it all is known: so a window
has room again as time goes by, and reads on before it runs dry. A hint of what lies beyond is left to that reading.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from ..core import KeyWheel
from ..jobs.job import Due, shard_of
from ..jobs.limits import PRIORITIES
from ..stores.contract import Span, Store
from ..stores.notifier import Notifier
from .window import PAGE, Window

__all__ = ["EACH", "Windows"]

SPAN: Final = 5_000  # ms that are read ahead; more with very many topics
RESCAN: Final = 60_000  # ms after which a topic is read from the beginning
TOPICS: Final = 500  # topics in one read
_LOOK: Final = 500  # ms between looks which priorities there are, while others are late
EACH: Final = 16
"""Jobs of a group that stay known, of those that are set aside behind many others."""
_A_TOPIC: Final = 12  # ms of span for each topic
_BUSY: Final = 500  # hints within a second from which on it is cheaper to read more often than to be told
_START: Final = (-1, 0)
_ANYWHERE: Final = (-PRIORITIES, 2**62)  # a priority and a due time behind all others
_NOWHERE: Final = (PRIORITIES + 1, 0)


class Windows:
    """The windows of all topics, one wheel for all. Only the dispatcher uses it."""

    def __init__(self, store: Store, notifier: Notifier, windows: Iterable[Window]) -> None:
        self._store = store
        self._notifier = notifier
        self.by_topic = {window.topic: window for window in windows}
        self._all = list(self.by_topic.values())
        self._lanes = {(window.topic, 0): window for window in self._all}
        self._lanes_at = 0  # when to see which priorities there are
        self._looked_at = 0  # when that was done last
        self.ready: dict[Window, None] = {}
        """The windows of topics with jobs that are due."""
        self._span = min(max(SPAN, _A_TOPIC * len(self.by_topic)), RESCAN)
        self._to_read: deque[Window] = deque()
        self._told = 0  # hints since `_told_at`
        self._told_at = 0
        self._often = 0  # until when windows are read often
        self.reset()

    def reset(self) -> None:
        """Forget everything, and have it read again: after a step of the clock."""
        now = self._store.clock.wall()
        self._now = now
        self._wheel = KeyWheel(max(now, 0))
        self._topic_of: dict[int, Window] = {}
        self.ready.clear()
        self._next_read = 0
        for window in self._all:
            window.clear()
        self._again_all()

    def _again_all(self) -> None:
        self._lanes_at = 0
        for window in self.by_topic.values():
            self.again(window)

    def again(self, window: Window) -> None:
        """Read the windows of a topic from the beginning, soon."""
        for lane in window.lanes:
            self._again(lane)

    def _again(self, window: Window) -> None:
        self._forget_all(window)
        window.again()
        self._queue(window)

    def own(self, window: Window, shards: int) -> None:
        """Own these shards of a topic from now on: read those that are new, forget those that went."""
        for lane in window.lanes:
            gained, lane.shards = shards & ~lane.shards, shards
            for id in [id for id, handle in lane.known.items() if handle and not shards >> shard_of(id) & 1]:
                self._forget(lane, id)
            if gained:
                self._again(lane)
                self._lanes_at = 0  # of what others owned nobody has told priorities here

    # ---- lanes ------------------------------------------------------------------------------------------------------

    def _lane(self, topic: str, priority: int) -> Window:
        """Return the window of a topic's jobs with a priority; a new one is read soon."""
        found = self._lanes.get((topic, priority))
        if found is None:
            main = self.by_topic[topic]
            found = self._lanes[topic, priority] = Window(topic, main.room, main, priority)
            found.shards = main.shards
            main.lanes = sorted([*main.lanes, found], key=lambda lane: -lane.priority)
            self._all.append(found)
            self._again(found)
        return found

    def _look_for_lanes(self, now: int) -> None:
        """See which priorities there are: one query a minute. Of new ones a hint tells at once."""
        if now >= self._lanes_at:
            for topic in self._store.topics():
                if topic.name in self.by_topic:
                    for priority in topic.priorities:
                        self._lane(topic.name, priority)
            self._looked_at, self._lanes_at = now, now + RESCAN

    def __len__(self) -> int:
        return len(self._topic_of)

    # ---- time -------------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Make ready what has become due. The clock may have gone back a little."""
        self._now = max(now, self._now)
        for id in self._wheel.advance(self._now):
            window = self._topic_of.pop(id)
            window.known[id] = 0
            window.ready.append(id)
            self.ready[window.main] = None

    def next_deadline(self) -> int | None:
        """Return when something becomes due, or is to be read."""
        first = self._wheel.next_deadline()
        read = 0 if self._to_read else self._next_read
        return read if first is None else min(first, read)

    # ---- what is due ------------------------------------------------------------------------------------------------

    def claimed(self, window: Window, ids: Iterable[int], left: Iterable[Due]) -> None:
        """Forget the jobs that were asked for, but for those that were left; read on if few are known now."""
        stay = {job.id for job in left}
        known, groups = window.known, window.groups
        for id in ids:
            if id not in stay:
                if known.pop(id, None) is None:
                    window.lane_of(id).known.pop(id, None)
                if groups:
                    groups.pop(id, None)
        for lane in window.lanes:
            if lane.hungry:
                self._queue(lane)

    def put_back(self, window: Window, left: Iterable[Due]) -> None:
        """Wait again for jobs that were taken and not claimed.

        Those that are due may not be claimed together with others, and come after all that can be.
        """
        for job in left:
            lane = window.lane_of(job.id)
            if job.due > self._now:
                lane.settled(job.id)
                self._wait_for(lane, job)
            elif lane.known.get(job.id) == 0:
                lane.ready.append(job.id)
        if window.waiting:
            self.ready[window] = None

    def return_ids(self, window: Window, ids: Iterable[int]) -> None:
        """Make ids ready again, before all others."""
        for id in reversed(list(ids)):
            window.lane_of(id).ready.appendleft(id)
        if window.waiting:
            self.ready[window] = None

    def set_aside(self, window: Window, jobs: Sequence[Due], groups: Mapping[int, str]) -> None:
        """Look past these jobs, until `restore`. They keep their order: some may have been looked at before others."""
        window.aside += [(-job.priority, job.due, job.id) for job in jobs]
        window.aside.sort()
        for job in jobs:
            if job.id in groups:
                window.groups[job.id] = groups[job.id]
            else:
                window.groups.pop(job.id, None)
        if window.aside:
            self.ready[window] = None

    def look_past(self, window: Window, most: int) -> None:
        """Forget what is set aside, but for the first of all and of each group, and read on what comes after it."""
        seen: Counter[str | None] = Counter()
        kept = window.aside[:most]
        for one in window.aside[most:]:
            id = one[2]
            group = window.groups.get(id)
            seen[group] += 1
            if group is not None and seen[group] <= EACH and len(kept) < window.room // 2:
                kept.append(one)
            else:
                window.forgotten.add(group)
                window.lane_of(id).settled(id)
                window.groups.pop(id, None)
        window.aside = kept
        for lane in window.lanes:
            if lane.full:
                self._queue(lane)

    def acquit(self, window: Window) -> None:
        """Take them as any others: they were none."""
        ids = list(window.suspects)
        window.suspects.clear()
        self.return_ids(window, ids)

    def suspect(self, window: Window, ids: Iterable[int]) -> None:
        """Take these ids only by their turn: they may have killed their process."""
        window.suspects += ids
        self.ready[window] = None

    def restore(self, window: Window, places: Mapping[str | None, int] | None = None) -> None:
        """Make ready again of what was set aside the first of each group, and all of which no group is known.

        With `places` it is the first so many of these groups.
        """
        taken: Counter[str | None] = Counter()
        ids, stay = [], []
        for one in window.aside:
            group = window.groups.get(one[2])
            most = places.get(group, 0) if places is not None else 1 if group is not None else taken[None] + 1
            if taken[group] < most:
                taken[group] += 1
                ids.append(one[2])
            else:
                stay.append(one)
        window.aside = stay
        self.return_ids(window, ids)

    def drop(self, window: Window) -> None:
        """Forget all of a topic: it is paused. It is read again when a hint or a rescan says so."""
        for lane in window.lanes:
            self._forget_all(lane)
            lane.clear()
            lane.has_read(None, self._now)
        self.ready.pop(window, None)

    def rescued(
        self, shards: Mapping[str, int], now: int, until: int, reached: Mapping[str, tuple[int, int] | None]
    ) -> list[Span]:
        """Return what to read of topics' jobs that are overdue with others, who alone may have heard of a priority.

        Of topics with jobs enough of their own it is what comes before the priority and due time that was reached.
        """
        self._lanes_at = min(self._lanes_at, self._looked_at + _LOOK)
        self._look_for_lanes(now)
        spans: list[Span] = []
        for topic, mask in shards.items():
            priority, due = (reached[topic] or _NOWHERE) if topic in reached else _ANYWHERE
            for lane in self.by_topic[topic].lanes:
                if lane.priority >= priority:
                    before = until if lane.priority > priority else min(until, due)
                    spans.append(Span(topic, mask, _START, before, lane.priority))
        return spans

    def also(self, jobs: Sequence[Due], first: Container[str] = ()) -> None:
        """Take in jobs that are overdue with others; those of some topics come before what is ready."""
        for job in jobs:
            window = self._lane(job.topic, job.priority)
            if job.id not in window.known and job.topic not in first:
                if window.shards >> shard_of(job.id) & 1 and not window.full:
                    self._again(window)  # its own, and nobody has told of it: there may be more that are due later
                self._ready(window, job.id)
        for job in reversed(jobs):
            window = self._lane(job.topic, job.priority)
            if job.id not in window.known and job.topic in first:
                window.known[job.id] = 0
                self.return_ids(window.main, (job.id,))

    def _ready(self, window: Window, id: int) -> None:
        window.known[id] = 0
        window.ready.append(id)
        self.ready[window.main] = None

    # ---- feeding ----------------------------------------------------------------------------------------------------

    def hear(self) -> bool:
        """Take in what others changed; return whether topics were paused or resumed, or hints are missing."""
        hints = self._notifier.hints()
        if hints.reload:
            self._again_all()
        self._count(len(hints.due))
        for job in hints.due:
            if job.topic in self.by_topic:
                known = self._lane(job.topic, job.priority)
                before = known.main.lane_of(job.id)
                if before is not known:  # a put that replaced it gave it another priority
                    self._forget(before, job.id)
                self._wait_for(known, job)
                if len(known.known) > 2 * known.room:
                    self._again(known)
                elif known.hungry:
                    self._queue(known)
        return hints.reload

    def read(self, now: int) -> None:
        """Read one page from the store, if something is to be read."""
        if now >= self._next_read:
            self._queue_due(now)
        if not self._to_read:
            return
        self._notifier.publish(now + RESCAN + self._span)
        self._look_for_lanes(now)
        until = now + self._span
        windows = [self._to_read.popleft() for _ in range(min(len(self._to_read), TOPICS))]
        for window in windows:
            window.queued = False
            if now >= window.rescan_at:
                self._forget_all(window)
                window.again()
                window.rescan_at = now + RESCAN - 37 * len(self._to_read) % (RESCAN // 4)  # not all at once
        try:
            self._read(windows, now, until)
        except BaseException:
            for window in windows:
                self._queue(window)
            raise
        if not self._to_read:
            self._next_read = self._earliest()
            self._notifier.publish(max(until, self._latest() + self._span // 2))

    def _queue_due(self, now: int) -> None:
        """Queue the windows whose time to be read has come. O(topics), a few times a second at most."""
        for window in self._all:
            if now >= window.read_at:
                self._queue(window)
        if not self._to_read:
            self._next_read = self._earliest()

    def _read(self, windows: list[Window], now: int, until: int) -> None:
        page = self._store.windows([window.span(until) for window in windows], PAGE)
        cut = self._lanes[page[-1].topic, page[-1].priority] if len(page) == PAGE else None
        whole = []
        for number, window in enumerate(windows):
            if window is cut:
                window.has_read(page[-1], until)
                window.read_at = until
                for other in windows[number + 1 :]:
                    self._queue(other)
                break
            window.has_read(None, until)
            window.read_at = now + self._span // 2
            whole.append(window)
        near: set[Window] = set()
        name, level = "", 0
        for job in page:
            due, id, topic, priority = job
            if topic != name or priority != level or not near:
                name, level, lane = topic, priority, self._lanes[topic, priority]
                near.add(lane)
            if due <= self._now and id not in lane.known:  # a backlog: it need not go through the wheel
                self._ready(lane, id)
            else:
                self._wait_for(lane, job)
        if cut is not None and cut.hungry:
            self._queue(cut)
        self._rest([window for window in whole if window not in near], now, until)

    def _rest(self, idle: list[Window], now: int, until: int) -> None:
        """Let windows with nothing near sleep until shortly before their first job."""
        if not idle or now < self._often:
            return
        firsts = self._store.first_dues([window.span(until) for window in idle])
        for window, first in zip(idle, firsts, strict=True):
            wake = window.rescan_at if first is None else min(first - self._span // 2, window.rescan_at)
            window.read_at = max(wake, window.read_at)
            window.has_none_before(window.read_at + self._span // 2 if first is None else first)

    def feed(self) -> None:
        """Read more of the windows that run low."""
        for window in list(self.ready):
            for lane in window.lanes:
                if lane.hungry:
                    self._queue(lane)

    def _queue(self, window: Window) -> None:
        if not window.queued:
            window.queued = True
            self._to_read.append(window)

    def _earliest(self) -> int:
        """Return when to read next; with many topics a little later, for several of them at once."""
        first = min((window.read_at for window in self._all), default=2**62)
        return first + len(self._all) // 20

    def _latest(self) -> int:
        return max((window.read_at for window in self._all), default=0)

    def _count(self, hints: int) -> None:
        """Note how much one is told; if that is much, read often and publish a near horizon for a while."""
        self._told += hints
        if self._now - self._told_at >= 1_000:
            if self._told > _BUSY:
                self._often = self._now + RESCAN // 2
                self._next_read = 0
                for window in self._all:
                    window.read_at = min(window.read_at, self._now + self._span // 2)
            self._told, self._told_at = 0, self._now

    def _forget_all(self, window: Window) -> None:
        """Forget all that is not due yet."""
        for id in [id for id, handle in window.known.items() if handle]:
            self._forget(window, id)

    def _forget(self, window: Window, id: int) -> None:
        handle = window.known.pop(id, 0)
        if handle:
            self._wheel.cancel(handle)
            del self._topic_of[id]

    def _wait_for(self, window: Window, job: Due) -> None:
        """Wait for a job, or wait anew, or leave it to be read."""
        known = window.known.get(job.id)
        if not window.covers(job):
            if known:
                self._forget(window, job.id)
        elif known:
            self._wheel.reschedule(known, max(job.due, 0))
        elif known is None or job.due > self._now:  # one that is ready and was moved to later leaves what is ready
            window.known[job.id] = self._wheel.schedule(max(job.due, 0), job.id)
            self._topic_of[job.id] = window
