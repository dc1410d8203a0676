"""The commands of a store in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from ..._errors import JobExists, PywheelError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs import lifecycle
from ...jobs.job import Attempt, Due, Imported, Job, NewJob, Outcome, State
from ...jobs.lifecycle import Run
from ...jobs.limits import LOOKED_PAST
from ..checks import lately, sound, storable
from ..marks import marked, unmarked
from .state import Entry, Kept, MemoryState, turn

__all__ = ["MemoryCommands"]


def _size(entry: Entry) -> int:
    return entry.size


class MemoryCommands(MemoryState):
    """Each command checks all before it changes anything."""

    def __init__(self, url: str, clock: Clock) -> None:
        super().__init__(url, clock)
        self._apply: dict[type, Callable[[Any], Any]] = {
            c.Put: self._put,
            c.Import: self._import,
            c.Cancel: self._cancel,
            c.Reschedule: self._reschedule,
            c.Retry: self._retry,
            c.Delete: self._delete,
            c.Rewrite: self._rewrite,
            c.Pause: self._pause,
            c.Purge: self._purge,
            c.Keep: self._keep,
            c.Reserve: self._reserve,
            c.Claim: self._claim,
            c.Begin: self._begin,
            c.Ack: self._ack,
            c.Nack: self._nack,
            c.Release: self._release,
            c.Touch: self._touch,
            c.Expire: self._expire,
            c.Announce: self._announce,
        }

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract."""
        return sound(commands, self._apply_all)

    def _apply_all(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        with self.lock:
            self._open()
            outcomes: list[Any] = []
            for command in commands:
                try:
                    outcomes.append(self._apply[type(command)](command))
                except PywheelError as refusal:
                    outcomes.append(refusal)
            if self._presence.woken:
                self._presence.ring()
            return outcomes

    # ---- for clients ------------------------------------------------------------------------------------------------

    def _put(self, command: c.Put) -> list[int]:
        return self._once(command.nonce, self._put_all, command.jobs, command.mark)

    def _put_all(self, jobs: Sequence[NewJob], now: int) -> list[int]:
        self._refuse_taken(jobs, now)
        return [self._store(job, now) for job in jobs]

    def _import(self, command: c.Import) -> list[int]:
        return self._once(command.nonce, self._import_all, command.jobs)

    def _import_all(self, some: Sequence[Imported], now: int) -> list[int]:
        self._refuse_taken([one.new for one in some if one.holds_key], now)
        return [self._take_in(one) for one in some]

    def _once(
        self,
        nonce: str | None,
        store: Callable[[Any, int], list[int]],
        jobs: Sequence[Any],
        mark: str | None = None,
    ) -> list[int]:
        """Return the ids of what is stored, or was with this nonce."""
        now = self.clock.wall()
        if nonce is None:
            return store(jobs, now)
        if nonce in self._nonces:
            return unmarked(self._nonces[nonce][1], mark)
        ids = store(jobs, now)
        self._nonces[nonce] = (now, marked(ids, mark))
        self._forget_nonces(now, c.NONCES_FORGOTTEN)
        return ids

    def _refuse_taken(self, jobs: Sequence[NewJob], now: int) -> None:
        """Raise JobExists if a key is taken."""
        taken: set[tuple[str, str]] = set()
        for job in jobs:
            if job.key is None:
                continue
            name = (job.topic, job.key)
            if name in taken:
                if not job.replace:
                    raise JobExists(f"two of the jobs put have the key {job.key[:80]!r}", 0)
                continue
            taken.add(name)
            holder = self._holder(name, now)
            if holder is not None and not self._yields(holder, job):
                raise JobExists(f"job {holder.id} has the key {job.key[:80]!r} already and is live", holder.id)
            if holder is None and job.dedupe_for is not None:
                ended = self._lately(name, now - job.dedupe_for)
                if ended is not None:
                    raise lately(ended.id, job.key, now - ended.ended, job.dedupe_for)

    def _holder(self, name: tuple[str, str], now: int) -> Entry | None:
        """Return the live job that has a key."""
        id = self._keys.get(name)
        if id is not None and self._settle_lost(self._jobs[id], now):
            id = self._keys.get(name)
        return None if id is None else self._jobs[id]

    def _yields(self, holder: Entry, job: NewJob) -> bool:
        """Whether the job that has the key takes the new values, or hands the key on."""
        if holder.run is None:
            return job.replace
        return job.parent == (holder.id, holder.run.claim)

    def _store(self, new: NewJob, now: int) -> int:
        self._paused.setdefault(new.topic, False)
        due = lifecycle.due(now, new.due, new.delay)
        if new.priority:
            self._know_priority(new)
        if new.key is None:
            entry = self._new_entry(new, due, now)
            self._enter(entry)
            return entry.id
        return self._store_keyed(new, (new.topic, new.key), due, now)

    def _store_keyed(self, new: NewJob, name: tuple[str, str], due: int, now: int) -> int:
        holder = self._holder(name, now)
        if holder is not None and holder.run is None:
            holder.new = new
            self._move(holder, due)
            return holder.id
        if holder is not None:
            holder.passed = True
        entry = self._new_entry(new, due, now)
        self._keys[name] = entry.id
        self._enter(entry)
        return entry.id

    def _know_priority(self, new: NewJob) -> None:
        self._lanes.setdefault(new.topic, set()).add(new.priority)

    def _new_entry(self, new: NewJob, due: int, created: int) -> Entry:
        """Return a job of a new id, that stands nowhere yet."""
        id = self._new_id()
        entry = self._jobs[id] = Entry(id, new, due, created)
        self._tally[new.topic][State.DELAYED] += 1
        if new.key is not None:
            self._named[new.topic, new.key].append(id)
        return entry

    def _take_in(self, one: Imported) -> int:
        job = one.job
        self._paused.setdefault(job.topic, False)
        if one.new.priority:
            self._know_priority(one.new)
        entry = self._new_entry(one.new, job.due, job.created)
        entry.claims, entry.forgiven, entry.lost = job.claims, job.claims - job.attempt, job.lost
        entry.passed, entry.error = one.passed, storable(one.last_error)
        entry.history = [attempt._replace(error=storable(attempt.error)) for attempt in one.history]
        if one.holds_key and entry.name is not None:
            self._keys[entry.name] = entry.id
        if job.state is State.DELAYED:
            self._enter(entry)
        else:
            ended = entry.history[-1].ended
            assert ended is not None
            self._finish(entry, job.state, ended)
        return entry.id

    def _cancel(self, command: c.Cancel) -> bool:
        entry, now = self._delayed(command.ref, command.expect), self.clock.wall()
        if entry is None:
            return False
        self._exit(entry)
        entry.claims += 1
        entry.forgiven += 1
        entry.history.append(Attempt(entry.claims, 0, None, now, Outcome.CANCELLED, None, None))
        self._finish(entry, State.CANCELLED, now)
        return True

    def _reschedule(self, command: c.Reschedule) -> bool:
        entry = self._delayed(command.ref, command.expect)
        if entry is None:
            return False
        self._move(entry, lifecycle.due(self.clock.wall(), command.due, command.delay))
        return True

    def _retry(self, command: c.Retry) -> bool:
        entry, now = self._settled(command.ref), self.clock.wall()
        if entry is None or entry.state.live:
            return False
        if entry.name is not None:
            holder = self._holder(entry.name, now)
            if holder is not None:
                raise JobExists(f"job {holder.id} has this key now and is live", holder.id)
            self._keys[entry.name] = entry.id
        self._unfinish(entry)
        if entry.history and entry.history[-1].result is not None:
            entry.history[-1] = entry.history[-1]._replace(result=None)
        self._count(entry, State.DELAYED)
        entry.forgiven = entry.claims
        entry.lost = lifecycle.NEVER_LOST
        entry.passed = False
        entry.due = lifecycle.due(now, command.due, command.delay)
        self._enter(entry)
        return True

    def _delete(self, command: c.Delete) -> bool:
        entry = self._settled(command.ref)
        if entry is None or entry.run is not None:
            return False
        self._forget(entry)
        return True

    def _rewrite(self, command: c.Rewrite) -> bool:
        entry = self._jobs.get(command.id)
        if entry is not None and command.claim is not None:
            return self._rewrite_result(entry, command)
        if entry is None or entry.new.body != command.old:
            return False
        entry.new = entry.new._replace(body=command.new)
        return True

    def _rewrite_result(self, entry: Entry, command: c.Rewrite) -> bool:
        last = entry.history[-1] if entry.history else None
        if last is None or last.claim != command.claim or last.result is None or last.result != command.old:
            return False
        entry.history[-1] = last._replace(result=command.new)
        return True

    def _pause(self, command: c.Pause) -> bool:
        changed = self._paused.get(command.topic, False) is not command.paused
        self._paused[command.topic] = command.paused
        if changed:
            self._presence.stir(command.topic, command.paused)
        return changed

    def _purge(self, command: c.Purge) -> int:
        now = self.clock.wall()
        self._settle_all(now)
        self._forget_nonces(now, max(command.limit, 0))
        self._forget_notes(now, max(command.limit, 0))
        ended = self._ended[command.state]
        old = (self._jobs[id] for _, id in ended[: bisect_right(ended, (now - command.age, self._last))])
        gone = [entry for entry in old if command.topic in (None, entry.new.topic)][: command.limit]
        for entry in gone:
            self._forget(entry)
        return len(gone)

    # ---- notes ------------------------------------------------------------------------------------------------------

    def _keep(self, command: c.Keep) -> bytes | None:
        now = self.clock.wall()
        kept = self._notes.get(command.name)
        before = None if kept is None else kept.at(now)
        if before is None or not command.absent:
            until = None if command.ttl is None else now + command.ttl
            self._note(command.name, None if command.value is None else Kept(command.value, until))
        if command.ttl is not None:
            self._forget_notes(now, c.NOTES_FORGOTTEN)
        return before

    # ---- claims -----------------------------------------------------------------------------------------------------

    def _settle_all(self, now: int) -> None:
        for entry in list(self._running.values()):
            self._settle_lost(entry, now)

    def _reserve(self, command: c.Reserve) -> list[Job]:
        now = self.clock.wall()
        self._settle_all(now)
        limit = max(command.limit, 0)
        if self._paused.get(command.topic) or not limit:
            return []
        gate = self._gate(command.topic, command.terms.limits, now)
        if gate is None:
            entries = self._in_order(command.topic, now, limit)
            if command.bytes is not None:
                entries = lifecycle.reserve(command, entries, _size)
        else:
            some = self._in_order(command.topic, now, max(limit, LOOKED_PAST))
            entries = lifecycle.reserve(command, some, _size, lambda entry: gate.admits(entry.new.key))
            self._shut(command.topic, gate)
        return [self._start(entry, command, now, begun=True) for entry in entries]

    def _claim(self, command: c.Claim) -> c.Claimed:
        now = self.clock.wall()
        if self._paused.get(command.topic):
            return c.Claimed([], 0, [], paused=True)
        entries = [self._jobs[id] for id in dict.fromkeys(command.ids) if id in self._jobs]
        mine = [entry for entry in entries if entry.new.topic == command.topic]
        for entry in mine:
            self._settle_lost(entry, now)
        delayed = [entry for entry in mine if entry.state is State.DELAYED and entry.run is None]
        ready = sorted((entry for entry in delayed if entry.due <= now), key=turn)
        early = sorted((entry for entry in delayed if entry.due > now), key=lambda entry: (entry.due, entry.id))
        gate = self._gate(command.topic, command.terms.limits, now)
        choice = lifecycle.choose(
            [entry.lost for entry in ready],
            [entry.size for entry in ready],
            command.begin,
            command.suspects,
            command.bytes,
            None if gate is None else lambda place: gate.admits(ready[place].new.key, ready[place].id),
        )
        if gate is not None:
            self._shut(command.topic, gate)
        left = [ready[place] for place in choice.left] + early
        jobs = [
            self._start(ready[place], command, now, begun=number < choice.begun)
            for number, place in enumerate(choice.taken)
        ]
        others = [Due(e.due, e.id, e.new.topic, e.new.priority) for e in left]
        again, full = (None, ()) if gate is None else (gate.again, gate.full)
        return c.Claimed(jobs, choice.begun, others, paused=False, again=again, full=full)

    def _start(self, entry: Entry, command: c.Reserve | c.Claim, now: int, *, begun: bool) -> Job:
        terms, new = command.terms, entry.new
        self._exit(entry)
        entry.claims += 1
        attempt = lifecycle.attempts(entry.claims, entry.forgiven)
        backoff = lifecycle.backoff(terms.backoff, attempt, terms.jitter, self.draw() if terms.jitter else 0)
        lease = now + ((new.ttr or terms.ttr) + terms.slack if begun else terms.hold)
        entry.run = Run(entry.claims, attempt, begun, lease, new.max_attempts or terms.max_attempts, backoff)
        entry.started, entry.worker = now, command.worker
        self._running[entry.id] = entry
        return self._record(entry)

    def _begin(self, command: c.Begin) -> bool:
        now = self.clock.wall()
        entry = self._held(command.id, command.claims, now)
        if entry is None or entry.run is None:
            return False
        entry.run = entry.run._replace(begun=True, lease=now + command.ttr)
        return True

    def _ack(self, command: c.Ack) -> bool:
        now = self.clock.wall()
        entry = self._held(command.id, command.claims, now)
        if entry is None or entry.run is None:
            return False
        self._end(entry, lifecycle.DONE, Outcome.DONE, None, now)
        if command.result is not None:
            entry.history[-1] = entry.history[-1]._replace(result=command.result)
        return True

    def _nack(self, command: c.Nack) -> State | None:
        now = self.clock.wall()
        entry = self._held(command.id, command.claims, now)
        if entry is None or entry.run is None:
            return None
        ending = lifecycle.failed(entry.run, now, command.delay)
        self._end(entry, ending, Outcome.FAILED, storable(command.error), now)
        return ending.state

    def _release(self, command: c.Release) -> bool:
        now = self.clock.wall()
        entry = self._held(command.id, command.claims, now)
        if entry is None or entry.run is None:
            return False
        self._end(entry, lifecycle.RELEASED, Outcome.RELEASED, None, now)
        return True

    def _touch(self, command: c.Touch) -> bool:
        now = self.clock.wall()
        entry = self._held(command.id, command.claims, now)
        if entry is None or entry.run is None:
            return False
        entry.run = entry.run._replace(lease=now + command.ttr)
        return True

    def _expire(self, command: c.Expire) -> c.Expired:
        now = self.clock.wall()
        over = [entry for entry in self._running.values() if entry.run and entry.run.lease <= now]
        ended = [entry for entry in over[: max(command.limit, 0)] if self._settle_lost(entry, now)]
        leases = [entry.run.lease for entry in self._running.values() if entry.run and entry.run.lease > now]
        dead = tuple(sorted(entry.id for entry in ended if entry.state is State.DEAD))
        return c.Expired(len(ended), min(leases, default=None), dead)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _announce(self, command: c.Announce) -> None:
        self._presence.announce(command.worker, command.topics)
