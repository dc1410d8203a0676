"""The part of a store that a transaction has read, with the logic of the store in memory on top.

What a command does to a job is written once, in `stores.memory.commands`: here it works on the jobs that were read and
locked. Those it does not find are, for it, not there; `wanted` sees to it that all that matter are.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ..._errors import PywheelError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs.checks import MOST
from ...jobs.job import Attempt, Due, Job, NewJob, Outcome, State
from ...jobs.lifecycle import Run, choose
from ...jobs.limits import Gate, priorities
from ..memory.commands import MemoryCommands
from ..memory.state import Entry, Kept

__all__ = ["FINISHED", "OUTCOMES", "Part", "Place", "Read", "Told", "due_row", "finished_row", "run_row", "with_bodies"]

FINISHED: Final = (State.DONE, State.CANCELLED, State.DEAD)
"""The states that the column `state` numbers."""
OUTCOMES: Final = (Outcome.DONE, Outcome.CANCELLED, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED)
"""The outcomes that the column `outcome` numbers."""
_LOOKS: Final = 4  # times that a claim under a limit looks for jobs that others do not lock
_AGAIN: Final = 100  # ms after which a job is asked for again that another transaction was at


class Place(IntEnum):
    """In which of the tables a job stands: in exactly one."""

    DUE = 0
    RUN = 1
    FINISHED = 2


class Read(Entry):
    """A job that was read, and where it stood."""

    __slots__ = ("_size", "finished", "given", "last", "place", "row", "unread")

    def __init__(self, id: int, new: NewJob, due: int, created: int, size: int) -> None:
        super().__init__(id, new, due, created)
        self._size = size
        self.given = new
        self.unread = False  # whether its body was left in the store, until it is known to be claimed
        self.place = Place.DUE
        self.finished = -1  # the number of the state in which it was finished
        self.last: Attempt | None = None  # the attempt that finished it
        self.row: tuple[Any, ...] = ()

    @property
    def size(self) -> int:
        """The length of the body."""
        return self._size if self.new is self.given else len(self.new.body)


class Looked(NamedTuple):
    """A delayed job that was looked at, and is not locked."""

    id: int
    topic: str
    due: int
    key: str | None
    lost: int
    size: int
    priority: int


class Told:
    """What is to be told after the commit, in the place of the workers of a store in memory."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[str, int]] = {}  # id: topic, and the earliest due time it has or had
        self.stirred: dict[str, bool] = {}
        self.announced: dict[str, tuple[str, ...]] = {}

    def changed(self, id: int, topic: str, due: int) -> None:
        """Note that a job is, or was until now, due then."""
        before = self.jobs.get(id)
        self.jobs[id] = (topic, due if before is None else min(due, before[1]))

    def stir(self, topic: str, paused: bool) -> None:
        """Note that a topic was paused or resumed."""
        self.stirred[topic] = paused

    def announce(self, worker: str, topics: tuple[str, ...]) -> None:
        """Note which topics a worker handles."""
        self.announced[worker] = topics

    def ring(self) -> None:
        """Do nothing: others are told once all is committed."""


def _nothing(ids: Iterable[int]) -> None:
    """Lock nothing."""


class _Moment(Clock):
    """The time of a transaction."""

    def __init__(self, now: int) -> None:
        self._now = now

    def time_ns(self) -> int:
        return self._now * 1_000_000

    def wall(self) -> int:
        return self._now


class Part(MemoryCommands):
    """Jobs that were read, and are locked, at a moment of the store's clock."""

    def __init__(self, now: int, ids: Iterator[int], draw: Callable[[], float]) -> None:
        super().__init__("", _Moment(now))
        self.now = now
        self.draw = draw
        self.told = self._presence = Told()  # type: ignore[assignment]
        self.read: dict[int, Read] = {}
        self.kept: dict[tuple[str, str], int] = {}  # who had which key
        self.paused_before: dict[str, bool] = {}
        self.forgets = 0  # so many nonces, if they are old
        self.nonces_before: set[str] = set()
        self.notes_before: dict[str, Kept] = {}
        self.forgets_notes = 0  # so many, if they are over
        self.leases: list[tuple[int, int]] = []  # job and lease, of the first that are not over
        self.lanes_before: dict[str, set[int]] = {}
        self.others_running: dict[str, list[tuple[int, str | None]]] = {}  # ids and keys, of topics with a limit
        self.looked: dict[int, Looked] = {}  # delayed jobs, not locked
        self.lapsed: set[int] = set()  # jobs with a lease that is over, not locked
        self.guarded = False  # whether the notes that guard limits are locked
        self.lock_jobs: Callable[[Iterable[int]], None] = _nothing
        """Locks what guards limits, unless it is locked, and then jobs."""
        self.locked: set[int] = set()  # delayed jobs to be claimed that another transaction is at
        self.free_since: dict[tuple[str, str], int] = {}  # keys with which no job has ended since then
        self.rewritten: dict[int, tuple[str, bytes]] = {}  # topic and new result of jobs that are done
        self._ids = ids
        self._last = MOST

    def _new_id(self) -> int:
        return next(self._ids)

    def guard(self, notes: Iterable[bytes]) -> None:
        """Forget what was read of these notes, and what runs, before they were locked."""
        self.guarded = True
        self.others_running.clear()
        for name in (note.decode() for note in notes):
            if self.notes_before.get(name) == self._notes.get(name):
                self._note(name, None)
                self.notes_before.pop(name, None)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def topic(self, name: str, paused: bool, lanes: int) -> None:
        """Take in whether a topic is paused, and which priorities its jobs had."""
        self._paused[name] = self.paused_before[name] = paused
        if lanes:
            self.lanes_before[name] = set(priorities(lanes))
            self._lanes[name] = self.lanes_before[name] | self._lanes.get(name, set())

    def running(self, name: str, id: int, key: str | None) -> None:
        """Take in a job of a topic with a limit that runs."""
        self.others_running.setdefault(name, []).append((id, key))

    def nonce(self, nonce: str, when: int, ids: str) -> None:
        """Take in a nonce that is known."""
        self._nonces[nonce] = (when, json.loads(ids))
        self.nonces_before.add(nonce)

    def load_note(self, name: bytes, value: bytes, until: int | None) -> None:
        """Take in a note that there is."""
        kept = self.notes_before[name.decode()] = Kept(bytes(value), until)
        self._note(name.decode(), kept)

    def load_looked(self, rows: Iterable[Sequence[Any]], lapsed: Iterable[int], names: Mapping[int, str]) -> None:
        """Take in delayed jobs that are not locked, and which have a lease that is over."""
        self.lapsed.update(lapsed)
        for id, number, due, key, lost, size, priority in rows:
            self.looked[id] = Looked(id, names[number], due, key, lost or 0, size, priority or 0)

    def load_due(self, rows: Iterable[Sequence[Any]], names: Mapping[int, str]) -> None:
        """Take in delayed jobs."""
        for row in rows:
            if row[0] not in self.read:
                entry = self._load(row, names, Place.DUE)
                insort(self._due[entry.new.topic], (entry.due, entry.id))
                entry.row = due_row(entry)

    def load_run(self, rows: Iterable[Sequence[Any]], names: Mapping[int, str]) -> None:
        """Take in running jobs."""
        for row in rows:
            if row[0] not in self.read:
                entry = self._load(row, names, Place.RUN)
                attempt, begun, entry.started, lease, most, backoff, entry.worker = row[16:]
                entry.run = Run(entry.claims, attempt, bool(begun), lease, most, backoff)
                self._running[entry.id] = entry
                entry.row = run_row(entry)

    def load_finished(self, rows: Iterable[Sequence[Any]], names: Mapping[int, str]) -> None:
        """Take in finished jobs."""
        for row in rows:
            if row[0] not in self.read:
                entry = self._load(row, names, Place.FINISHED)
                attempt, started, worker, state, outcome, entry.ended, silent = row[16:]
                entry.state, entry.finished = FINISHED[state], state
                ending = OUTCOMES[outcome]
                error = entry.error if ending is Outcome.FAILED and not silent else None
                entry.last = Attempt(entry.claims, attempt or 0, started, entry.ended, ending, worker, error)
                insort(self._ended[entry.state], (entry.ended, entry.id))

    def _load(self, row: Sequence[Any], names: Mapping[int, str], place: Place) -> Read:
        id, number, created, key, ttr, limit, headers, size, body, due, claims, forgiven, lost, passed, error = row[:15]
        priority = row[15] or 0
        topic = names[number]
        text = b"" if body is None else bytes(body)
        new = NewJob(topic, text, due, key, ttr, limit, headers and json.loads(headers), priority=priority)
        entry = Read(id, new, due, created, size)
        entry.place, entry.unread = place, body is None
        entry.claims, entry.forgiven, entry.lost = claims or 0, forgiven or 0, lost or 0
        entry.passed, entry.error = bool(passed), error
        self.read[id] = entry
        self._jobs[id] = entry
        if key is not None:
            name = (topic, key)
            insort(self._named[name], id)
            if place is not Place.FINISHED and not passed:
                self._keys[name] = self.kept[name] = id
        return entry

    # ---- deciding ---------------------------------------------------------------------------------------------------

    def run(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Return the outcomes of the commands, in order."""
        outcomes: list[Any] = []
        for command in commands:
            try:
                outcomes.append(self._apply[type(command)](command))
            except PywheelError as refusal:
                outcomes.append(refusal)
        return outcomes

    def _forget_nonces(self, now: int, limit: int) -> None:  # noqa: ARG002
        """Leave that to the database."""
        self.forgets += limit

    def _forget_notes(self, now: int, limit: int) -> None:  # noqa: ARG002
        """Leave that to the database."""
        self.forgets_notes += limit

    def _lately(self, name: tuple[str, str], since: int) -> Entry | None:
        ended = super()._lately(name, since)
        if ended is None:
            self.free_since[name] = since
        return ended

    def _rewrite_result(self, entry: Entry, command: c.Rewrite) -> bool:
        if not isinstance(entry, Read) or entry.state is not State.DONE:
            return False
        last = entry.last
        if last is None or last.claim != command.claim or last.result is None or last.result != command.old:
            return False
        entry.last = last._replace(result=command.new)
        self.rewritten[entry.id] = entry.new.topic, command.new
        return True

    def _claim(self, command: c.Claim) -> c.Claimed:
        limited = command.terms.limits is not None and not self._paused.get(command.topic)
        gate = self._lock_admitted(command) if limited else None
        outcome = super()._claim(command)
        locked = [] if outcome.paused else self.locked.intersection(command.ids)
        again = self.now + _AGAIN
        left = outcome.left + [Due(again, id, command.topic) for id in locked]
        if gate is None:
            return outcome._replace(left=left)
        left += [Due(row.due, row.id, row.topic, row.priority) for row in self._looked(command)]
        left.sort(key=lambda due: (due.due > self.now, due.due <= self.now and -due.priority, due.due, due.id))
        begun = {job.id for job in outcome.jobs}
        full = tuple(one for one in gate.full if one[0] not in begun)
        moments = [moment for moment in (gate.again, outcome.again) if moment is not None]
        return outcome._replace(left=left, again=min(moments, default=None), full=full)

    def _lock_admitted(self, command: c.Claim) -> Gate | None:
        """Lock the jobs that limits let through; return what these were found to let through.

        Nothing is locked where they let nothing through. What is locked by others, or gone, makes room for the next.
        """
        gate = None
        for _ in range(_LOOKS):
            gate, taken = self._look(command)
            unlocked = ({row.id for row in taken} | self.lapsed.intersection(command.ids)) - self.read.keys()
            if not unlocked and (self.guarded or gate is None or not (taken or gate.changed)):
                break
            self.lock_jobs(unlocked)
            self.lapsed -= unlocked
            for id in unlocked:
                self.looked.pop(id, None)
        return gate

    def _look(self, command: c.Claim) -> tuple[Gate | None, list[Looked]]:
        """Return what limits let through, and which jobs of a claim, as they are known now."""
        topic, now = command.topic, self.now
        rows = self._looked(command)
        for id in dict.fromkeys(command.ids):
            entry = self._jobs.get(id)
            if entry is None or entry.new.topic != topic:
                continue
            self._settle_lost(entry, now)
            if entry.state is State.DELAYED and entry.run is None:
                new = entry.new
                rows.append(Looked(id, topic, entry.due, new.key, entry.lost, entry.size, new.priority))
        rows = sorted((row for row in rows if row.due <= now), key=lambda row: (-row.priority, row.due, row.id))
        gate = self._gate(topic, command.terms.limits, now)
        if gate is None:
            return None, []
        lost, sizes = [row.lost for row in rows], [row.size for row in rows]
        begin, suspects, most = command.begin, command.suspects, command.bytes
        choice = choose(lost, sizes, begin, suspects, most, lambda place: gate.admits(rows[place].key, rows[place].id))
        return gate, [rows[place] for place in choice.taken]

    def _looked(self, command: c.Claim) -> list[Looked]:
        """Return the jobs of a claim that were looked at, and are not locked."""
        found = (self.looked.get(id) for id in dict.fromkeys(command.ids))
        return [row for row in found if row is not None and row.topic == command.topic and row.id not in self.read]

    def _keys_running(self, topic: str, now: int) -> list[str | None]:
        others = self.others_running.get(topic, ())
        return [*super()._keys_running(topic, now), *(key for id, key in others if id not in self.read)]

    def _expire(self, command: c.Expire) -> c.Expired:
        outcome = super()._expire(command)
        others = min((lease for id, lease in self.leases if id not in self._jobs), default=None)
        both = [lease for lease in (outcome.next_lease, others) if lease is not None]
        return outcome._replace(next_lease=min(both, default=None))

    def entries(self) -> Iterator[tuple[int, Read | None, Entry | None]]:
        """Yield each job by id: as it was read, None if it is new, and as it is now, None if it was forgotten."""
        for id, read in self.read.items():
            yield id, read, self._jobs.get(id)
        for id, entry in self._jobs.items():
            if id not in self.read:
                yield id, None, entry

    @property
    def tally(self) -> dict[str, dict[State, int]]:
        """By how many the jobs of a topic in each state have become more."""
        return self._tally

    @property
    def keys(self) -> dict[tuple[str, str], int]:
        """Who has which key now."""
        return self._keys

    @property
    def paused(self) -> dict[str, bool]:
        """Which of the topics named are paused; those that were put to for the first time among them."""
        return self._paused

    @property
    def lanes(self) -> dict[str, set[int]]:
        """The priorities that jobs of the topics named have and had."""
        return self._lanes

    @property
    def nonces(self) -> list[tuple[str, int, str]]:
        """The new ones: when, and the ids as JSON."""
        known = self.nonces_before
        return [(nonce, when, json.dumps(ids)) for nonce, (when, ids) in self._nonces.items() if nonce not in known]

    def learn_bodies(self, bodies: Mapping[int, bytes]) -> None:
        """Take in the bodies of jobs that were read without them."""
        for id, body in bodies.items():
            read = self.read.get(id)
            if read is not None:
                read.new = read.given = read.given._replace(body=bytes(body))
                read.unread = False

    def learn_results(self, results: Mapping[int, bytes]) -> None:
        """Take in the results of jobs that are done."""
        for id, result in results.items():
            read = self.read.get(id)
            if read is not None and read.last is not None:
                read.last = read.last._replace(result=bytes(result))

    @property
    def notes(self) -> dict[str, Kept]:
        """Those named that there are now."""
        return self._notes

    def without_bodies(self, outcomes: Sequence[Any]) -> list[int]:
        """Return the ids of claimed jobs whose bodies are still to be read."""
        return [job.id for job in _claimed(outcomes) if (read := self.read.get(job.id)) is not None and read.unread]


def with_bodies(outcomes: list[Any], bodies: Mapping[int, bytes]) -> list[Any]:
    """Return outcomes with the bodies of claimed jobs put in."""

    def full(jobs: list[Job]) -> list[Job]:
        return [job._replace(body=bodies[job.id]) if job.id in bodies else job for job in jobs]

    return [
        outcome._replace(jobs=full(outcome.jobs))
        if isinstance(outcome, c.Claimed)
        else full(outcome)
        if isinstance(outcome, list) and outcome and isinstance(outcome[0], Job)
        else outcome
        for outcome in outcomes
    ]


def _claimed(outcomes: Sequence[Any]) -> Iterator[Job]:
    for outcome in outcomes:
        jobs = outcome.jobs if isinstance(outcome, c.Claimed) else outcome
        if isinstance(jobs, list) and jobs and isinstance(jobs[0], Job):
            yield from jobs


# ---- rows of the three tables, but for the topic: NULL is 0 there, and takes no room --------------------------------


def due_row(entry: Entry) -> tuple[Any, ...]:
    """Return what stands in the table of delayed jobs."""
    return (
        entry.id,
        entry.due,
        entry.claims or None,
        entry.forgiven or None,
        entry.lost or None,
        entry.passed or None,
        entry.error,
    )


def run_row(entry: Entry) -> tuple[Any, ...]:
    """Return what stands in the table of running jobs."""
    run = entry.run
    assert run is not None
    return (
        *due_row(entry),
        run.attempt,
        run.begun,
        entry.started,
        run.lease,
        run.max_attempts,
        run.backoff,
        entry.worker,
    )


def finished_row(entry: Entry, last: Attempt) -> tuple[Any, ...]:
    """Return what stands in the table of finished jobs: the attempt that finished it too."""
    assert last.outcome is not None
    return (
        *due_row(entry),
        last.attempt or None,
        last.started,
        last.worker,
        FINISHED.index(entry.state),
        OUTCOMES.index(last.outcome),
        entry.ended,
        (last.outcome is Outcome.FAILED and last.error != entry.error) or None,
    )
