"""The commands of a store in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ..._errors import JobExists, PywheelError
from ...clock import Clock
from ...jobs import commands as o
from ...jobs.job import SHARDS, Attempt, Job, NewJob, Outcome, State, shard_of
from .state import Entry, MemoryState, Run

__all__ = ["MemoryCommands"]


class MemoryCommands(MemoryState):
    """Each command checks all before it changes anything."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url, clock)
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
        entry = self._jobs[self._last] = Entry(self._last, new, new.due, now)
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

    def _start(self, entry: Entry, terms: o.Terms, worker: str, now: int) -> Job:
        self._exit(entry)
        entry.claims += 1
        attempt = entry.claims - entry.forgiven
        backoff = terms.backoff[min(attempt, len(terms.backoff)) - 1] if terms.backoff else 0
        entry.run = Run(
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
