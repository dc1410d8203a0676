"""The workers on a store, as this process sees them, and who of them is told what.

A worker writes its horizon before it reads; who changes a job reads the horizons after its commit. So either the worker
reads the change, or whoever made it sees how far the worker looks, and rings it. Another thread does so, for many at
once (see `ringer`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..._errors import StoreClosed, StoreError
from ...clock import Clock
from ...jobs.job import slice_of
from ..checks import FURTHEST
from ..notifier import Member
from ..ownership import owners
from ..sql.statement import Do, Select
from ..sql.transaction import Changes
from .ringer import Hints, Jobs, Ringer

if TYPE_CHECKING:
    from .notifier import RelationalNotifier
    from .store import RelationalStore

__all__ = ["BUSY", "SEEN", "SILENT", "Leases", "Presence", "Seen"]

SEEN: Final = "w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped"
"""The columns of a worker's row `w`, but for whether it is gone."""
_NEAR: Final = (  # of all workers, if one of them looks as far as this
    f"SELECT {SEEN}, NULL FROM member w "
    "WHERE EXISTS (SELECT 1 FROM member f WHERE f.topics IS NOT NULL AND f.horizon >= :due)"
)
SILENT: Final = 3.4
"""Seconds: a beat is a query, once a second."""
_FRESH: Final = 1.5  # seconds that a lease's end that was read is good for: then others may have given leases
_UNDER_WAY: Final = 10.0  # seconds that a transaction which gives leases may take, beyond the time limit
_ALL_AGAIN: Final = 60.0  # seconds between looks at all leases
_HELD: Final = 5.0  # seconds of silence after which a worker cannot begin any more with what it held
_FORGOTTEN: Final = 60_000  # ms of silence after which a worker's row is deleted
BUSY: Final = 2.0
"""Seconds: whoever claimed a job so long ago is busy."""
_GATHER: Final = 0.1  # seconds for which jobs of several puts are gathered at most
_PAUSES: Final = (0.002, 0.05)  # seconds between looks at who is quiet: the first, the longest


class Leases:
    """When some lease may be over at the earliest, as far as one process knows it without asking each time."""

    def __init__(self, limit: float = 0.0) -> None:
        """Take the time limit of the store, in seconds."""
        self._under_way = round((_UNDER_WAY + limit) * 1000)
        self._since, self._whole_at = -FURTHEST, -math.inf
        never: tuple[float, int | None] = (-math.inf, None)
        self._read = never  # when it was read, and the earliest end
        self._given = never  # of the leases that this process has given since: when the last one, the earliest end

    def since(self) -> int:
        """Return from which end on leases are looked at: the entries of those that are over stay in the index.

        While any transaction may see them, a look walks past all of them. A lease ends after it was given: none ends
        before the last look, but for those whose transaction was under way. Once in a while all are looked at.
        """
        if time.monotonic() - self._whole_at < _ALL_AGAIN:
            return self._since
        self._whole_at = time.monotonic()
        return -FURTHEST

    def looked(self, lease: int | None, now: int, moment: float) -> None:
        """Take in the earliest end `since` then, at this time of the server and this monotonic time."""
        self._since = (now if lease is None else min(lease, now)) - self._under_way
        self.found(lease, moment)

    def found(self, lease: int | None, moment: float) -> None:
        """Take in the earliest end of a lease, as it was at a monotonic time."""
        self._read = (moment, lease)
        if self._given[0] < moment:  # they were there to be read
            self._given = (moment, None)

    def gave(self, lease: int) -> None:
        """Take in the earliest end of leases that this process has given."""
        before = self._given[1]
        self._given = (time.monotonic(), lease if before is None else min(before, lease))

    def first(self, read: Callable[[], tuple[int | None, int]]) -> int | None:
        """Return the earliest end of a lease; what was read, with the server's time, is read again once it is old."""
        moment = time.monotonic()
        if moment - self._read[0] > _FRESH:
            self.looked(*read(), moment)
        return min((lease for _, lease in (self._read, self._given) if lease is not None), default=None)


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


class Presence:
    """Who is there. From any thread."""

    def __init__(self, store: RelationalStore, clock: Clock) -> None:
        self._store = store
        self.clock = clock
        self.closed = False
        self.local: dict[str, RelationalNotifier] = {}
        self.stale = True  # somebody came or went
        self.busy_until = 0.0  # by the monotonic clock
        self.known: list[Seen] = []
        """All workers as they were when they were last read, by name."""
        self._dead: set[str] = set()  # of those in the roster, as others were told
        self._ringer = Ringer(store.ring, self._whom)

    # ---- who is there -----------------------------------------------------------------------------------------------

    def roster(self) -> list[Seen]:
        """Return all workers. No query unless somebody came or went."""
        if self.stale:
            self.stale = False
            try:
                self._look()
            except BaseException:
                self.stale = True
                raise
        return self.known

    def _look(self) -> None:
        """Read all workers."""
        [rows] = self._store.run(Select(f"SELECT {SEEN}, {self._store.dialect.gone} FROM member w"))
        self.take(rows)

    def take(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take in the rows of all workers, just read."""
        gone = {seen.worker for seen in self.known if seen.gone}
        self.known = sorted((Seen.of(row, gone) for row in rows), key=itemgetter(0))

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
        if any(self.silent(seen) * 1_000 > _FORGOTTEN / 2 for seen in self.known):
            dialect = self._store.dialect
            self._store.run(
                Do("DELETE FROM member WHERE abs({now} - beat) > :age", {"age": _FORGOTTEN}),
                Do(f"DELETE FROM hint WHERE worker NOT IN (SELECT {dialect.known_by} FROM member)"),
                *dialect.leftovers,
            )
            self.stale = True

    # ---- telling ----------------------------------------------------------------------------------------------------

    def tell(self, changes: Changes) -> None:
        """After a commit: tell those whom it concerns. Raises nothing; what cannot be told is read in time.

        Jobs are told of many at once. That may take a quarter of the time until the first is due.
        """
        if changes.announced or changes.paused:
            self.tell_all(() if changes.paused else changes.announced.keys(), reload=bool(changes.paused))
        jobs = changes.moved
        if jobs:
            for notifier in list(self.local.values()):
                notifier.note(jobs)
            left = max(min([due for _, _, due in jobs]) - self.clock.wall(), 0) / 1_000
            self._ringer.later(jobs, min(left / 4, _GATHER))

    def tell_all(self, but: Collection[str] = (), *, reload: bool = False) -> None:
        """Let all workers but these look who is there, or read all again."""
        self.stale = True
        with suppress(StoreError):
            there = [seen.worker for seen in self.roster() if seen.worker not in but]
            self.hint({worker: None if reload else set() for worker in there})

    def _whom(self, jobs: Jobs) -> Hints:
        """Return whom of other processes jobs concern, from the rows of workers just read."""
        [near] = self._store.run(Select(_NEAR, {"due": min([due for _, _, due in jobs])}))
        if not near:
            return {}
        self.take(near)
        horizons = {seen.worker: seen.horizon for seen in self.known if seen.worker not in self.local}
        names = self._store.topic_names({topic for topic, _, _ in jobs})
        tables: dict[int, tuple[str, ...]] = {}
        hints: dict[str, set[int]] = {}
        for topic, id, due in jobs:
            if topic not in tables:
                tables[topic] = owners(names[topic], self.handling(names[topic], self.known))
            owner = tables[topic][slice_of(due)] if tables[topic] else ""
            if due <= horizons.get(owner, -1):
                hints.setdefault(owner, set()).add(id)
        return {**hints}

    def hint(self, hints: Hints) -> None:
        """Tell the workers of this process at once, the others by the ringer."""
        for worker in list(hints):
            here = self.local.get(worker)  # another thread may be closing it
            if here is not None:
                here.rung(reload=hints.pop(worker) is None)
        self._ringer.add(hints)

    @property
    def busy(self) -> bool:
        """Whether jobs were claimed here of late. Then others have some too, and a death is looked for more often."""
        return self.clock.time() < self.busy_until

    def tell_of_the_dead(self) -> None:
        """Let all others look, if somebody's session was found to have ended: who looks first spares them a second."""
        dead = {seen.worker for seen in self.known if seen.gone}
        if dead - self._dead:
            self.hint({seen.worker: set() for seen in self.known if seen.worker not in dead})
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
            [found] = self._store.run(Select("SELECT paused, stirred FROM topic WHERE name = :topic", {"topic": topic}))
            if not found or not found[0][0]:
                return False
            self._look()
            handling = {seen.worker: seen for seen in self.known if seen.topics and topic in seen.topics}
            if there is None:  # who comes later has read that it is paused
                there = frozenset(handling)
            left = [handling[worker] for worker in there & handling.keys()]
            if all(seen.stopped >= found[0][1] or seen.gone or self.silent(seen) > _HELD for seen in left):
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
        for notifier in self.local.values():
            leave(notifier)
        self.local = {}
        self.stale = True
        self._ringer = Ringer(self._store.ring, self._whom)
