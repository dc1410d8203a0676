"""The workers on a store, as this process sees them, and the routing of news to them.

A worker writes its horizon before it reads; a writer reads the horizons after its commit. So either the worker reads
the change, or the writer sees how far the worker looks, and rings it. Another thread does so, for many changes at once
(see `ringer`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreError
from ...jobs.checks import FURTHEST
from ...jobs.job import slice_of
from ..ownership import owners
from ..presence import Roster, Seen, ServerPresence
from ..sql.statement import Do, Select
from ..sql.transaction import Changes
from .ringer import Hints, Jobs, Ringer

if TYPE_CHECKING:
    from .notifier import RelationalNotifier
    from .store import RelationalStore

SEEN: Final = "w.name, w.topics, w.beat, w.behind, w.stopped, w.horizon"
"""The columns of a worker's row `w`, except whether it is gone."""
_NEAR: Final = (  # all workers, if one of them looks as far as this
    f"SELECT {SEEN}, NULL FROM member w "
    "WHERE EXISTS (SELECT 1 FROM member f WHERE f.topics IS NOT NULL AND f.horizon >= :due)"
)
_FRESH: Final = 1.5  # seconds for which a lease's end that was read is used: others may have given leases since
_AGAIN: Final = 0.45  # seconds between looks at the leases in beats
_UNDER_WAY: Final = 10.0  # seconds that a transaction which gives leases may take, beyond the time limit
_ALL_AGAIN: Final = 60.0  # seconds between looks at all leases
_FORGOTTEN: Final = 60_000  # ms of silence after which a worker's row is deleted
_GATHER: Final = 0.1  # seconds for which jobs of several puts are gathered at most


class Leases:
    """The earliest end of a lease, as far as one process knows it without a query each time."""

    def __init__(self, limit: float = 0.0) -> None:
        """Take the time limit of the store, in seconds."""
        self._under_way = round((_UNDER_WAY + limit) * 1000)
        self._since, self._whole_at = -FURTHEST, -math.inf
        never: tuple[float, int | None] = (-math.inf, None)
        self._read = never  # when it was read, and the earliest end
        self._given = never  # leases given by this process since then: the time of the last one, and the earliest end

    def due(self, moment: float) -> bool:
        """Whether to look again, at a monotonic time. Leases of workers last for half a second at least."""
        return moment - self._read[0] >= _AGAIN

    def since(self) -> int:
        """Return the earliest end of leases to look at, as index entries of leases that are over stay for a while.

        While any transaction may see those entries, a look walks past all of them. A lease ends after it was given: so
        none ends before the last look, except those whose transaction was under way. Once a minute all are looked at.
        """
        if time.monotonic() - self._whole_at < _ALL_AGAIN:
            return self._since
        self._whole_at = time.monotonic()
        return -FURTHEST

    def looked(self, lease: int | None, now: int, moment: float) -> None:
        """Note the earliest end that a look `since` then found, at this server time and this monotonic time."""
        self._since = (now if lease is None else min(lease, now)) - self._under_way
        self.found(lease, moment)

    def found(self, lease: int | None, moment: float) -> None:
        """Note the earliest end of a lease, as it was at a monotonic time."""
        self._read = (moment, lease)
        if self._given[0] < moment:  # the read has covered them
            self._given = (moment, None)

    def gave(self, lease: int) -> None:
        """Note the earliest end of leases that this process has given."""
        before = self._given[1]
        self._given = (time.monotonic(), lease if before is None else min(before, lease))

    def first(self, read: Callable[[], tuple[int | None, int]]) -> int | None:
        """Return the earliest end of a lease. `read` returns it, with the server's time; an old value is read again."""
        moment = time.monotonic()
        if moment - self._read[0] > _FRESH:
            self.looked(*read(), moment)
        return min((lease for _, lease in (self._read, self._given) if lease is not None), default=None)


@lru_cache(maxsize=1_024)
def _names(text: str | None) -> frozenset[str]:
    return frozenset(json.loads(text or "[]"))


class Presence(ServerPresence):
    """The workers of a store. Any thread may use it."""

    def __init__(self, store: RelationalStore) -> None:
        super().__init__(store.clock)
        self._store = store
        self._dead: set[str] = set()  # workers in the roster whose end was announced
        self._ringer = Ringer(store.ring, self._whom)

    # ---- who is there -----------------------------------------------------------------------------------------------

    def look(self) -> Roster:
        [rows] = self._store.run(Select(f"SELECT {SEEN}, {self._store.dialect.gone} FROM member w"))
        return self.take(rows)

    def take(self, rows: Iterable[Sequence[Any]]) -> Roster:
        """Return the roster of rows of all workers, just read. Where `gone` is None, it stays as it was known."""
        dead = {name for name, seen in self.known.workers.items() if seen.gone}
        workers = {
            name: Seen._make((name, _names(topics), *numbers, bool(name in dead if gone is None else gone)))
            for name, topics, *numbers, gone in sorted(rows, key=itemgetter(0))
        }
        self.known = Roster(self.clock, workers)
        return self.known

    def clear_away(self) -> None:
        """Delete the rows of workers that have been silent for long."""
        if any(self.known.silent(seen) * 1_000 > _FORGOTTEN / 2 for seen in self.known.workers.values()):
            dialect = self._store.dialect
            self._store.run(
                Do("DELETE FROM member WHERE abs({now} - beat) > :age", {"age": _FORGOTTEN}),
                Do(f"DELETE FROM hint WHERE worker NOT IN (SELECT {dialect.known_by} FROM member)"),
                *dialect.leftovers,
            )
            self.stale = True

    # ---- telling ----------------------------------------------------------------------------------------------------

    def tell(self, changes: Changes) -> None:
        """Tell workers about a commit's changes. Raises nothing; news that cannot be sent is read in time.

        News of many jobs is gathered, for at most a quarter of the time until the first is due.
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
        """Let all workers except these look who is there, or read all again."""
        self.stale = True
        with suppress(StoreError):
            self.hint({worker: None if reload else set() for worker in self.roster().workers if worker not in but})

    def _whom(self, jobs: Jobs) -> Hints:
        """Return the hints for workers of other processes that jobs concern, from rows of workers just read."""
        [near] = self._store.run(Select(_NEAR, {"due": min([due for _, _, due in jobs])}))
        if not near:
            return {}
        roster = self.take(near)
        names = self._store.topic_names({topic for topic, _, _ in jobs})
        tables: dict[int, tuple[str, ...]] = {}
        hints: dict[str, set[int]] = {}
        for topic, id, due in jobs:
            if topic not in tables:
                name = names.get(topic, "")  # none if the server was set back since
                tables[topic] = owners(name, roster.handling(name))
            owner = tables[topic][slice_of(due)] if tables[topic] else None
            if owner is not None and owner not in self.local and due <= roster.workers[owner].horizon:
                hints.setdefault(owner, set()).add(id)
        return {**hints}

    def hint(self, hints: Hints) -> None:
        """Tell the workers of this process at once, the others by the ringer."""
        for worker in list(hints):
            here = self.local.get(worker)  # another thread may be closing it
            if here is not None:
                here.rung(reload=hints.pop(worker) is None)
        self._ringer.add(hints)

    def tell_of_the_dead(self) -> None:
        """Let all other workers look, if a session was found to have ended: the first finder spares them a second."""
        there = self.known.workers.values()
        dead = {seen.worker for seen in there if seen.gone}
        if dead - self._dead:
            self.hint({seen.worker: set() for seen in there if not seen.gone})
        self._dead = dead

    def pause_of(self, topic: str) -> int | None:
        text = "SELECT stirred FROM topic WHERE name = :topic AND paused = 1"
        [rows] = self._store.run(Select(text, {"topic": topic}))
        return int(rows[0][0]) if rows else None

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the notifiers."""
        for notifier in list(self.local.values()):
            notifier.end()
        self.closed = True
        self._ringer.close()

    def flush(self) -> None:
        """Return once all pending news was sent to the workers, or after a second."""
        self._ringer.flush()

    def after_fork(self, leave: Callable[[RelationalNotifier], None]) -> None:
        """Forget the parent's workers, in a forked child."""
        for notifier in self.local.values():
            leave(notifier)
        self.begin(self.clock)
        self._ringer = Ringer(self._store.ring, self._whom)
