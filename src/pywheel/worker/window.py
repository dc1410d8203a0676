"""The near future of a worker's shards: a wheel of (due, id), fed from the store in pages and by hints.

The *horizon* is what this worker tells others: of changes up to there it wants hints. It is published before the store
is read, so that a job put meanwhile is either read or hinted. Beyond what was read nothing is known, and need not be:
it is read half a span before it is due. When nothing is near, the window sleeps until shortly before the first job
beyond it; once in a while all is read again, in case a hint was lost.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..clock import Clock
from ..core import KeyWheel
from ..jobs.job import Due, shard_of
from ..stores.contract import Listener, Store

__all__ = ["Window"]

SPAN: Final = 5_000  # ms that are read ahead
RESCAN: Final = 60_000  # ms after which all is read again
PAGE: Final = 300  # jobs in one read: what is due meanwhile waits for some milliseconds at most
ENOUGH: Final = 4_000  # jobs known, from which on more are read only as they go
MOST: Final = 20_000  # jobs known at a time; more wait in the store
_START: Final = (-1, 0)
_LAST_ID: Final = 2**63 - 1


class Window:
    """Which jobs are due when. Only the dispatcher uses it."""

    def __init__(self, store: Store, listener: Listener, topics: Collection[str], clock: Clock) -> None:
        self._store = store
        self._listener = listener
        self._topics = topics
        self._clock = clock
        self.shards: Collection[int] = ()
        listener.publish(0)  # from here on it hears of what concerns all
        self._hints = store.hints(-1).cursor
        self.reset()

    def reset(self) -> None:
        """Forget everything, and have it read again: after a step of the clock, or when shards changed hands."""
        self._wheel = KeyWheel(self._clock.wall())
        self._known: dict[int, tuple[int, str]] = {}  # id: handle, or 0 once it is due; and topic
        self._again()

    def _again(self) -> None:
        """Read from the beginning at the next turn."""
        self._cursor = _START
        self._full = False
        self._behind = False
        self._rescan_at = self.load_at = 0
        self._quiet = False

    def __len__(self) -> int:
        return len(self._known)

    def settled(self, id: int) -> None:
        """Forget a job that was due: it has been claimed, or is no longer to be had."""
        self._known.pop(id, None)

    def due(self, now: int) -> list[tuple[int, str]]:
        """Return (id, topic) of the jobs that have become due, in order."""
        found = []
        for id in self._wheel.advance(now):
            topic = self._known[id][1]
            self._known[id] = (0, topic)
            found.append((id, topic))
        return found

    def next_deadline(self) -> int | None:
        """Return when to look again for due jobs, or for more of them."""
        first = self._wheel.next_deadline()
        return self.load_at if first is None else min(first, self.load_at)

    # ---- feeding ----------------------------------------------------------------------------------------------------

    def read_hints(self) -> bool:
        """Take in what others changed; return whether that was more than jobs: shards may have to change hands."""
        hints = self._store.hints(self._hints)
        self._hints = hints.cursor
        if hints.reload:
            self._again()
        for job in hints.due:
            if job.topic in self._topics and shard_of(job.id) in self.shards:
                self._wait_for(job)
        if hints.due and self._quiet:
            self.load_at = 0
        if len(self._known) > MOST and not self._behind:
            self._behind = True  # hints are worth nothing now: all is read again when there is room
            self._listener.publish(0)
        return hints.reload

    def load(self, now: int) -> None:
        """Read more from the store if it is time to, or if what was read is running out."""
        if self._behind:
            if len(self._known) > MOST // 2:
                self.load_at = now + SPAN
                return
            self._again()
        if now < self.load_at and not (self._full and len(self._known) < ENOUGH):
            return
        if now >= self._rescan_at:
            self._cursor = _START
            self._rescan_at = now + RESCAN
        self._listener.publish(now + RESCAN + SPAN)
        until = now + SPAN
        page = self._store.window(self._topics, self.shards, self._cursor, until, PAGE)
        for job in page:
            self._wait_for(job)
        self._full = len(page) == PAGE
        if self._full:
            self._cursor = (page[-1].due, page[-1].id)
            self._busy(now, until)
        else:
            self._cursor = (until, _LAST_ID)
            self._rest(now, until, len(page))

    def _busy(self, now: int, until: int) -> None:
        self._quiet = False
        self.load_at = now if self._full and len(self._known) < ENOUGH else now + SPAN // 2
        self._listener.publish(until)

    def _rest(self, now: int, until: int, found: int) -> None:
        """Sleep as long as nothing is near."""
        first = self._store.first_due(self._topics, until)
        sleep = self._rescan_at if first is None else min(first - SPAN // 2, self._rescan_at)
        if found or sleep < now + SPAN // 2:
            self._busy(now, until)
        else:
            self._quiet = True
            self.load_at = sleep
            self._listener.publish(sleep + SPAN)

    def _wait_for(self, job: Due) -> None:
        """Wait for a job, or wait anew."""
        known = self._known.get(job.id)
        if known is None:
            self._known[job.id] = (self._wheel.schedule(job.due, job.id), job.topic)
        elif known[0]:
            self._wheel.reschedule(known[0], job.due)
