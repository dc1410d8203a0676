"""The workers on a store, as this process sees them, and who of them is told what.

A worker writes its horizon before it reads; who changes a job reads the horizons after its commit. So either the worker
reads the change, or whoever made it sees how far the worker looks, and rings it. Plain puts read them with the put (see
`notifier`), or leave it to the ringer.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..._errors import StoreClosed, StoreError
from ...clock import Clock
from ...jobs.job import slice_of
from ..notifier import Member
from ..ownership import owners
from .ringer import Hints, Jobs, Ringer

if TYPE_CHECKING:
    from .notifier import RelationalNotifier

__all__ = ["BUSY", "SILENT", "Presence", "Seen", "Told", "WorkerQueries"]

SILENT: Final = 3.4
"""Seconds: a beat is a query, once a second."""
_HELD: Final = 5.0  # seconds of silence after which a worker cannot begin any more with what it held
_FORGOTTEN: Final = 60_000  # ms of silence after which a worker's row is deleted
BUSY: Final = 2.0
"""Seconds: whoever claimed a job so long ago is busy."""
_GATHER: Final = 0.1  # seconds for which jobs of several puts are gathered at most
_PAUSES: Final = (0.002, 0.05)  # seconds between looks at who is quiet: the first, the longest


class Told:
    """What is to be told after a commit."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[str, int]] = {}  # id: topic and due time
        self.stirred: set[str] = set()
        """Topics that were paused or resumed."""
        self.announced: set[str] = set()
        """Workers that handle other topics, or none any more."""

    def changed(self, id: int, topic: str, due: int) -> None:
        """Note that a job is due then, from now on."""
        self.jobs[id] = (topic, due)


class Seen(NamedTuple):
    """A worker's row."""

    worker: str
    topics: frozenset[str] | None  # None: it has announced none
    beat: int
    horizon: int
    behind: int
    stopped: int
    gone: bool  # its session has ended

    @classmethod
    def of(cls, row: Sequence[Any], known: Collection[str] = ()) -> Seen:
        """Return it from a row of the fields. Where `gone` is None, it is if it was `known` to be."""
        worker, topics, beat, horizon, behind, stopped, gone = row
        gone = worker in known if gone is None else bool(gone)
        return cls(worker, None if topics is None else _names(topics), beat, horizon, behind, stopped, gone)


@lru_cache(maxsize=1_024)
def _names(text: str) -> frozenset[str]:
    return frozenset(json.loads(text))


class WorkerQueries(ABC):
    """What a database does for the workers. Each raises StoreError."""

    @abstractmethod
    def roster(self) -> list[Sequence[Any]]:
        """Return the rows of all workers, by name."""

    @abstractmethod
    def pause_of(self, topic: str) -> tuple[bool, int] | None:
        """Return whether a topic is paused, and the number of its last pause or resumption."""

    @abstractmethod
    def forget(self, age: int) -> None:
        """Delete the rows of those that have been silent for so many ms."""

    @abstractmethod
    def near(self, due: int) -> Sequence[Sequence[Any]]:
        """Return the rows of all workers, if one of them looks as far as this."""

    @abstractmethod
    def ring(self, hints: Hints) -> None:
        """Tell workers."""


class Presence:
    """Who is there. From any thread."""

    def __init__(self, queries: WorkerQueries, clock: Clock) -> None:
        self.queries = queries
        self.clock = clock
        self.closed = False
        self.lock = threading.RLock()
        self.local: dict[str, RelationalNotifier] = {}
        self.stale = True  # somebody came or went
        self.busy_until = 0.0  # by the monotonic clock
        self._roster: list[Seen] = []
        self._dead: set[str] = set()  # of those in the roster, as others were told
        self._ringer = Ringer(queries.ring, self._whom)

    # ---- who is there -----------------------------------------------------------------------------------------------

    def roster(self) -> list[Seen]:
        """Return all workers. No query unless somebody came or went."""
        if self.stale:
            self.stale = False
            try:
                self.take(self.queries.roster())
            except BaseException:
                self.stale = True
                raise
        return self._roster

    @property
    def known(self) -> list[Seen]:
        """All workers as they were when they were last read."""
        return self._roster

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take in the rows of all workers, just read."""
        gone = {seen.worker for seen in self._roster if seen.gone}
        self._roster = [Seen.of(row, gone) for row in rows]

    def silent(self, seen: Seen) -> float:
        """Return for how many seconds a worker has not shown that it works; 60 if its process has ended.

        A beat that is ahead came before the server's clock was set back: who lives beats again within a second.
        """
        return 60.0 if seen.gone else abs(self.clock.wall() - seen.beat) / 1_000

    def members(self) -> tuple[Member, ...]:
        """Return all that have announced topics."""
        return tuple(
            Member(seen.worker, seen.topics, self.silent(seen), seen.behind)
            for seen in self.roster()
            if seen.topics is not None
        )

    def handling(self, topic: str, roster: Iterable[Seen] | None = None) -> list[str]:
        """Return the workers among whom the shards of a topic are divided."""
        there = [seen for seen in (self.roster() if roster is None else roster) if seen.topics and topic in seen.topics]
        return [seen.worker for seen in there if self.silent(seen) <= SILENT] or [seen.worker for seen in there]

    def clear_away(self) -> None:
        """Delete the rows of workers that have been silent for long."""
        if any(self.silent(seen) * 1_000 > _FORGOTTEN / 2 for seen in self._roster):
            self.queries.forget(_FORGOTTEN)
            self.stale = True

    # ---- telling ----------------------------------------------------------------------------------------------------

    def tell(self, told: Told, near: Sequence[Sequence[Any]]) -> None:
        """After a commit: tell those whom it concerns. Raises nothing; what cannot be told is read in time."""
        with suppress(StoreError):
            if told.announced or told.stirred:
                self._tell_all(told)
            if near:
                self._tell_of_jobs(told.jobs, near)

    def _tell_all(self, told: Told) -> None:
        self.stale = True
        what = None if told.stirred else set[int]()
        hints: Hints = {
            seen.worker: what for seen in self.roster() if told.stirred or seen.worker not in told.announced
        }
        self._hint(hints, {})

    def tell_later(self, jobs: Jobs) -> None:
        """After a commit that has not asked who looks how far: tell those whom the jobs concern, many at once.

        That may take a quarter of the time until the first is due.
        """
        dues = {id: due for id, (_, due) in jobs.items()}
        first = min(dues.values())
        for notifier in list(self.local.values()):
            notifier.note(dues)
            if notifier.looks_as_far_as(first):
                notifier.rung(reload=False)
        self._ringer.later(jobs, min(max(first - self.clock.wall(), 0) / 4_000, _GATHER))

    def _whom(self, jobs: Jobs) -> Hints:
        """Return whom of other processes jobs concern."""
        near = self.queries.near(min(due for _, due in jobs.values()))
        hints = self._hints(jobs, near) if near else {}
        return {worker: hint for worker, hint in hints.items() if worker not in self.local}

    def _tell_of_jobs(self, jobs: Jobs, near: Sequence[Sequence[Any]]) -> None:
        self._hint(self._hints(jobs, near), {id: due for id, (_, due) in jobs.items()})

    def _hints(self, jobs: Jobs, near: Sequence[Sequence[Any]]) -> Hints:
        """Return whom jobs concern, from the rows of workers just read."""
        self.take(near)
        horizons = {seen.worker: seen.horizon for seen in self._roster}
        by_topic: dict[str, tuple[str, ...]] = {}
        hints: Hints = {}
        for id, (topic, due) in jobs.items():
            table = by_topic.get(topic)
            if table is None:
                table = by_topic[topic] = owners(topic, self.handling(topic, self._roster))
            if table and due <= horizons[owner := table[slice_of(due)]]:
                hint = hints.setdefault(owner, set())
                if hint is not None:
                    hint.add(id)
        return hints

    def _hint(self, hints: Hints, dues: dict[int, int]) -> None:
        """Tell the workers of this process at once, the others by the ringer."""
        for notifier in list(self.local.values()):
            notifier.note(dues)
        for worker in list(hints):
            here = self.local.get(worker)  # another thread may be closing it
            if here is not None:
                here.rung(reload=hints.pop(worker) is None)
        self._ringer.add(hints)

    def ring(self, worker: str) -> None:
        """Let a worker look who is there."""
        self._hint({worker: set()}, {})

    def came_or_went(self, me: str) -> None:
        """Let all others look who is there."""
        self.stale = True
        with suppress(StoreError):
            self._hint({seen.worker: set() for seen in self.roster() if seen.worker != me}, {})

    @property
    def busy(self) -> bool:
        """Whether jobs were claimed here of late. Then others have some too, and a death is looked for more often."""
        return self.clock.time() < self.busy_until

    def tell_of_the_dead(self) -> None:
        """Let all others look, if somebody's session was found to have ended: who looks first spares them a second."""
        dead = {seen.worker for seen in self._roster if seen.gone}
        if dead - self._dead:
            self._hint({seen.worker: set() for seen in self._roster if seen.worker not in dead}, {})
        self._dead = dead

    # ---- pauses -----------------------------------------------------------------------------------------------------

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        until = time.monotonic() + seconds
        pause, longest = _PAUSES
        there: frozenset[str] | None = None
        while True:
            if self.closed:
                raise StoreClosed("the store was closed meanwhile: open another one")
            found = self.queries.pause_of(topic)
            if found is None or not found[0]:
                return False
            self.take(self.queries.roster())
            handling = {seen.worker: seen for seen in self._roster if seen.topics and topic in seen.topics}
            if there is None:  # who comes later has read that it is paused
                there = frozenset(handling)
            left = [handling[worker] for worker in there & handling.keys()]
            if all(seen.stopped >= found[1] or seen.gone or self.silent(seen) > _HELD for seen in left):
                return True
            if (remaining := until - time.monotonic()) <= 0:
                return False
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, longest)

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the notifiers."""
        for notifier in list(self.local.values()):
            notifier.end()
        self.closed = True
        self._ringer.close()

    def flush(self) -> None:
        """Return once the workers have been told all that they are to be told, or after a second."""
        self._ringer.flush()

    def after_fork(self, leave: Callable[[RelationalNotifier], None]) -> None:
        """Forget the parent's workers, in a forked child."""
        self.lock = threading.RLock()
        for notifier in self.local.values():
            leave(notifier)
        self.local = {}
        self.stale = True
        self._ringer = Ringer(self.queries.ring, self._whom)
