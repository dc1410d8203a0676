"""Schedules as a store keeps them: a note each, one note with the last changes, and one with the planner's progress.

One caller at a time changes schedules, under a lock, which ends with time. Changes are also made by exchange: a caller
that finds another one's change of the same schedule repeats its own change on top of that. Each change wakes the
planner, whose job is always in the store while there is anything to plan.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from secrets import token_hex
from typing import Any, Final, NamedTuple

from .._errors import BadBody, BadOption, JobExists, StoreBusy, StoreError
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Cancel, Command, Delete, Edit, Put, SetNote
from ..jobs.handler import redefined
from ..jobs.job import Job, NewJob, State
from ..jobs.queries import GetJob, GetNote, ListNotes
from ..jobs.schedule import Schedule
from .contract import Store, intact, notes, outcome_of, pauses

TOPIC: Final = "pywheel.schedules"
"""The topic of the planner's job."""
PLAN: Final = (TOPIC, "plan")
"""The topic and key of the planner's job."""
AHEAD: Final = 150_000
"""ms by which ticks are put ahead of their time."""
BLOCK: Final = 60_000
"""ms of a block: all ticks of a schedule in one block are put together, once."""
LONGEST: Final = 3_600_000
"""The longest sleep of the planner, in ms."""

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_NOTE: Final = "schedule:"
_CHANGED: Final = "schedules:changed"
_LOCK: Final = "lock:schedules"
_PLANNED: Final = "schedules:planned"
_REMOVED: Final = 3_600_000  # ms for which the note of a removed schedule, and its version, are kept
_PAGE: Final = 1_000
_TOGETHER: Final = 200  # notes that are written in one transaction
_FEW: Final = 20  # notes that are read one by one
_ATTEMPTS: Final = 1_000_000  # of the planner's job: it must never be dead
_HELD: Final = 5_000  # ms after which the lock ends by itself
_PATIENCE: Final = 30.0  # seconds
_LOTS: Final = 100  # lots of changed names that are kept
_NAMES: Final = 50  # names that one lot has at most: with more, all schedules are to be read
_BYTES: Final = 16_000
_NO_CHANGES: Final = b'[""]'
_MAIN: Final = "__main__"

ScheduleEdit = Callable[[Schedule | None], Schedule | None]


class Planned(NamedTuple):
    """The planner's progress."""

    until: int | None = None  # all ticks up to this time are put; None: nothing is known
    seen: int = 0  # when that was, ms
    token: str = ""  # the last change that the planner knew
    last: int = 0  # the planner's job then


class Changes(NamedTuple):
    """The last changes of schedules: a token, which each change replaces, and the names of the changed schedules.

    So a reader that knows all schedules as of one token need not read them all for the next. A writer that has
    overwritten a change unseen leaves a token without a past.
    """

    token: str = ""
    lots: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the token before, and the names changed then; newest first

    @classmethod
    def read(cls, note: bytes | None) -> Changes:
        """Return the changes in a note."""
        try:
            token, *lots = json.loads(note or _NO_CHANGES)
            return cls(str(token), tuple((str(before), tuple(map(str, names))) for before, names in lots))
        except (ValueError, TypeError):  # nobody knows such a token: all schedules are read
            return cls(repr(note))

    def since(self, token: str) -> set[str] | None:
        """Return the names of the schedules changed since a token, or None if they are not known."""
        names: set[str] = set()
        at = self.token
        for before, changed in self.lots:
            if at == token:
                break
            names.update(changed)
            at = before
        return names if at == token else None

    def and_then(self, names: Collection[str]) -> bytes:
        """Return the note of these changes on top of the earlier ones."""
        if len(names) > _NAMES:
            return self.without_past()
        lots: list[Any] = [token_hex(8), (self.token, sorted(names)), *self.lots[: _LOTS - 1]]
        while len(note := json.dumps(lots).encode()) > _BYTES:
            lots = lots[: len(lots) // 2]
        return note

    @staticmethod
    def without_past() -> bytes:
        """Return the note after which all schedules are to be read."""
        return json.dumps([token_hex(8)]).encode()


@dataclass(slots=True)
class _Written:
    """A schedule and its note, before and after a change."""

    name: str
    schedule: Schedule | None
    before: bytes | None  # the note that is expected to be there
    note: bytes | None
    commands: list[Command[Any]]  # none if the schedule stays as it is

    @property
    def keep(self) -> SetNote:
        """The command that writes the note."""
        removed = self.schedule is not None and self.schedule.removed
        return SetNote(_NOTE + self.name, self.note, ttl=_REMOVED if removed else None)


class ScheduleNotes:
    """Reads and changes the schedules of a store. Any thread may call any method; StoreError from all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ---- looking ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Schedule | None:
        """Return a schedule, or None. BadBody if its note cannot be read."""
        note = self.raw_one(name)
        found = None if note is None else Schedule.from_note(name, note)
        return None if found is None or found.removed else found

    def page(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> list[Schedule]:
        """Return up to `limit` schedules with names after this one, by name: all, or those for which `wanted` holds."""
        found = (_readable(name, note) for name, note in self.raw(after, _PAGE if wanted else limit))
        there = (one for one in found if one is not None and not one.removed and (wanted is None or wanted(one)))
        return list(islice(there, limit))

    def raw(self, after: str = "", some: int = _PAGE) -> Iterator[tuple[str, bytes]]:
        """Yield name and note of all schedules whose names come after this one. One query reads `some`."""
        for name, note in notes(self._store, _NOTE, some, _NOTE + after):
            yield name.removeprefix(_NOTE), note

    def none(self) -> bool:
        """Return whether there is no schedule at all, nor one that was removed."""
        return not self._store.ask(ListNotes(_NOTE, "", 1))

    def changes(self) -> Changes:
        """Return the last changes."""
        return Changes.read(self._last_changes())

    def _last_changes(self) -> bytes | None:
        return self._store.ask(GetNote(_CHANGED))

    def raw_one(self, name: str) -> bytes | None:
        """Return the note of one schedule, or None."""
        return self._store.ask(GetNote(_NOTE + name))

    def planned(self) -> Planned:
        """Return the planner's progress."""
        note = self._store.ask(GetNote(_PLANNED))
        try:
            until, seen, token, last = json.loads(note or b"")
            return Planned(until if until is None else int(until), int(seen), str(token), int(last))
        except (ValueError, TypeError, OverflowError):  # all is planned anew: each tick happens once all the same
            return Planned()

    # ---- changing ---------------------------------------------------------------------------------------------------

    def change(self, name: str, change: ScheduleEdit) -> Schedule | None:
        """Change a schedule by a function; return the new schedule. The function returns None to leave it as it is.

        The function is called at least twice if there is anything to change: only then the lock is taken.
        """
        return self.change_many({name: change})[name]

    def change_many(self, changes: Mapping[str, ScheduleEdit]) -> dict[str, Schedule | None]:
        """`change` for many, in few transactions."""
        found = self._wanted(changes)
        if any(written.commands for written in found):
            with self._locked() as renew:
                found = self._wanted(changes)
                todo = [written for written in found if written.commands]
                for at in range(0, len(todo), _TOGETHER):
                    batch = todo[at : at + _TOGETHER]
                    for written, there in zip(batch, self._apply(batch), strict=True):
                        self._settle(written, changes[written.name], there)
                    renew()
        if not any(written.commands for written in found):
            self.begin()  # the last writer may have stopped before this
        return {written.name: written.schedule for written in found}

    @contextmanager
    def _locked(self) -> Iterator[Callable[[], None]]:
        """Hold the lock of all schedules; give a function that prolongs it. Two transactions, one more for each try.

        The lock ends by itself, so that nobody waits for a holder that died. A holder that stood still for longer may
        not be alone.

        Raises:
            StoreBusy: others held it for half a minute.
        """
        token, give_up = token_hex(8).encode(), time.monotonic() + _PATIENCE
        for pause in pauses():
            held_since = time.monotonic()
            if outcome_of(self._store, SetNote(_LOCK, token, ttl=_HELD, absent=True)) in (None, token):
                break
            if held_since > give_up:
                raise StoreBusy(f"another process has held {_LOCK} for {_PATIENCE:.0f} s: try again")
            time.sleep(pause)

        def renew() -> None:
            nonlocal held_since
            asked = time.monotonic()
            if asked - held_since < _HELD / 1000:
                outcome_of(self._store, SetNote(_LOCK, token, ttl=_HELD))
                held_since = asked

        try:
            yield renew
        finally:
            if time.monotonic() - held_since < _HELD / 1000:  # else another caller may hold it by now
                with suppress(StoreError):
                    outcome_of(self._store, SetNote(_LOCK, None))

    def _wanted(self, changes: Mapping[str, ScheduleEdit]) -> list[_Written]:
        """Return each schedule and its note, before and after the change."""
        notes: dict[str, bytes | None]
        if len(changes) <= _FEW:
            notes = {name: self.raw_one(name) for name in changes}
        else:
            notes = dict.fromkeys(changes) | {name: note for name, note in self.raw() if name in changes}
        return [self._written(name, notes[name], change) for name, change in changes.items()]

    def _written(self, name: str, note: bytes | None, change: ScheduleEdit) -> _Written:
        before = _readable(name, note)
        after = change(None if before is None else self._plain(before))
        if after is None:
            return _Written(name, before, note, note, [])
        written = _Written(name, after, note, self._sealed(after).kept(), self._cancelled(before, after))
        written.commands.insert(0, written.keep)
        return written

    def _settle(self, written: _Written, change: ScheduleEdit, found: bytes | None) -> None:
        """Repeat a change on top of another one that it has overwritten: `found` was there instead of `before`."""
        while found != written.before:
            again = self._written(written.name, found, change)
            written.schedule, written.before, written.note = again.schedule, written.note, again.note
            written.commands = again.commands or [written.keep]
            [found] = self._apply([written])

    def _plain(self, schedule: Schedule) -> Schedule:
        try:
            return replace(schedule, body=self.opened(schedule))
        except BadBody:  # the schedule can still be paused and removed
            return schedule

    def _sealed(self, schedule: Schedule) -> Schedule:
        if not schedule.body or is_encrypted(schedule.body):
            return schedule
        job = NewJob(schedule.topic, schedule.body, 0, sealed_key(schedule.name))
        return replace(schedule, body=self._store.sealed(job).body)

    def _cancelled(self, before: Schedule | None, after: Schedule) -> list[Command[Any]]:
        """Return the commands that cancel the jobs put ahead for a schedule's earlier form.

        Ticks before a change stay, also if their block is yet to come. A paused or removed schedule leaves no jobs.
        A body that is encrypted anew cancels none: a schedule with another body has another version.
        """
        if before is None or not before.active or replace(after, body=before.body) == before:
            return []
        now = self._store.clock.wall()
        since = min(now, after.since) if after.active else now - before.jitter - 1
        try:
            ticks = list(before.ticks(since, now + AHEAD))
        except ValueError:  # it cannot be computed here, nor could it before: jobs that are left refuse to run
            return []
        return [Cancel((before.topic, before.key(tick))) for tick in ticks if after.active or before.due(tick) >= now]

    def _apply(self, batch: Sequence[_Written]) -> list[bytes | None]:
        """Write, and wake the planner; return the notes that were there before."""
        commands = [command for written in batch for command in written.commands]
        before, names = self._last_changes(), [written.name for written in batch]
        keep, move = SetNote(_CHANGED, Changes.read(before).and_then(names)), Edit(PLAN, delay=0)
        outcomes = intact(self._store.apply([*commands, keep, move]))
        if outcomes[-2] != before:  # another caller has changed something meanwhile, and its names are overwritten
            self._store.apply([SetNote(_CHANGED, Changes.without_past()), move])
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        if not outcomes[-1]:
            self._begin()
        return [found for command, found in zip(commands, outcomes, strict=False) if isinstance(command, SetNote)]

    def begin(self) -> None:
        """Make sure that the planner's job is there, if there is anything to plan, and comes within its time."""
        job = self._store.ask(GetJob(PLAN))
        if job is None or not job.state.live:
            if not self.none():
                self._begin()
            return
        now = self._store.clock.wall()
        # A clock that was ahead then put the job late. A planner that comes soon anyway costs no second look.
        if job.due > now + LONGEST or (job.due > now + BLOCK and self.planned().seen > now + BLOCK):
            self._store.apply([Edit(PLAN, delay=0)])

    def _begin(self) -> None:
        with suppress(JobExists):
            outcome_of(self._store, Put((plan_job(delay=0),)))

    # ---- for the planner --------------------------------------------------------------------------------------------

    def go_on(self, successor: NewJob, planned: Planned, token: str, before: int) -> None:
        """Put the planner's next job, which is refused if the planner has lost its claim, and write its progress.

        The job is due at once if anything has changed since `token` was read. The job `before` is deleted.
        """
        commands: list[Command[Any]] = [
            Put((successor,)),
            SetNote(_CHANGED, _NO_CHANGES, absent=True),
            SetNote(_PLANNED, json.dumps(planned).encode()),
        ]
        outcomes = intact(self._store.apply([*commands, Delete(before)] if before else commands))
        if not isinstance(outcomes[0], JobExists) and Changes.read(outcomes[1]).token != token:
            self._store.apply([Edit(PLAN, delay=0)])

    def opened(self, schedule: Schedule) -> bytes:
        """Return a schedule's plain body. NoKey, BadBody."""
        kept = Job(0, schedule.topic, schedule.body, 0, 0, State.DELAYED, sealed_key(schedule.name))
        return self._store.opened(kept).body if schedule.body else b""


def plan_job(delay: int | None = None, due: int = 0, parent: tuple[int, int] | None = None) -> NewJob:
    """Return a new job of the planner. Only one of them is live."""
    return NewJob(TOPIC, b"", due, PLAN[1], max_attempts=_ATTEMPTS, delay=delay, parent=parent)


def sealed_key(name: str) -> str:
    """Return the key that an encrypted body of a schedule is bound to."""
    return _NOTE + name


def _readable(name: str, note: bytes | None) -> Schedule | None:
    """Return the schedule in a note, None if the note cannot be read: it may then be replaced."""
    try:
        return None if note is None else Schedule.from_note(name, note)
    except BadBody as error:
        _LOGGER.warning("%s", error)
        return None


# ---- schedules declared in code -------------------------------------------------------------------------------------


class Declared:
    """The schedules that a queue's code declares. The declarations of the worker that starts last hold."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._functions: dict[str, object] = {}
        self._told: Store | None = None

    def __len__(self) -> int:
        return len(self._schedules)

    def add(self, schedule: Schedule, function: object) -> None:
        """Declare the schedule of a function. BadOption if another function has declared one of this name."""
        if schedule.name in self._schedules and not redefined(self._functions[schedule.name], function):
            raise BadOption(f"there is a schedule {schedule.name!r} already: give this one another name=")
        self._schedules[schedule.name], self._functions[schedule.name] = schedule, function
        self._told = None

    def discard(self, name: str) -> None:
        """Take back a declaration."""
        self._schedules.pop(name, None)

    def tell(self, store: Store, modules: Collection[str], *, again: bool = False) -> None:
        """Write the schedules into a store, and remove those that `modules`, the program's own, declared before.

        Nothing is read if that was done, unless `again`. StoreError: call it again.
        """
        if self._told is store and not again:
            return
        notes = ScheduleNotes(store)
        notes.change_many({name: as_said(schedule, store) for name, schedule in self._schedules.items()})
        others = ((name, note) for name, note in notes.raw() if name not in self._schedules)
        if gone := [name for name, note in others if _declared_by(name, note) in modules]:
            notes.change_many(dict.fromkeys(gone, removed))
        self._told = store


def as_said(schedule: Schedule, store: Store) -> ScheduleEdit:
    """Return the change that makes a schedule as given; a paused schedule stays paused."""

    def change(before: Schedule | None) -> Schedule | None:
        if before is not None and not before.removed and before.at_rest == schedule.at_rest:
            return None
        paused = before is not None and before.paused and not before.removed
        return replace(schedule.following(before, store.clock.wall()), paused=paused)

    return change


def removed(before: Schedule | None) -> Schedule | None:
    """Remove a schedule, as a change."""
    return None if before is None or before.removed else replace(before, removed=True, paused=False)


def _declared_by(name: str, note: bytes) -> str | None:
    """Return the module that declared a schedule, None if none did, or if it is `__main__`, as in many programs."""
    schedule = _readable(name, note)
    return None if schedule is None or schedule.removed or schedule.declared == _MAIN else schedule.declared
