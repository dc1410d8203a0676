"""The contract in its simplest form: a dict of jobs, which every query walks through from end to end.

The model uses `jobs/lifecycle` and `jobs/limits`. Its jobs get the ids that another store gave them. It has no jitter,
and only the operations that the random tests need.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..._errors import JobExists, PywheelError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs import lifecycle
from ...jobs.commands import Ref
from ...jobs.job import FIELDS, PRIORITIES, Attempt, Counts, Due, Imported, Job, NewJob, Outcome, State, Topic
from ...jobs.lifecycle import Ending, Run
from ...jobs.limits import Gate, Limits, looked_at, note_of
from ...jobs.queries import Filter
from ...stores.checks import sound

MISSING = 10**12
"""An id that no job has."""


@dataclass(slots=True)
class Kept:
    """A job with its history."""

    job: Job
    history: list[Attempt]
    passed: bool = False  # whether it gave its key to a successor
    run: Run | None = None  # the current claim, whose attempt is the last of the history

    @property
    def name(self) -> tuple[str, str | None]:
        """Topic and key."""
        return self.job.topic, self.job.key

    @property
    def ended(self) -> int:
        """When the last attempt ended."""
        return self.history[-1].ended or 0


class Model:
    """The contents that a store should have."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.given: deque[int] = deque()
        """The ids of the next jobs."""
        self.kept: dict[int, Kept] = {}
        self.paused: dict[str, bool] = {}  # all topics
        self.priorities: set[tuple[str, int]] = set()  # priorities that jobs of a topic ever had
        self.nonces: dict[str, list[int]] = {}
        self.values: dict[str, tuple[bytes, int | None]] = {}  # notes, and when they expire
        self.dead: list[tuple[int, str]] = []  # jobs that died with a lost lease, and their topics

    def _now(self) -> int:
        """End the claims whose lease is over; return the time. Every operation begins with this."""
        now = self.clock.wall()
        for one in self.kept.values():
            if one.run is not None and one.run.lease <= now:
                ending, lease = lifecycle.lost(one.run), one.run.lease
                self._end(one, ending, Outcome.LOST, None, lease)
                if ending.state is State.DEAD:
                    self.dead.append((one.job.id, one.job.topic))
        return now

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; return the outcome of each."""
        return sound(commands, lambda some: [self._apply(command) for command in some])

    def _apply(self, command: c.Command[Any]) -> Any:
        method = getattr(self, f"_{type(command).__name__.lower()}")
        try:
            return method(command, self._now())
        except PywheelError as refusal:
            return refusal

    # ---- for clients ------------------------------------------------------------------------------------------------

    def _put(self, command: c.Put, now: int) -> list[int]:
        touched: set[int] = set()  # jobs that this command has put or replaced: no one sees them in between
        store = partial(self._store, now=now, touched=touched)
        return self._once(command, lambda: list(map(store, command.jobs)), command.jobs, now)

    def _import(self, command: c.Import, now: int) -> list[int]:
        holding = [one.new for one in command.jobs if one.holds_key]
        return self._once(command, lambda: [self._take_in(one) for one in command.jobs], holding, now)

    def _once(
        self, command: c.Put | c.Import, store: Callable[[], list[int]], jobs: Sequence[NewJob], now: int
    ) -> list[int]:
        """Store jobs once for each nonce; return their ids. JobExists if a key is taken."""
        if command.nonce in self.nonces:
            return self.nonces[command.nonce]
        for place, job in enumerate(jobs):
            if job.key is None:
                continue
            before = [other for other in jobs[:place] if (other.topic, other.key) == (job.topic, job.key)]
            if before and not job.replace:
                raise JobExists("two of the jobs put have this key", 0)
            holder = None if before else self._holder(job.topic, job.key)
            if holder is not None and not self._yields(holder, job):
                raise JobExists("a live job has this key", holder.job.id)
            if not before and holder is None and job.dedupe_for is not None:
                for one in self._finished(job.topic, job.key):
                    if one.ended > now - job.dedupe_for:
                        raise JobExists("a job with this key has ended lately", one.job.id)
        ids = store()
        if command.nonce is not None:
            self.nonces[command.nonce] = ids
        return ids

    def _holder(self, topic: str, key: str | None) -> Kept | None:
        """Return the live job that has a key."""
        named = (one for one in self.kept.values() if key is not None and one.name == (topic, key))
        return next((one for one in named if one.job.state.live and not one.passed), None)

    def _finished(self, topic: str, key: str) -> list[Kept]:
        """Return the finished jobs with a key, by id."""
        return [one for _, one in sorted(self.kept.items()) if one.name == (topic, key) and not one.job.state.live]

    def _yields(self, holder: Kept, job: NewJob) -> bool:
        """Whether the job that has the key takes the new values, or hands the key on."""
        return job.replace if holder.run is None else job.parent == (holder.job.id, holder.job.claims)

    def _store(self, new: NewJob, now: int, touched: set[int]) -> int:
        self._know(new.topic, new.priority)
        due, headers = lifecycle.due(now, new.due, new.delay), dict(new.headers or ())
        holder = self._holder(new.topic, new.key)
        if holder is not None and holder.run is None:
            fields = {field.name: getattr(new, field.name) for field in FIELDS} | {"headers": headers}
            claims = holder.job.claims + (holder.job.id not in touched)
            touched.add(holder.job.id)
            holder.job = holder.job._replace(body=new.body, due=due, claims=claims, **fields)
            return holder.job.id
        if holder is not None:
            holder.passed = True
        job = Job(0, new.topic, new.body, due, now, State.DELAYED, *new.kept)
        touched.add(id := self._keep_job(Kept(job._replace(headers=headers), [])))
        return id

    def _take_in(self, one: Imported) -> int:
        self._know(one.job.topic, one.job.priority)
        return self._keep_job(Kept(one.job._replace(last_error=one.last_error), list(one.history), one.passed))

    def _keep_job(self, one: Kept) -> int:
        id = self.given.popleft() if self.given else MISSING
        one.job = one.job._replace(id=id)
        self.kept[id] = one
        return id

    def _know(self, topic: str, priority: int) -> None:
        self.paused.setdefault(topic, False)
        if priority:
            self.priorities.add((topic, priority))

    def _find(self, ref: Ref) -> Kept | None:
        if isinstance(ref, int):
            return self.kept.get(ref)
        return self._holder(*ref) or next(reversed(self._finished(*ref)), None)

    def _cancel(self, command: c.Cancel, now: int) -> c.Change:
        one = self._find(command.ref)
        if one is None:
            return c.Change.NOT_FOUND
        outcome = lifecycle.may_move(one.job.state, (one.job.due, one.job.claims), command.expect)
        if outcome:
            one.job = one.job._replace(state=State.CANCELLED, claims=one.job.claims + 1)
            one.history.append(Attempt(one.job.claims, 0, None, now, Outcome.CANCELLED, None, None))
        return outcome

    def _edit(self, command: c.Edit, now: int) -> c.Change:
        one = self._find(command.ref)
        if one is None:
            return c.Change.NOT_FOUND
        job = one.job
        outcome = lifecycle.may_move(job.state, (job.due, job.claims), command.expect)
        if outcome:
            due = lifecycle.due(now, job.due if command.due is None else command.due, command.delay)
            fields = {name: {} if name == "headers" and not value else value for name, value in command.fields.items()}
            fields |= {} if command.body is None else {"body": command.body}
            one.job = job._replace(due=due, claims=job.claims + bool(fields), **fields)
            self._know(job.topic, one.job.priority)
        return outcome

    def _retry(self, command: c.Retry, now: int) -> c.Change:
        one = self._find(command.ref)
        outcome = c.Change.NOT_FOUND if one is None else lifecycle.may_retry(one.job.state)
        if one is None or not outcome:
            return outcome
        if self._holder(*one.name) is not None:
            raise JobExists("a live job has this key now", 0)
        due = lifecycle.due(now, command.due, command.delay)
        one.job = one.job._replace(state=State.DELAYED, attempt=0, lost=lifecycle.NEVER_LOST, due=due)
        one.history[-1] = one.history[-1]._replace(result=None)
        one.passed = False
        return outcome

    def _delete(self, command: c.Delete, _: int) -> c.Change:
        one = self._find(command.ref)
        outcome = c.Change.NOT_FOUND if one is None else lifecycle.may_delete(one.job.state)
        if one is not None and outcome:
            del self.kept[one.job.id]
        return outcome

    def _pause(self, command: c.Pause, _: int) -> bool:
        before = self.paused.get(command.topic, False)
        self.paused[command.topic] = command.paused
        return before is not command.paused

    def _purge(self, command: c.Purge, now: int) -> int:
        ended = [one for one in self.kept.values() if one.job.state is command.state and one.ended <= now - command.age]
        gone = [one.job.id for one in ended if command.topic in (None, one.job.topic)]
        for id in gone:
            del self.kept[id]
        return len(gone)

    def _setnote(self, command: c.SetNote, now: int) -> bytes | None:
        before = self.note(command.name)
        if before is None or not command.absent:
            self.values.pop(command.name, None)
            if command.value is not None:
                self.values[command.name] = command.value, None if command.ttl is None else now + command.ttl
        return before

    # ---- claims -----------------------------------------------------------------------------------------------------

    def _delayed(self, topic: str) -> list[Job]:
        """Return the delayed jobs of a topic, in the order of claims."""
        self._now()
        jobs = [one.job for one in self.kept.values()]
        return sorted((job for job in jobs if job.topic == topic and job.state is State.DELAYED), key=_turn)

    def _gate(self, topic: str, limits: Limits | None, now: int) -> Gate | None:
        """Return the gate of a topic's limits at this time. Call `_shut` afterwards."""
        if limits is None or topic not in self.paused:
            return None
        running = [one.job.key for one in self.kept.values() if one.run is not None and one.job.topic == topic]
        return Gate(limits, running, self.note(note_of(topic)), now)

    def _shut(self, topic: str, gate: Gate | None) -> None:
        if gate is not None and gate.changed:
            self.values[note_of(topic)] = gate.value, None

    def _reserve(self, command: c.Reserve, now: int) -> list[Job]:
        if self.paused.get(command.topic) or command.limit <= 0:
            return []
        gate = self._gate(command.topic, command.policy.limits, now)
        due = [job for job in self._delayed(command.topic) if job.due <= now]
        admits = None if gate is None else lambda job: gate.admits(job.key)
        looked = due[: looked_at(command.limit, command.policy.limits)]
        chosen = lifecycle.reserve(command, looked, lambda job: len(job.body), admits)
        self._shut(command.topic, gate)
        return [self._start(job, command, now, begun=True) for job in chosen]

    def _claim(self, command: c.Claim, now: int) -> c.Claimed:
        if self.paused.get(command.topic):
            return c.Claimed([], 0, [], paused=True)
        delayed = self._delayed(command.topic)
        first = None
        if command.limit > 0:
            delayed, first = _first_due(delayed, command, now)
        else:
            delayed = [job for job in delayed if job.id in command.ids]
        ready = [job for job in delayed if job.due <= now]
        early = sorted((job for job in delayed if job.due > now), key=lambda job: (job.due, job.id))
        gate = self._gate(command.topic, command.policy.limits, now)
        choice = lifecycle.choose(
            [job.lost for job in ready],
            [len(job.body) for job in ready],
            command.begin,
            command.suspects,
            command.bytes,
            None if gate is None else lambda place: gate.admits(ready[place].key, ready[place].id),
        )
        self._shut(command.topic, gate)
        left = [Due(job.due, job.id, job.topic, job.priority) for job in [ready[at] for at in choice.left] + early]
        jobs = [
            self._start(ready[at], command, now, begun=number < choice.begun) for number, at in enumerate(choice.taken)
        ]
        again, full = (None, ()) if gate is None else (gate.again, gate.full)
        return c.Claimed(jobs, choice.begun, left, paused=False, again=again, full=full, next=first)

    def _start(self, job: Job, command: c.Reserve | c.Claim, now: int, *, begun: bool) -> Job:
        policy, one, attempt = command.policy, self.kept[job.id], job.attempt + 1
        lease = now + ((job.ttr or policy.ttr) + policy.slack if begun else policy.hold)
        most, backoff = job.max_attempts or policy.max_attempts, lifecycle.backoff(policy.backoff, attempt, 0, 0)
        one.run = Run(job.claims + 1, attempt, begun, lease, most, backoff)
        one.job = job._replace(state=State.RUNNING, claims=job.claims + 1, attempt=attempt, lease_until=lease)
        one.history.append(Attempt(one.job.claims, attempt, now, None, None, command.worker, None))
        return one.job

    def _held(self, command: c.Begin | c.Touch | c.Ack | c.Nack | c.Release) -> tuple[Kept, Run] | None:
        """Return the job that a receipt holds, and its claim."""
        one = self.kept.get(command.id)
        return None if one is None or one.run is None or one.run.claim != command.claims else (one, one.run)

    def _end(
        self, one: Kept, ending: Ending, outcome: Outcome, error: str | None, ended: int, result: bytes | None = None
    ) -> None:
        """End a job's claim, and update the job and its history."""
        one.run = None
        one.history[-1] = one.history[-1]._replace(ended=ended, outcome=outcome, error=error, result=result)
        job = one.job._replace(state=ending.state, lost=ending.lost, lease_until=None)
        due = job.due if ending.due is None else ending.due
        error = job.last_error if error is None else error
        one.job = job._replace(due=due, attempt=job.attempt - (not ending.spent), last_error=error)

    def _ack(self, command: c.Ack, now: int) -> bool:
        held = self._held(command)
        if held is not None:
            self._end(held[0], lifecycle.DONE, Outcome.DONE, None, now, command.result)
        return held is not None

    def _nack(self, command: c.Nack, now: int) -> State | None:
        held = self._held(command)
        if held is None:
            return None
        ending = lifecycle.failed(held[1], now, command.delay)
        self._end(held[0], ending, Outcome.FAILED, command.error, now)
        return ending.state

    def _release(self, command: c.Release, now: int) -> bool:
        held = self._held(command)
        if held is not None:
            self._end(held[0], lifecycle.RELEASED, Outcome.RELEASED, None, now)
        return held is not None

    def _touch(self, command: c.Touch | c.Begin, now: int) -> bool:
        held = self._held(command)
        if held is not None:
            one, run = held
            ttr = (one.job.ttr or c.TOUCHED) if command.ttr is None else command.ttr
            begins, lease = isinstance(command, c.Begin), now + ttr
            one.run = run._replace(begun=run.begun or begins, lease=max(lease, run.lease) if begins else lease)
            one.job = one.job._replace(lease_until=one.run.lease)
        return held is not None

    _begin = _touch

    def _expire(self, _: c.Expire, __: int) -> c.Expired:
        return c.Expired(0, min((one.run.lease for one in self.kept.values() if one.run), default=None))

    # ---- looking ----------------------------------------------------------------------------------------------------

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        self._now()
        one = self._find(ref)
        return None if one is None else one.job

    def jobs(self, filter: Filter) -> list[Job]:
        """Return all jobs that a filter selects, by id."""
        self._now()
        return [one.job for _, one in sorted(self.kept.items()) if filter.fits(one.job)]

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        tally = Counter((job.topic, job.state) for job in self.jobs(Filter()))
        return {name: Counts(*(tally[name, state] for state in State)) for name in sorted(self.paused)}

    def topics(self) -> list[Topic]:
        """Return all topics."""
        priorities = sorted(self.priorities, reverse=True)
        return [
            Topic(name, paused, tuple(priority for topic, priority in priorities if topic == name))
            for name, paused in sorted(self.paused.items())
        ]

    def history(self, id: int) -> list[Attempt]:
        """Return the attempts of a job."""
        self._now()
        return self.kept[id].history if id in self.kept else []

    def note(self, name: str) -> bytes | None:
        """Return the value of a note, or None."""
        value, until = self.values.get(name, (None, None))
        return None if until is not None and self.clock.wall() >= until else value

    def notes(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        names = sorted(name for name in self.values if name.startswith(prefix))
        return [(name, value) for name in names if (value := self.note(name)) is not None]

    def first_due(self, topic: str, limit: int) -> list[Due]:
        """Return the jobs that a Reserve would claim."""
        now = self._now()
        jobs = [] if self.paused.get(topic) else [job for job in self._delayed(topic) if job.due <= now]
        return [Due(job.due, job.id, topic, job.priority) for job in jobs[:limit]]

    def next_dues(self, topics: Sequence[str]) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        jobs = {topic: self._delayed(topic) for topic in topics if not self.paused.get(topic)}
        return {topic: min(job.due for job in some) for topic, some in jobs.items() if some}

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs that died with a lost lease, once."""
        self._now()
        found = [id for id, topic in self.dead if topic in topics]
        self.dead = [(id, topic) for id, topic in self.dead if topic not in topics]
        return found


def _turn(job: Job) -> tuple[int, int, int]:
    """Return the sort key of due jobs."""
    return -job.priority, job.due, job.id


def _first_due(waiting: list[Job], command: c.Claim, now: int) -> tuple[list[Job], int | None]:
    """Return the due jobs that a claim without ids looks at, in order, and when the next one is due."""
    due = [job for job in waiting if job.due <= now and job.id not in command.without]
    priority, *behind = command.after or (PRIORITIES + 1, 0, 0)
    if priority is None:
        due = [job for job in due if [job.due, job.id] > behind]
    else:
        due = [job for job in due if _turn(job) > (-priority, *behind)]
    found, most = due[: command.limit], command.limit
    tried = [job for job in found if job.lost == lifecycle.LOST_BEGUN]
    if len(found) == most and len(tried) > command.suspects:
        most = max(most - command.suspects, 1)
        found = [job for job in due if job.lost != lifecycle.LOST_BEGUN][:most]
        full = len(found) == most
        found = sorted(tried + found, key=_turn)
    else:
        full = len(found) == most
    return found, now if full else min((job.due for job in waiting if job.due > now), default=None)
