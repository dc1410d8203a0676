"""Schedules on the page: the list with next and last ticks, the form, run, pause, resume and remove."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from starlette.responses import Response

from ..._errors import BadBody, BadJob, BadOption, NoSuchSchedule
from ...jobs.schedule import Schedule
from ...stores.schedule_notes import ScheduleNotes
from ..problems import Problem
from .answers import Ask
from .filters import ROOM, fields, number_of, typed_in
from .words import typed

_PAGE: Final = 200


class Wish(NamedTuple):
    """The fields of the form, as text."""

    name: str = ""
    topic: str = ""
    body: str = ""
    every: str = ""
    cron: str = ""
    tz: str = ""
    catch_up: str = ""
    overlap: str = ""
    jitter: str = ""
    ttr: str = ""
    max_attempts: str = ""
    edit: str = ""  # not empty if the schedule exists

    @classmethod
    def like(cls, schedule: Schedule, body: str) -> Wish:
        """Return the values of a schedule."""
        every, jitter, ttr = _span(schedule.every), _span(schedule.jitter), _span(schedule.ttr)
        cron, tz = (schedule.cron, schedule.tz) if schedule.cron else ("", "")
        tick, attempts = (schedule.catch_up, schedule.overlap), str(schedule.max_attempts or "")
        return cls(schedule.name, schedule.topic, body, every, cron, tz, *tick, jitter, ttr, attempts, "1")

    def options(self, source: Schedule | None) -> dict[str, Any]:
        """Return the arguments of `Schedules.set`. Values without a field here stay as they were."""
        return {
            **{field: getattr(self, field) or None for field in ("every", "cron", "tz", "overlap", "ttr")},
            "catch_up": self.catch_up or "none",
            "jitter": self.jitter or 0,
            "max_attempts": number_of(self.max_attempts) or None,
            "headers": source.headers if source else None,
            "priority": source.priority if source else 0,
        }


async def show(ask: Ask) -> Response:
    """Show a part of the schedules whose topics the visitor may see, by name."""
    after = ask.query.get("after", "")
    found = await ask.context.read(
        ask.context.queue.schedules.page, after, _PAGE, lambda schedule: ask.visitor.may("read", schedule.topic)
    )
    following = found[-1].schedule.name if len(found) == _PAGE else None
    return ask.page("schedules.html", schedules=found, after=after, following=following, now=ask.now)


async def act(ask: Ask) -> Response:
    """Run, pause, resume or remove a schedule."""
    given, schedules = await fields(ask.request), ask.context.queue.aio.schedules
    name, action = given.get("name", ""), given.get("action", "")
    if action not in ("run", "pause", "resume", "remove"):
        raise Problem("bad-request", "a schedule can be run, paused, resumed and removed")
    ask.allow("put")
    schedule = await _named(ask, name)
    if schedule is None:
        raise _not_there(name)
    ask.does(action, f"schedule {name}", schedule.topic)
    match action:
        case "run":
            said = f"{name} runs now: job {await schedules.run(name)}"
        case "pause":
            said = f"{name} is paused" if await schedules.pause(name) else f"{name} was paused already"
        case "resume":
            said = f"{name} goes on" if await schedules.resume(name) else f"{name} was not paused"
        case "remove":
            said = f"{name} is removed" if await schedules.delete(name) else f"{name} was removed already"
    return ask.back("/schedules", said)


async def form(ask: Ask) -> Response:
    """Show the form of a new or an existing schedule."""
    ask.allow("put")
    wish = typed_in(Wish, ask.query)
    source, body = await _there(ask, wish.name)
    if source is None and wish.name:
        raise _not_there(wish.name)
    return _page(ask, wish if source is None else Wish.like(source, body or ""), shown=body is not None)


async def save(ask: Ask) -> Response:
    """Save the schedule, or show the form again with its values and the error."""
    calls = ask.context.queue.calls
    wish = typed_in(Wish, await fields(ask.request, 3 * calls.max_body + ROOM))
    ask.allow("put", wish.topic)
    source, body = await _there(ask, wish.name)
    if source is not None and not wish.edit:
        return _page(ask, wish, "there is a schedule of this name: change that, or give another name", 409)
    if body is None:
        return _page(ask, wish, "its body cannot be typed, so it can be changed by a program alone", 409, shown=False)
    try:
        await ask.context.queue.aio.schedules.set(wish.name, wish.topic, wish.body.encode(), **wish.options(source))
    except (BadJob, BadOption) as error:
        return _page(ask, wish, str(error), 400)
    ask.does("set", f"schedule {wish.name}", wish.topic)
    return ask.back("/schedules", f"{wish.name} is {'changed' if source else 'made'}")


async def _named(ask: Ask, name: str) -> Schedule | None:
    """Return a schedule by name. NoSuchSchedule: it is hidden from the visitor, who is not told that it is there."""
    try:
        schedule = (await ask.context.queue.aio.schedules.get(name)).schedule
    except (NoSuchSchedule, BadJob, BadOption):
        return None
    if not ask.visitor.may("put", schedule.topic):
        raise _not_there(name)
    return schedule


def _not_there(name: str) -> NoSuchSchedule:
    return NoSuchSchedule(f"there is no schedule {name[:80]!r}")


async def _there(ask: Ask, name: str) -> tuple[Schedule | None, str | None]:
    """Return a schedule by name, and its body as editable text. NoSuchSchedule: as for `_named`."""
    schedule = await _named(ask, name)
    if schedule is None:
        return None, ""
    try:
        return schedule, typed(await ask.context.read(ScheduleNotes(ask.store).opened, schedule))
    except BadBody:  # the key of its body is not here
        return schedule, None


def _page(ask: Ask, wish: Wish, trouble: str = "", status: int = 200, *, shown: bool = True) -> Response:
    return ask.page("schedule.html", status, wish=wish, trouble=trouble, shown=shown)


def _span(milliseconds: int | None) -> str:
    if not milliseconds:
        return ""
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"
