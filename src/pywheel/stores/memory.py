"""A store in the memory of one process: for tests, for simulations, and as the contract in plain Python."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from .._errors import JobExists, PywheelError, StoreError
from . import ops as o
from .clock import Clock, SystemClock
from .contract import Hints, Listener, Store
from .record import SHARDS, Attempt, Counts, Due, Job, NewJob, Outcome, State, Topic, shard_of

__all__ = ["MemoryStore"]

_HINTS_KEPT = 10_000


@dataclass(slots=True)
class _Run:
    claim: int
    started: int
    lease: int
    max_attempts: int
    backoff: int
    worker: str


@dataclass(slots=True)
class _Entry:
    id: int
    new: NewJob
    due: int
    created: int
    state: State = State.DELAYED  # never RUNNING: that is to have a run
    claims: int = 0
    forgiven: int = 0  # claims that do not count as attempts
    ended: int = 0
    run: _Run | None = None
    history: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class _Shard:
    worker: str | None = None
    epoch: int = 0
    until: int = 0


class MemoryListener(Listener):
    """An event, and a horizon that the store reads."""

    def __init__(self, store: MemoryStore, worker: str) -> None:
        self.worker = worker
        self._store = store
        self._event = threading.Event()
        self._rung = False
        self._peers = 0
        self.horizon = -1

    def publish(self, horizon: int) -> None:
        with self._store.lock:
            self.horizon = horizon

    def wait(self, seconds: float) -> bool:
        self._event.wait(seconds)
        self._event.clear()
        rung, self._rung = self._rung, False
        return rung

    def ring(self) -> None:
        """Wake it to read hints."""
        self._rung = True
        self._event.set()

    def stirred(self) -> bool:
        before, self._peers = self._peers, self._store.listeners
        return before != self._peers

    def wake(self) -> None:
        self._event.set()

    def close(self) -> None:
        self._store.forget(self)


class MemoryStore(Store):
    """Jobs in dicts. Lost with the process; the worker's and the queue's behaviour is that of a durable store."""

    def __init__(self, url: str = "memory:", *, clock: Clock | None = None) -> None:
        self.url = url
        self.clock = clock or SystemClock()
        self.lock = threading.RLock()
        self._closed = False
        self._jobs: dict[int, _Entry] = {}
        self._last = 0
        self._keys: dict[tuple[str, str], int] = {}  # of live jobs
        self._due: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # delayed jobs, sorted
        self._running: dict[int, _Entry] = {}
        self._paused: dict[str, bool] = {}
        self._shards = [_Shard() for _ in range(SHARDS)]
        self._waiting: dict[str, int] = {}  # workers, and until when they want shards
        self._hints: deque[int] = deque(maxlen=_HINTS_KEPT)
        self._hinted = 0
        self._reload_at = 0
        self._listeners: list[MemoryListener] = []
        self._listened = 0
        self._woken = False
        self._apply: dict[type, Callable[[Any], Any]] = {
            o.Put: self._put,
            o.Cancel: self._cancel,
            o.Reschedule: self._reschedule,
            o.Retry: self._retry,
            o.Reserve: self._reserve,
            o.Claim: self._claim,
            o.Ack: self._ack,
            o.Nack: self._nack,
            o.Release: self._release,
            o.Touch: self._touch,
            o.Expire: self._expire,
            o.Pause: self._pause,
            o.Purge: self._purge,
            o.Hold: self._hold,
            o.Leave: self._leave,
        }

    # ---- commands -------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[o.Op]) -> list[Any]:
        """Apply commands in order; see the contract."""
        with self.lock:
            self._open()
            outcomes: list[Any] = []
            for op in ops:
                try:
                    outcomes.append(self._apply[type(op)](op))
                except PywheelError as refusal:
                    outcomes.append(refusal)
            if self._woken:
                self._woken = False
                for listener in self._listeners:
                    listener.ring()
            return outcomes

    def _put(self, op: o.Put) -> list[int]:
        now = self.clock.wall()
        taken: set[tuple[str, str]] = set()
        for job in op.jobs:
            if job.key is None:
                continue
            name = (job.topic, job.key)
            holder = self._keys.get(name)
            if holder is not None:
                self._settle_lost(holder, now)
                holder = self._keys.get(name)
            if holder is not None and not (job.replace and self._jobs[holder].run is None):
                raise JobExists(f"job {holder} has this key already and is live", holder)
            if name in taken and not job.replace:
                raise JobExists("two of the jobs put have the same key", holder or 0)
            taken.add(name)
        return [self._store(job, now) for job in op.jobs]

    def _store(self, new: NewJob, now: int) -> int:
        self._paused.setdefault(new.topic, False)
        holder = self._keys.get((new.topic, new.key)) if new.key is not None else None
        if holder is not None:
            entry = self._jobs[holder]
            entry.new = new
            self._move(entry, new.due)
            return entry.id
        self._last += 1
        entry = self._jobs[self._last] = _Entry(self._last, new, new.due, now)
        if new.key is not None:
            self._keys[new.topic, new.key] = entry.id
        self._enter(entry)
        return entry.id

    def _cancel(self, op: o.Cancel) -> bool:
        entry = self._delayed(op.ref)
        if entry is None:
            return False
        self._exit(entry)
        entry.claims += 1
        entry.forgiven += 1
        self._finish(entry, State.CANCELLED, Attempt(entry.claims, 0, None, None, Outcome.CANCELLED, None, None))
        return True

    def _reschedule(self, op: o.Reschedule) -> bool:
        entry = self._delayed(op.ref)
        if entry is None:
            return False
        self._move(entry, op.due)
        return True

    def _retry(self, op: o.Retry) -> bool:
        entry = self._find(op.ref)
        if entry is None:
            return False
        self._settle_lost(entry.id, self.clock.wall())
        if entry.state.live:
            return False
        if entry.new.key is not None:
            holder = self._keys.setdefault((entry.new.topic, entry.new.key), entry.id)
            if holder != entry.id:
                raise JobExists(f"job {holder} has this key now and is live", holder)
        entry.state = State.DELAYED
        entry.forgiven = entry.claims
        entry.due = op.due
        self._enter(entry)
        return True

    def _reserve(self, op: o.Reserve) -> list[Job]:
        now = self.clock.wall()
        for id in [id for id, entry in self._running.items() if entry.run and entry.run.lease <= now]:
            self._settle_lost(id, now)
        if self._paused.get(op.topic):
            return []
        due = self._due[op.topic]
        ids = [id for _, id in due[: min(op.limit, bisect_right(due, (now, self._last)))]]
        return [self._start(self._jobs[id], op.terms, op.worker, now) for id in ids]

    def _claim(self, op: o.Claim) -> list[Job]:
        now = self.clock.wall()
        if self._paused.get(op.topic):
            return []
        held = {n for n, s in enumerate(self._shards) if s.worker == op.worker and op.epochs.get(n) == s.epoch}
        entries = [self._jobs[id] for id in dict.fromkeys(op.ids) if id in self._jobs and shard_of(id) in held]
        fit = [
            entry
            for entry in entries
            if entry.state is State.DELAYED and not entry.run and entry.due <= now and entry.new.topic == op.topic
        ]
        return [
            self._start(entry, op.terms, op.worker, now)
            for entry in sorted(fit, key=lambda entry: (entry.due, entry.id))
        ]

    def _start(self, entry: _Entry, terms: o.Terms, worker: str, now: int) -> Job:
        self._exit(entry)
        entry.claims += 1
        attempt = entry.claims - entry.forgiven
        backoff = terms.backoff[min(attempt, len(terms.backoff)) - 1] if terms.backoff else 0
        entry.run = _Run(
            entry.claims,
            now,
            now + (entry.new.ttr or terms.ttr),
            entry.new.max_attempts or terms.max_attempts,
            backoff,
            worker,
        )
        self._running[entry.id] = entry
        return self._job(entry, now)

    def _ack(self, op: o.Ack) -> bool:
        entry = self._held(op.id, op.claims)
        if entry is None:
            return False
        self._end(entry, Outcome.DONE, None)
        self._finish(entry, State.DONE)
        return True

    def _nack(self, op: o.Nack) -> State | None:
        entry = self._held(op.id, op.claims)
        if entry is None:
            return None
        run = self._end(entry, Outcome.FAILED, op.error)
        if op.delay is None or entry.claims - entry.forgiven >= run.max_attempts:
            self._finish(entry, State.DEAD)
        else:
            entry.due = self.clock.wall() + op.delay
            self._enter(entry)
        return entry.state

    def _release(self, op: o.Release) -> bool:
        entry = self._held(op.id, op.claims)
        if entry is None:
            return False
        self._end(entry, Outcome.RELEASED, None)
        entry.forgiven += 1
        self._enter(entry)
        return True

    def _touch(self, op: o.Touch) -> bool:
        entry = self._held(op.id, op.claims)
        if entry is None or entry.run is None:
            return False
        entry.run.lease = self.clock.wall() + op.ttr
        return True

    def _expire(self, op: o.Expire) -> o.Expired:
        now = self.clock.wall()
        over = [entry for entry in self._running.values() if entry.run and entry.run.lease <= now][: op.limit]
        for entry in over:
            self._settle_lost(entry.id, now)
        leases = [entry.run.lease for entry in self._running.values() if entry.run]
        return o.Expired([(e.id, e.new.topic, e.state) for e in over], min(leases, default=None))

    def _pause(self, op: o.Pause) -> bool:
        changed = self._paused.get(op.topic, False) is not op.paused
        self._paused[op.topic] = op.paused
        if changed:
            self._stir()
        return changed

    def _stir(self) -> None:
        """Have all listeners read again."""
        self._hinted += 1
        self._hints.append(0)
        self._reload_at = self._hinted
        self._woken = True

    def _purge(self, op: o.Purge) -> int:
        gone = [
            entry.id
            for entry in self._jobs.values()
            if entry.state is op.state and entry.ended <= op.before and op.topic in (None, entry.new.topic)
        ][: op.limit]
        if op.state.live:
            return 0
        for id in gone:
            del self._jobs[id]
        return len(gone)

    def _hold(self, op: o.Hold) -> dict[int, int]:
        now = self.clock.wall()
        known = op.worker in self._waiting
        self._waiting[op.worker] = now + op.lease
        self._waiting = {worker: until for worker, until in self._waiting.items() if until > now}
        share = -(-SHARDS // len(self._waiting))
        mine = [shard for shard in self._shards if shard.worker == op.worker]
        if not known or len(mine) > share:
            self._stir()
        for shard in mine[share:]:
            shard.worker = None
        for shard in self._shards:
            free = shard.worker is None or (shard.until <= now and shard.worker != op.worker)
            if free and len([s for s in self._shards if s.worker == op.worker]) < share:
                shard.worker, shard.epoch = op.worker, shard.epoch + 1
        held = {n: shard for n, shard in enumerate(self._shards) if shard.worker == op.worker}
        for shard in held.values():
            shard.until = now + op.lease
        return {n: shard.epoch for n, shard in held.items()}

    def _leave(self, op: o.Leave) -> None:
        self._stir()
        self._waiting.pop(op.worker, None)
        for shard in self._shards:
            if shard.worker == op.worker:
                shard.worker = None

    # ---- steps that commands share ------------------------------------------------------------------------------

    def _find(self, ref: o.Ref) -> _Entry | None:
        if isinstance(ref, int):
            return self._jobs.get(ref)
        live = self._keys.get(ref)
        if live is not None:
            return self._jobs[live]
        named = (entry for entry in reversed(self._jobs.values()) if (entry.new.topic, entry.new.key) == ref)
        return next(named, None)

    def _delayed(self, ref: o.Ref) -> _Entry | None:
        entry = self._find(ref)
        if entry is not None:
            self._settle_lost(entry.id, self.clock.wall())
        return entry if entry is not None and entry.state is State.DELAYED and entry.run is None else None

    def _held(self, id: int, claims: int) -> _Entry | None:
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

    def _end(self, entry: _Entry, outcome: Outcome, error: str | None) -> _Run:
        run = entry.run
        assert run is not None
        entry.run = None
        del self._running[entry.id]
        entry.history.append(self._attempt(entry, run, self.clock.wall(), outcome, error))
        return run

    def _attempt(
        self, entry: _Entry, run: _Run, ended: int | None, outcome: Outcome | None, error: str | None
    ) -> Attempt:
        return Attempt(run.claim, run.claim - entry.forgiven, run.started, ended, outcome, run.worker, error)

    def _finish(self, entry: _Entry, state: State, row: Attempt | None = None) -> None:
        entry.state = state
        entry.ended = self.clock.wall()
        if row:
            entry.history.append(row._replace(ended=entry.ended))
        if entry.new.key is not None:
            del self._keys[entry.new.topic, entry.new.key]

    def _enter(self, entry: _Entry) -> None:
        """Make a job claimable at its due time."""
        insort(self._due[entry.new.topic], (entry.due, entry.id))
        self._hint(entry.id, entry.due)

    def _exit(self, entry: _Entry) -> None:
        due = self._due[entry.new.topic]
        del due[bisect_right(due, (entry.due, entry.id)) - 1]

    def _move(self, entry: _Entry, due: int) -> None:
        self._exit(entry)
        self._hint(entry.id, min(entry.due, due))
        entry.due = due
        insort(self._due[entry.new.topic], (due, entry.id))

    def _hint(self, id: int, due: int) -> None:
        if any(due <= listener.horizon for listener in self._listeners):
            self._hinted += 1
            self._hints.append(id)
            self._woken = True

    # ---- reading --------------------------------------------------------------------------------------------------

    def get(self, ref: o.Ref) -> Job | None:
        """Return a job, or None."""
        with self.lock:
            self._open()
            entry = self._find(ref)
            return self._job(entry, self.clock.wall()) if entry else None

    def jobs(self, topic: str | None, state: State | None, after: int, limit: int) -> list[Job]:
        """Return jobs by id. O(jobs)."""
        with self.lock:
            self._open()
            now = self.clock.wall()
            jobs = (self._job(entry, now) for id, entry in self._jobs.items() if id > after)
            return list(islice((j for j in jobs if topic in (None, j.topic) and state in (None, j.state)), limit))

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic. O(jobs)."""
        with self.lock:
            self._open()
            now = self.clock.wall()
            tally = {name: dict.fromkeys(State, 0) for name in sorted(self._paused)}
            for entry in self._jobs.values():
                tally[entry.new.topic][self._job(entry, now).state] += 1
            return {name: Counts(*states.values()) for name, states in tally.items()}

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        with self.lock:
            self._open()
            return [Topic(name, paused) for name, paused in sorted(self._paused.items())]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        with self.lock:
            self._open()
            entry = self._jobs.get(id)
            if entry is None:
                return []
            return entry.history + ([self._attempt(entry, entry.run, None, None, None)] if entry.run else [])

    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed."""
        with self.lock:
            self._open()
            times = [due[0][0] for due in self._due.values() if due]
            times += [
                entry.run.lease + entry.run.backoff
                for entry in self._running.values()
                if entry.run and entry.claims - entry.forgiven < entry.run.max_attempts
            ]
            return min(times, default=None)

    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return delayed jobs by (due, id)."""
        with self.lock:
            self._open()
            found: list[Due] = []
            for topic in topics:
                if not self._paused.get(topic):
                    due = self._due.get(topic, [])
                    part = due[bisect_right(due, after) : bisect_right(due, (until, self._last))]
                    found += islice((Due(d, id, topic) for d, id in part if shard_of(id) in shards), limit)
            return sorted(found)[:limit]

    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after`."""
        with self.lock:
            self._open()
            times = []
            for topic in topics:
                due = self._due.get(topic, [])
                at = bisect_right(due, (after, self._last))
                times += [when for when, _ in due[at : at + 1]]
            return min(times, default=None)

    def hints(self, cursor: int) -> Hints:
        """Return what changed since `cursor`."""
        with self.lock:
            self._open()
            if cursor < 0:
                return Hints(self._hinted, [], reload=False)
            missing = self._hinted - cursor
            new = islice(self._hints, max(len(self._hints) - missing, 0), None)
            entries = [self._jobs[id] for id in new if id in self._jobs]
            due = [Due(e.due, e.id, e.new.topic) for e in entries if e.state is State.DELAYED and not e.run]
            return Hints(self._hinted, due, missing > len(self._hints) or self._reload_at > cursor)

    def _job(self, entry: _Entry, now: int) -> Job:
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

    # ---- life -----------------------------------------------------------------------------------------------------

    def listen(self, name: str) -> Listener:
        """Return a new listener."""
        with self.lock:
            self._open()
            self._listened += 1
            listener = MemoryListener(self, f"{name}@{self._listened}")
            self._listeners.append(listener)
            return listener

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def forget(self, listener: MemoryListener) -> None:
        """Stop waking a listener."""
        with self.lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def close(self) -> None:
        """Let go of everything: the jobs are lost."""
        with self.lock:
            self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed: open another one")
