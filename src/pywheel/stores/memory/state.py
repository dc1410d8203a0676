"""What a store in memory holds, and the steps that its commands share."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import defaultdict, deque
from dataclasses import dataclass, field

from ..._errors import StoreError
from ...clock import Clock
from ...jobs import commands as o
from ...jobs.job import SHARDS, Attempt, Job, NewJob, Outcome, State
from ..contract import Listener

__all__ = ["Entry", "MemoryListener", "MemoryState", "Run", "Shard"]

_HINTS_KEPT = 10_000


@dataclass(slots=True)
class Run:
    """A claim under way."""

    claim: int
    started: int
    lease: int
    max_attempts: int
    backoff: int
    worker: str


@dataclass(slots=True)
class Entry:
    """A job as it is kept."""

    id: int
    new: NewJob
    due: int
    created: int
    state: State = State.DELAYED  # never RUNNING: that is to have a run
    claims: int = 0
    forgiven: int = 0  # claims that do not count as attempts
    ended: int = 0
    run: Run | None = None
    history: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class Shard:
    """Who holds a shard."""

    worker: str | None = None
    epoch: int = 0
    until: int = 0


class MemoryListener(Listener):
    """An event, and a horizon that the store reads."""

    def __init__(self, store: MemoryState, worker: str) -> None:
        self.worker = worker
        self._store = store
        self._event = threading.Event()
        self._rung = False
        self._peers = 0
        self.horizon = -1

    def publish(self, horizon: int) -> None:
        """Set the horizon."""
        with self._store.lock:
            self.horizon = horizon

    def wait(self, seconds: float) -> bool:
        """Return when rung or woken."""
        self._event.wait(seconds)
        self._event.clear()
        rung, self._rung = self._rung, False
        return rung

    def ring(self) -> None:
        """Wake it to read hints."""
        self._rung = True
        self._event.set()

    def stirred(self) -> bool:
        """Whether listeners came or went."""
        before, self._peers = self._peers, self._store.listeners
        return before != self._peers

    def wake(self) -> None:
        """End a wait."""
        self._event.set()

    def close(self) -> None:
        """Stop listening."""
        self._store.forget(self)


class MemoryState:
    """Jobs in dicts, guarded by one lock."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.lock = threading.RLock()
        self._closed = False
        self._jobs: dict[int, Entry] = {}
        self._last = 0
        self._keys: dict[tuple[str, str], int] = {}  # of live jobs
        self._due: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # delayed jobs, sorted
        self._running: dict[int, Entry] = {}
        self._paused: dict[str, bool] = {}
        self._shards = [Shard() for _ in range(SHARDS)]
        self._waiting: dict[str, int] = {}  # workers, and until when they want shards
        self._hints: deque[int] = deque(maxlen=_HINTS_KEPT)
        self._hinted = 0
        self._reload_at = 0
        self._listeners: list[MemoryListener] = []
        self._listened = 0
        self._woken = False

    def _find(self, ref: o.Ref) -> Entry | None:
        if isinstance(ref, int):
            return self._jobs.get(ref)
        live = self._keys.get(ref)
        if live is not None:
            return self._jobs[live]
        named = (entry for entry in reversed(self._jobs.values()) if (entry.new.topic, entry.new.key) == ref)
        return next(named, None)

    def _delayed(self, ref: o.Ref) -> Entry | None:
        entry = self._find(ref)
        if entry is not None:
            self._settle_lost(entry.id, self.clock.wall())
        return entry if entry is not None and entry.state is State.DELAYED and entry.run is None else None

    def _held(self, id: int, claims: int) -> Entry | None:
        entry = self._running.get(id)
        held = entry and entry.run and entry.run.claim == claims and self.clock.wall() < entry.run.lease
        return entry if held else None

    def _settle_lost(self, id: int, now: int) -> None:
        """End the job's claim if its lease is over."""
        entry = self._jobs[id]
        if entry.run is None or now < entry.run.lease:
            return
        run = self._end(entry, Outcome.LOST, None)
        if entry.claims - entry.forgiven >= run.max_attempts:
            self._finish(entry, State.DEAD)
        else:
            entry.due = run.lease + run.backoff
            self._enter(entry)

    def _end(self, entry: Entry, outcome: Outcome, error: str | None) -> Run:
        run = entry.run
        assert run is not None
        entry.run = None
        del self._running[entry.id]
        entry.history.append(self._attempt(entry, run, self.clock.wall(), outcome, error))
        return run

    def _attempt(
        self, entry: Entry, run: Run, ended: int | None, outcome: Outcome | None, error: str | None
    ) -> Attempt:
        return Attempt(run.claim, run.claim - entry.forgiven, run.started, ended, outcome, run.worker, error)

    def _finish(self, entry: Entry, state: State, row: Attempt | None = None) -> None:
        entry.state = state
        entry.ended = self.clock.wall()
        if row:
            entry.history.append(row._replace(ended=entry.ended))
        if entry.new.key is not None:
            del self._keys[entry.new.topic, entry.new.key]

    def _enter(self, entry: Entry) -> None:
        """Make a job claimable at its due time."""
        insort(self._due[entry.new.topic], (entry.due, entry.id))
        self._hint(entry.id, entry.due)

    def _exit(self, entry: Entry) -> None:
        due = self._due[entry.new.topic]
        del due[bisect_right(due, (entry.due, entry.id)) - 1]

    def _move(self, entry: Entry, due: int) -> None:
        self._exit(entry)
        self._hint(entry.id, min(entry.due, due))
        entry.due = due
        insort(self._due[entry.new.topic], (due, entry.id))

    def _hint(self, id: int, due: int) -> None:
        if any(due <= listener.horizon for listener in self._listeners):
            self._hinted += 1
            self._hints.append(id)
            self._woken = True

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def forget(self, listener: MemoryListener) -> None:
        """Stop waking a listener."""
        with self.lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed: open another one")

    def _job(self, entry: Entry, now: int) -> Job:
        """Return the record, with a lease that is over taken as expired."""
        new, run = entry.new, entry.run
        state, due, attempt = entry.state, entry.due, entry.claims - entry.forgiven
        if run and now < run.lease:
            state = State.RUNNING
        elif run and attempt >= run.max_attempts:
            state = State.DEAD
        elif run:
            due = run.lease + run.backoff
        errors = [row.error for row in entry.history if row.error is not None]
        return Job(
            entry.id,
            new.topic,
            new.body,
            due,
            entry.created,
            state,
            new.key,
            new.ttr,
            new.max_attempts,
            new.headers or {},
            entry.claims,
            attempt,
            run.lease if run and state is State.RUNNING else None,
            errors[-1] if errors else None,
        )
