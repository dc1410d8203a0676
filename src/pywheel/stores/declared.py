"""The schedules that a program's code declares, and how a store hears of them: once, when a worker starts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from .._errors import BadBody, BadJob
from ..jobs.redefined import redefined
from ..jobs.schedule import Schedule
from .contract import Store
from .schedule_notes import Change, ScheduleNotes

__all__ = ["Declared", "as_said", "removed"]

_MAIN: Final = "__main__"


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
            raise BadJob(f"there is a schedule {schedule.name!r} already: give this one another name=")
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
        notes.begin()
        self._told = store


def as_said(schedule: Schedule, store: Store) -> Change:
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
    try:
        schedule = Schedule.from_note(name, note)
    except BadBody:
        return None
    return None if schedule.removed or schedule.declared == _MAIN else schedule.declared
