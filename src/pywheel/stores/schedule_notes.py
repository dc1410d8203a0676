"""Schedules as a store keeps them: a note each, one that says what has changed, one how far is planned.

One at a time changes schedules, under a lock; and by exchange: whoever finds that somebody has changed the same one all
the same, as a lock ends with time, does what he wanted again, on top of that. Whatever has changed wakes the planner,
whose job is always in the store while there is anything to plan.
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
from .contract import Store, intact, outcome_of, pauses

__all__ = [
    "AHEAD",
    "BLOCK",
    "LONGEST",
    "PLAN",
    "TOPIC",
    "Changes",
    "Declared",
    "Planned",
    "ScheduleNotes",
    "as_said",
    "plan_job",
    "removed",
]

TOPIC: Final = "pywheel.schedules"
"""Of the planner's job."""
PLAN: Final = (TOPIC, "plan")
"""What names the planner's job."""
AHEAD: Final = 150_000
"""ms for which ticks are put ahead of their time."""
BLOCK: Final = 60_000
"""ms: the ticks of a schedule in each stretch of so many are put together, once."""
LONGEST: Final = 3_600_000
"""ms for which the planner sleeps, at most."""

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_NOTE: Final = "schedule:"
_CHANGED: Final = "schedules:changed"
_LOCK: Final = "lock:schedules"
_PLANNED: Final = "schedules:planned"
_REMOVED: Final = 3_600_000  # ms for which it is known that there was one, and its version
_PAGE: Final = 1_000
_TOGETHER: Final = 200  # notes that are written in one transaction
_FEW: Final = 20  # that are read one by one
_ATTEMPTS: Final = 1_000_000  # of the planner's job: it is never to be dead
_HELD: Final = 5_000  # ms after which the lock ends by itself
_PATIENCE: Final = 30.0  # seconds
_LOTS: Final = 100  # of names that are kept of changes
_NAMES: Final = 50  # that one lot has at most: beyond, all are to be read
_BYTES: Final = 16_000
_NO_CHANGES: Final = b'[""]'
_MAIN: Final = "__main__"

ScheduleEdit = Callable[[Schedule | None], Schedule | None]


class Planned(NamedTuple):
    """How far is planned."""

    until: int | None = None  # all ticks up to this time are put; None: nothing is known
    seen: int = 0  # when that was, ms
    token: str = ""  # the last change of which the planner knew
    last: int = 0  # the planner's job then


class Changes(NamedTuple):
    """What has changed of schedules: a token, another one after every change, and the names of the last ones that did.

    So whoever knows all schedules as of one token need not read them all for the next. Who has written over a change
    that he had not seen leaves a token without a past.
    """

    token: str = ""
    lots: tuple[tuple[str, tuple[str, ...]], ...] = ()  # token before, and what has changed then; newest first

    @classmethod
    def read(cls, note: bytes | None) -> Changes:
        """Return what a note says."""
        try:
            token, *lots = json.loads(note or _NO_CHANGES)
            return cls(str(token), tuple((str(before), tuple(map(str, names))) for before, names in lots))
        except (ValueError, TypeError):  # nobody knows such a token: all is read
            return cls(repr(note))

    def since(self, token: str) -> set[str] | None:
        """Return the names of what has changed since a token, or None if that is not known."""
        names: set[str] = set()
        at = self.token
        for before, changed in self.lots:
            if at == token:
                break
            names.update(changed)
            at = before
        return names if at == token else None

    def and_then(self, names: Collection[str]) -> bytes:
        """Return the note that says that these have changed, after all that."""
        if len(names) > _NAMES:
            return self.without_past()
        lots: list[Any] = [token_hex(8), (self.token, sorted(names)), *self.lots[: _LOTS - 1]]
        while len(note := json.dumps(lots).encode()) > _BYTES:
            lots = lots[: len(lots) // 2]
        return note

    @staticmethod
    def without_past() -> bytes:
        """Return the note that says that anything may have changed."""
        return json.dumps([token_hex(8)]).encode()


@dataclass(slots=True)
class _Written:
    """What is to be kept of a schedule."""

    name: str
    schedule: Schedule | None
    before: bytes | None  # what its note is expected to be until then
    note: bytes | None
    commands: list[Command[Any]]  # none if it stays as it is

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
        """Return a schedule, or None. BadBody if what is kept cannot be read."""
        note = self.raw_one(name)
        found = None if note is None else Schedule.from_note(name, note)
        return None if found is None or found.removed else found

    def page(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> list[Schedule]:
        """Return up to `limit` schedules, all or those that are wanted, whose names come after this one, by name."""
        found = (_readable(name, note) for name, note in self.raw(after, _PAGE if wanted else limit))
        there = (one for one in found if one is not None and not one.removed and (wanted is None or wanted(one)))
        return list(islice(there, limit))

    def raw(self, after: str = "", some: int = _PAGE) -> Iterator[tuple[str, bytes]]:
        """Give the name and the note of all whose names come after this one, reading some at a time."""
        while notes := self._store.ask(ListNotes(_NOTE, _NOTE + after, some)):
            for name, note in notes:
                after = name.removeprefix(_NOTE)
                yield after, note
            if len(notes) < some:
                return

    def none(self) -> bool:
        """Return whether there is no schedule at all, nor one that was removed."""
        return not self._store.ask(ListNotes(_NOTE, "", 1))

    def changes(self) -> Changes:
        """Return what has changed last."""
        return Changes.read(self._last_changes())

    def _last_changes(self) -> bytes | None:
        return self._store.ask(GetNote(_CHANGED))

    def raw_one(self, name: str) -> bytes | None:
        """Return the note of one of them, or None."""
        return self._store.ask(GetNote(_NOTE + name))

    def planned(self) -> Planned:
        """Return how far is planned."""
        note = self._store.ask(GetNote(_PLANNED))
        try:
            return Planned(*json.loads(note)) if note else Planned()
        except (ValueError, TypeError):  # planned anew: each tick happens once all the same
            return Planned()

    # ---- changing ---------------------------------------------------------------------------------------------------

    def change(self, name: str, change: ScheduleEdit) -> Schedule | None:
        """Have a function say what becomes of a schedule; return what did. It returns None to leave it as it is.

        It is asked twice at least if there is anything to do: the lock is for those alone who have.
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
            self.begin()  # whoever wrote it may have come no further
        return {written.name: written.schedule for written in found}

    @contextmanager
    def _locked(self) -> Iterator[Callable[[], None]]:
        """Hold the lock of all schedules; give what holds it for longer. Two transactions, one more for each try.

        It ends by itself, so that nobody waits for one who died: who stood still for longer may not be alone.

        Raises:
            StoreBusy: others held it for half a minute.
        """
        token, give_up = token_hex(8).encode(), time.monotonic() + _PATIENCE
        for pause in pauses():
            held_since = time.monotonic()
            if outcome_of(self._store, SetNote(_LOCK, token, ttl=_HELD, absent=True)) in (None, token):
                break
            if held_since > give_up:
                raise StoreBusy(f"others have held {_LOCK} for {_PATIENCE:.0f} s: try again")
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
            if time.monotonic() - held_since < _HELD / 1000:  # else it may be another one's by now
                with suppress(StoreError):
                    outcome_of(self._store, SetNote(_LOCK, None))

    def _wanted(self, changes: Mapping[str, ScheduleEdit]) -> list[_Written]:
        """Return what is to be kept of each."""
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
        """Do it again as long as somebody else came first, on top of what he did, which is gone: `found` was there."""
        while found != written.before:
            again = self._written(written.name, found, change)
            written.schedule, written.before, written.note = again.schedule, written.note, again.note
            written.commands = again.commands or [written.keep]
            [found] = self._apply([written])

    def _plain(self, schedule: Schedule) -> Schedule:
        try:
            return replace(schedule, body=self.opened(schedule))
        except BadBody:  # it can be paused and removed all the same
            return schedule

    def _sealed(self, schedule: Schedule) -> Schedule:
        if not schedule.body or is_encrypted(schedule.body):
            return schedule
        job = NewJob(schedule.topic, schedule.body, 0, sealed_key(schedule.name))
        return replace(schedule, body=self._store.sealed(job).body)

    def _cancelled(self, before: Schedule | None, after: Schedule) -> list[Command[Any]]:
        """Return the commands that cancel what was put ahead for what a schedule was.

        What came before a change stays, also if its lot is yet to come. What is paused or removed leaves nothing.
        """
        if before is None or not before.active:
            return []
        now = self._store.clock.wall()
        since = min(now, after.since) if after.active else now - before.jitter - 1
        try:
            ticks = list(before.ticks(since, now + AHEAD))
        except ValueError:  # it cannot be computed here, nor was it: what is left refuses to run
            return []
        return [Cancel((before.topic, before.key(tick))) for tick in ticks if after.active or before.due(tick) >= now]

    def _apply(self, batch: Sequence[_Written]) -> list[bytes | None]:
        """Write, and wake the planner; return what was there before."""
        commands = [command for written in batch for command in written.commands]
        before, names = self._last_changes(), [written.name for written in batch]
        keep, move = SetNote(_CHANGED, Changes.read(before).and_then(names)), Edit(PLAN, delay=0)
        outcomes = intact(self._store.apply([*commands, keep, move]))
        if outcomes[-2] != before:  # somebody else has changed something meanwhile, and his names are gone
            self._store.apply([SetNote(_CHANGED, Changes.without_past()), move])
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        if not outcomes[-1]:
            self._begin()
        return [found for command, found in zip(commands, outcomes, strict=False) if isinstance(command, SetNote)]

    def begin(self) -> None:
        """See to it that the planner's job is there, if there is anything to plan, and comes within its time."""
        job = self._store.ask(GetJob(PLAN))
        if job is None or not job.state.live:
            if not self.none():
                self._begin()
        elif job.due > self._store.clock.wall() + LONGEST:  # by a clock that was wrong, and is not any more
            self._store.apply([Edit(PLAN, delay=0)])

    def _begin(self) -> None:
        with suppress(JobExists):
            outcome_of(self._store, Put((plan_job(delay=0),)))

    # ---- for the planner --------------------------------------------------------------------------------------------

    def go_on(self, successor: NewJob, planned: Planned, token: str, before: int) -> None:
        """Put the planner's next job, if it is still the planner's to do, and write how far is planned.

        It comes at once if anything has changed since `token` was read. The job `before` is forgotten.
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
    """Return a job of the planner; there is one that lives."""
    return NewJob(TOPIC, b"", due, PLAN[1], max_attempts=_ATTEMPTS, delay=delay, parent=parent)


def sealed_key(name: str) -> str:
    """Return the key that an encrypted body of a schedule is bound to."""
    return _NOTE + name


def _readable(name: str, note: bytes | None) -> Schedule | None:
    """Return what a note says; what cannot be read may be replaced."""
    try:
        return None if note is None else Schedule.from_note(name, note)
    except BadBody as error:
        _LOGGER.warning("%s", error)
        return None


# ---- what code declares ---------------------------------------------------------------------------------------------


class Declared:
    """What a queue's code declares. The worker that starts last wins: what it says is what holds."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._functions: dict[str, object] = {}
        self._told: Store | None = None

    def __len__(self) -> int:
        return len(self._schedules)

    def add(self, schedule: Schedule, function: object) -> None:
        """Declare the schedule of a function. BadJob if there is one of this name, of another function."""
        if schedule.name in self._schedules and not redefined(self._functions[schedule.name], function):
            raise BadOption(f"there is a schedule {schedule.name!r} already: give this one another name=")
        self._schedules[schedule.name], self._functions[schedule.name] = schedule, function
        self._told = None

    def discard(self, name: str) -> None:
        """Take back what was declared."""
        self._schedules.pop(name, None)

    def tell(self, store: Store, modules: Collection[str], *, again: bool = False) -> None:
        """Have a store hear of them, and forget those that `modules`, which the program consists of, declared before.

        Nothing is read if that was done, unless `again`. StoreError: it is to be called again.
        """
        if self._told is store and not again:
            return
        notes = ScheduleNotes(store)
        notes.change_many({name: as_said(schedule, store) for name, schedule in self._schedules.items()})
        for name, note in list(notes.raw()):
            if name not in self._schedules and _declared_by(name, note) in modules:
                notes.change(name, removed)
        self._told = store


def as_said(schedule: Schedule, store: Store) -> ScheduleEdit:
    """Return the change that makes a schedule be as somebody says; one that is paused stays so."""

    def change(before: Schedule | None) -> Schedule | None:
        if before is not None and not before.removed and before.does_what(schedule):
            return None
        paused = before is not None and before.paused and not before.removed
        return replace(schedule.following(before, store.clock.wall()), paused=paused)

    return change


def removed(before: Schedule | None) -> Schedule | None:
    """Remove a schedule, as a change."""
    return None if before is None or before.removed else replace(before, removed=True, paused=False)


def _declared_by(name: str, note: bytes) -> str | None:
    """Return the module that declared a schedule that is there, None if none did, or it cannot be told from others."""
    schedule = _readable(name, note)
    return None if schedule is None or schedule.removed or schedule.declared == _MAIN else schedule.declared
