"""The planner of schedules: it puts the jobs of ticks ahead of time, so that each is as punctual as any delayed job.

The planner is the handler of one job, which lives in the store as long as there are schedules. So one worker plans, and
another one if that one dies. Each run puts the ticks of the next minutes, and the planner's next job. A change of a
schedule makes this job due at once. A put has a nonce, so each tick is put once, even if several workers plan it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .._errors import BadBody, BadJob, BadOption, ExtraMissing, JobExists, NoKey
from ..jobs.commands import Cancel, Put
from ..jobs.cron import ZoneMissing
from ..jobs.handler import Handler
from ..jobs.job import Job
from ..jobs.queries import GetJob
from ..jobs.retry import Fixed
from ..jobs.schedule import LATE, NAME, VERSION, Schedule
from ..stores.contract import Store, outcome_of
from ..stores.schedule_notes import AHEAD, BLOCK, LONGEST, PLAN, TOPIC, Changes, Planned, ScheduleNotes, plan_job

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_ROUND: Final = 30_000  # ms between two runs, at least, unless something changes
_SOON: Final = 90_000  # ms before a tick at which it is time to plan: its whole block comes with it
_RECENT: Final = 300_000  # ms for which a change may have been under way when a planner looked
_TOGETHER: Final = 50  # jobs in one transaction, so that other writers do not wait for long
_BREATH: Final = 0.05  # seconds between two of these, at most, for other writers: as long as the last one took
_AGAIN: Final = 5_000  # ms until the next try after a schedule could not be planned here, perhaps by another worker
_LEASE: Final = 10_000  # ms after which another worker plans, if this one dies meanwhile
_PAUSE: Final = (10, 1.0)  # between two readings of changes: times as long as a run takes, and seconds at most


@dataclass(slots=True)
class _Place:
    """One schedule, as the planner knows it."""

    note: bytes
    schedule: Schedule | None
    after: int = 0
    next: int | None = 0  # its first tick later than `after`; None if there is none

    def first(self, after: int) -> int | None:
        """Return the schedule's first tick later than `after`, computed if it is not known."""
        if self.schedule is not None and not (self.after <= after and (self.next is None or after < self.next)):
            self.next = self.schedule.after(after)
            self.after = after
        return self.next


class _Unseen(NamedTuple):
    """The changes that the last planning did not see."""

    known: int  # all other schedules are planned up to this time
    recent: int  # schedules that began later than this are planned from their beginning
    names: set[str] | None  # names of changed schedules; None if they are not known

    def after(self, schedule: Schedule) -> int:
        """Return the time after which a schedule must be planned."""
        seen = self.names is not None and schedule.name not in self.names
        return self.known if seen else schedule.unplanned(self.known, self.recent)


class Planner:
    """The handler of the planner's job. It keeps the schedules between runs, and reads only those that changed."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._store: Store | None = None
        self._token = ""
        self._places: dict[str, _Place] = {}
        self._rests_until = self._took = 0.0

    def __call__(self, job: Job) -> None:
        """Put the jobs of the next ticks, and the planner's next job. O(schedules + log jobs x ticks)."""
        store = self._program.store
        notes = ScheduleNotes(store)
        before, changes = notes.planned(), self._look(notes)
        if self._begin_ahead(notes, store.clock.wall()):
            changes = self._look(notes)
        token = changes.token
        began = time.monotonic()
        now = store.clock.wall()
        until = (now + AHEAD) // BLOCK * BLOCK - 1
        known = before.until or 0
        if known > until + BLOCK:  # the clock was stepped back: plan anew, and leave the jobs that are put
            known = now
        until = max(until, known)
        first, able = self._plan(notes, now, until, _Unseen(known, before.seen - _RECENT, changes.since(before.token)))
        self._took = time.monotonic() - began
        wait = _ROUND if first is None else max(first - _SOON - now, _ROUND)
        # If some could not be planned here, the note stays, so that a worker that can plan them sees them as new.
        planned = Planned(until, now, token, job.id) if able else before._replace(last=job.id)
        successor = plan_job(due=now + (min(wait, LONGEST) if able else _AGAIN), parent=(job.id, job.claims))
        notes.go_on(successor, planned, token, _of_a_planner(store, before.last))

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _look(self, notes: ScheduleNotes) -> Changes:
        """Return the last changes, after reading the schedules that they have changed."""
        store, changes = self._program.store, notes.changes()
        self._read(notes, changes.since(self._token) if store is self._store else None)
        self._store, self._token = store, changes.token
        return changes

    def _begin_ahead(self, notes: ScheduleNotes, now: int) -> bool:
        """Have schedules begin that were changed under a clock that was ahead; return whether there are any.

        By that clock they would begin much later, and their earlier rules would apply until then.
        """

        def begun(before: Schedule | None) -> Schedule | None:
            return None if before is None or not _is_ahead(before, now) else before.begun(now)

        schedules = ((name, place.schedule) for name, place in self._places.items())
        ahead = [name for name, schedule in schedules if schedule is not None and _is_ahead(schedule, now)]
        if ahead:
            notes.change_many(dict.fromkeys(ahead, begun))
        return bool(ahead)

    def _read(self, notes: ScheduleNotes, changed: set[str] | None) -> None:
        """Read the schedules that changed, or all if `changed` is None."""
        if changed is not None and not changed:
            return
        times, longest = _PAUSE
        time.sleep(min(max(self._rests_until - time.monotonic(), 0), longest))
        began = time.monotonic()
        places = {} if changed is None else self._places
        for name, note in notes.raw() if changed is None else [(name, notes.raw_one(name)) for name in changed]:
            place = None if note is None else self._place(name, note)
            if place is None or (place.schedule is not None and place.schedule.removed):
                places.pop(name, None)
            else:
                places[name] = place
        self._places = places
        ended = time.monotonic()
        self._rests_until = ended + times * (ended - began + self._took)

    def _place(self, name: str, note: bytes) -> _Place:
        place = self._places.get(name)
        if place is not None and place.note == note:
            return place
        try:
            return _Place(note, Schedule.from_note(name, note))
        except BadBody as error:
            _LOGGER.error("%s", error)  # noqa: TRY400  (the message says all)
            return _Place(note, None)

    # ---- planning ---------------------------------------------------------------------------------------------------

    def _plan(self, notes: ScheduleNotes, now: int, until: int, unseen: _Unseen) -> tuple[int | None, bool]:
        """Put the ticks up to `until`; return the first tick after that, and whether all could be planned here."""
        firsts: list[int] = []
        wrong: dict[str, Exception] = {}
        puts: list[Put] = []
        for name, place in self._places.items():
            schedule = place.schedule
            if schedule is None or not schedule.active:
                continue
            after = unseen.after(schedule)
            try:
                first = place.first(after)
                if first is not None and first <= until:
                    puts += _puts(notes, schedule, after, now, until)
                    first = place.first(until)
            except (BadOption, BadBody) as error:  # no cronsim, no such zone, or no key for its body
                wrong[name] = error
                continue
            firsts += [] if first is None else [first]
            if sum(len(put.jobs) for put in puts[-_TOGETHER:]) >= _TOGETHER:
                began = time.monotonic()
                self._put(puts)
                puts = []
                time.sleep(min(time.monotonic() - began, _BREATH))
        self._put(puts)
        for name, why in wrong.items():
            _LOGGER.error("the schedule %s cannot be planned by this worker: %s", name, why)
        able = not any(isinstance(why, ExtraMissing | ZoneMissing | NoKey) for why in wrong.values())
        return min(firsts, default=None), able

    def _put(self, puts: list[Put]) -> None:
        if not puts:
            return
        store = self._program.store
        for put, outcome in zip(puts, store.apply(puts), strict=True):
            if isinstance(outcome, JobExists):
                self._put_around(put, outcome.id)
            elif isinstance(outcome, BadJob):  # the others go on
                _LOGGER.error("a tick that no store takes: %s: %s", (put.jobs[0].headers or {}).get(NAME), outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

    def _put_around(self, put: Put, holder: int) -> None:
        """Put ticks, one of whose keys is taken: by a job of another version, or by the very same tick."""
        store, jobs = self._program.store, list(put.jobs)
        for _ in range(2 * len(jobs)):
            job = store.ask(GetJob(holder))
            if job is not None:
                ours = (job.headers.get(VERSION), job.key) in [((new.headers or {})[VERSION], new.key) for new in jobs]
                if ours or not outcome_of(store, Cancel(holder)):
                    jobs = [new for new in jobs if new.key != job.key]
            if not jobs:
                return
            [outcome] = store.apply([Put(tuple(jobs), put.nonce)])
            if not isinstance(outcome, JobExists):
                break
            holder = outcome.id
        if isinstance(outcome, BaseException):
            raise outcome


def _of_a_planner(store: Store, id: int) -> int:
    """Return the id of a planner's job, 0 if another job has it: a note that was copied has ids of another store."""
    job = store.ask(GetJob(id))
    return 0 if job is None or (job.topic, job.key) != PLAN else id


def _is_ahead(schedule: Schedule, now: int) -> bool:
    return schedule.active and schedule.since > now + LATE


def _puts(notes: ScheduleNotes, schedule: Schedule, after: int, now: int, until: int) -> Iterator[Put]:
    """Yield the puts of a schedule's ticks, one for each block.

    The first put of a block decides which missed ticks belong to it; later ones have the same nonce.
    """
    body = notes.opened(schedule)
    blocks: dict[tuple[str, int], list[int]] = {}
    missed = schedule.missed(after, now) if after < now else []
    for tick in [*missed, *schedule.ticks(max(after, now), until)]:
        blocks.setdefault((schedule.version_at(tick), tick // BLOCK), []).append(tick)
    for (version, block), ticks in blocks.items():
        jobs = tuple(schedule.job(tick)._replace(body=body) for tick in ticks)
        yield Put(jobs, f"tick:{version}:{block}:{schedule.name}")


def with_planner(program: Any, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Return the handlers with the planner added."""
    plans = Handler(TOPIC, Planner(program), 1, _LEASE, Fixed(1, attempts=10_000), keep_lease=True)
    return {**handlers, TOPIC: handlers.get(TOPIC, plans)}


def declare(program: Any, *, again: bool = False) -> None:
    """Store the schedules that a program's code declares, once or `again`, and begin to plan. StoreError."""
    declared = getattr(program, "declared", None)
    if declared is None:
        ScheduleNotes(program.store).begin()
    else:
        functions = (handler.function for handler in program.handlers.values())
        declared.tell(program.store, {getattr(function, "__module__", "") for function in functions}, again=again)


def declare_lost(program: Any) -> bool:
    """Declare schedules again if the store has lost all; return whether that was so. StoreError."""
    if not getattr(program, "declared", None) or not ScheduleNotes(program.store).none():
        return False
    declare(program, again=True)
    return True
