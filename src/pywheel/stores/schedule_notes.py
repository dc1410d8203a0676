"""Schedules as a store keeps them: a note each, one that says that something has changed, one how far is planned.

One at a time changes schedules, under a lock; and by exchange: whoever finds that somebody has changed the same one all
the same, as a lock ends with time, does what he wanted again, on top of that. Whatever has changed wakes the planner,
whose job is always in the store while there is anything to plan.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from .._errors import BadBody, JobExists
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Cancel, Command, Delete, Put, Reschedule, SetNote
from ..jobs.job import Job, NewJob, State
from ..jobs.queries import GetJob, GetNote, ListNotes
from ..jobs.schedule import Schedule
from .contract import Store, intact
from .note_lock import locked
from .schedule_changes import Changes

__all__ = ["AHEAD", "BLOCK", "LONGEST", "PLAN", "TOPIC", "Planned", "ScheduleNotes", "plan_job", "sealed_key"]

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

Change = Callable[[Schedule | None], Schedule | None]


class Planned(NamedTuple):
    """How far is planned."""

    until: int | None = None  # all ticks up to this time are put; None: nothing is known
    seen: int = 0  # when that was, ms
    token: str = ""  # the last change of which the planner knew
    last: int = 0  # the planner's job then


@dataclass(slots=True)
class _Written:
    """What is about to be kept of a schedule."""

    schedule: Schedule | None
    note: bytes | None
    commands: list[Command[Any]]


class ScheduleNotes:
    """Reads and changes the schedules of a store. Any thread may call any method; StoreError from all of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ---- looking ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> Schedule | None:
        """Return a schedule, or None. BadBody if what is kept cannot be read."""
        found = _read(name, self._store.ask(GetNote(_NOTE + name)))
        return None if found is None or found.removed else found

    def page(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> list[Schedule]:
        """Return up to `limit` schedules, all or those that are wanted, whose names come after this one, by name."""
        found: list[Schedule] = []
        most = limit if wanted is None else max(limit, _PAGE)
        while len(found) < limit:
            notes = self._store.ask(ListNotes(_NOTE, _NOTE + after, most))
            sound = [schedule for schedule in map(_sound, notes) if schedule is not None and not schedule.removed]
            found += sound if wanted is None else filter(wanted, sound)
            if len(notes) < most:
                break
            after = notes[-1][0].removeprefix(_NOTE)
        return found[:limit]

    def raw(self) -> Iterator[tuple[str, bytes]]:
        """Give the name and the note of all of them."""
        after = _NOTE
        while notes := self._store.ask(ListNotes(_NOTE, after, _PAGE)):
            for name, note in notes:
                yield name.removeprefix(_NOTE), note
            after = notes[-1][0]
            if len(notes) < _PAGE:
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

    def change(self, name: str, change: Change) -> Schedule | None:
        """Have a function say what becomes of a schedule; return what did. It returns None to leave it as it is.

        It is asked twice at least if there is anything to do: the lock is for those alone who have.
        """
        note = self._store.ask(GetNote(_NOTE + name))
        wanted = self._written(name, note, change)
        if wanted is not None:
            with locked(self._store, _LOCK):
                note = self._store.ask(GetNote(_NOTE + name))
                wanted = self._written(name, note, change)
                if wanted is not None:
                    return self._settled(name, change, wanted, note, self._apply({name: wanted})[0])
        self.begin()  # whoever wrote it may have come no further
        return _read_or_none(name, note)

    def _settled(
        self, name: str, change: Change, wanted: _Written, before: bytes | None, found: bytes | None
    ) -> Schedule | None:
        """Return what has become of a schedule: that was written where `before` had been read, and `found` was."""
        while found != before:
            # Somebody else came first, and what he did is gone: do it again, and this on top of it.
            before = wanted.note
            wanted = self._written(name, found, change) or _as_it_was(name, found)
            found = self._apply({name: wanted})[0]
        return wanted.schedule

    def change_many(self, changes: Mapping[str, Change]) -> None:
        """`change` for many, in few transactions."""
        if not self._wanted(changes):
            return
        with locked(self._store, _LOCK) as renew:
            todo = self._wanted(changes)
            for at in range(0, len(todo), _TOGETHER):
                batch = todo[at : at + _TOGETHER]
                founds = self._apply({name: written for name, written, _ in batch})
                for (name, written, note), found in zip(batch, founds, strict=True):
                    self._settled(name, changes[name], written, note, found)
                renew()

    def _wanted(self, changes: Mapping[str, Change]) -> list[tuple[str, _Written, bytes | None]]:
        """Return what is to be written, where something is, by name, and what is there."""
        if len(changes) <= _FEW:
            notes = {name: self._store.ask(GetNote(_NOTE + name)) for name in changes}
        else:
            notes = {name: note for name, note in self.raw() if name in changes}
        found: list[tuple[str, _Written, bytes | None]] = []
        for name, change in changes.items():
            written = self._written(name, notes.get(name), change)
            if written is not None:
                found.append((name, written, notes.get(name)))
        return found

    def _written(self, name: str, note: bytes | None, change: Change) -> _Written | None:
        before = _read_or_none(name, note)
        after = change(None if before is None else self._plain(before))
        if after is None:
            return None
        written = _Written(after, self._sealed(after).kept(), [])
        written.commands = [_keep(name, written), *self._cancelled(before, after)]
        return written

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

    def _cancelled(self, before: Schedule | None, after: Schedule) -> list[Cancel]:
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

    def _apply(self, batch: Mapping[str, _Written]) -> list[bytes | None]:
        """Write, and wake the planner; return what was there before."""
        commands = [command for written in batch.values() for command in written.commands]
        before = self._last_changes()
        keep, move = SetNote(_CHANGED, Changes.read(before).and_then(batch)), Reschedule(PLAN, delay=0)
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
            self._store.apply([Reschedule(PLAN, delay=0)])

    def _begin(self) -> None:
        [outcome] = intact(self._store.apply([Put((plan_job(delay=0),))]))
        if isinstance(outcome, BaseException) and not isinstance(outcome, JobExists):
            raise outcome

    # ---- for the planner --------------------------------------------------------------------------------------------

    def go_on(self, successor: NewJob, planned: Planned, token: str, before: int) -> None:
        """Put the planner's next job, if it is still the planner's to do, and write how far is planned.

        It comes at once if anything has changed since `token` was read. The job `before` is forgotten.
        """
        commands: list[Command[Any]] = [
            Put((successor,)),
            SetNote(_CHANGED, b"-", absent=True),
            SetNote(_PLANNED, json.dumps(planned).encode()),
        ]
        outcomes = intact(self._store.apply([*commands, Delete(before)] if before else commands))
        if not isinstance(outcomes[0], JobExists) and Changes.read(outcomes[1]).token != token:
            self._store.apply([Reschedule(PLAN, delay=0)])

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


def _keep(name: str, written: _Written) -> SetNote:
    removed = written.schedule is not None and written.schedule.removed
    return SetNote(_NOTE + name, written.note, ttl=_REMOVED if removed else None)


def _as_it_was(name: str, note: bytes | None) -> _Written:
    written = _Written(_read_or_none(name, note), note, [])
    written.commands = [_keep(name, written)]
    return written


def _read(name: str, note: bytes | None) -> Schedule | None:
    return None if note is None else Schedule.from_note(name, note)


def _read_or_none(name: str, note: bytes | None) -> Schedule | None:
    """Return what a note says; what cannot be read may be replaced."""
    try:
        return _read(name, note)
    except BadBody:
        return None


def _sound(pair: tuple[str, bytes]) -> Schedule | None:
    try:
        return Schedule.from_note(pair[0].removeprefix(_NOTE), pair[1])
    except BadBody as error:
        _LOGGER.warning("%s", error)
        return None
