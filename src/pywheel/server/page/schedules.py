"""Schedules: when each comes next, what became of the last one; run one now, pause and resume it."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from .answers import Ask, back
from .filters import fields

__all__ = ["act", "show"]

_PAGE: Final = 200


async def show(ask: Ask) -> Response:
    """Show a part of the schedules whose topics the visitor may see, by name."""
    after = ask.query.get("after", "")
    found = await ask.context.read(
        ask.context.queue.schedules.page, after, _PAGE, lambda schedule: ask.visitor.may("read", schedule.topic)
    )
    following = found[-1].schedule.name if len(found) == _PAGE else None
    return ask.page("schedules.html", schedules=found, after=after, following=following, now=ask.now)


async def act(ask: Ask) -> Response:
    """Run, pause or resume one."""
    given, schedules = await fields(ask.request), ask.context.queue.aio.schedules
    name, action = given.one("name"), given.one("action")
    topic = (await schedules.get(name)).schedule.topic
    ask.allow("put", topic)
    ask.does(action, f"schedule {name}", topic)
    match action:
        case "run":
            said = f"{name} runs now: job {await schedules.run(name)}"
        case "pause":
            said = f"{name} is paused" if await schedules.pause(name) else f"{name} was paused already"
        case "resume":
            said = f"{name} goes on" if await schedules.resume(name) else f"{name} was not paused"
        case _:
            raise HTTPException(400, "a schedule can be run, paused and resumed")
    return back(ask.request, "/schedules", said)
