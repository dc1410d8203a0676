"""Schedules: when each comes next, what became of the last one; run one now, pause and resume it."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from .answers import Ask, back
from .forms import fields

__all__ = ["Schedules"]

_PAGE: Final = 200


class Schedules:
    """The list."""

    async def show(self, ask: Ask) -> Response:
        """Show a part of the schedules whose topics the visitor may see, by name."""
        queue, after = ask.context.queue, ask.request.query_params.get("after", "")
        found = await ask.context.read(
            queue.schedules.page, after, _PAGE, lambda schedule: ask.visitor.may("read", schedule.topic)
        )
        return ask.page(
            "schedules.html",
            schedules=found,
            after=after,
            following=found[-1].schedule.name if len(found) == _PAGE else None,
            now=queue.store.clock.wall(),
        )

    async def act(self, ask: Ask) -> Response:
        """Run, pause or resume one."""
        given, queue = await fields(ask.request), ask.context.queue
        name, action = given.one("name"), given.one("action")
        found = await ask.context.read(queue.schedules.get, name)
        ask.allow("put", found.schedule.topic)
        ask.does(action, f"schedule {name}", found.schedule.topic)
        if action == "run":
            id = await ask.context.read(queue.schedules.run, name)
            said = f"{name} runs now: job {id}"
        elif action == "pause":
            changed = await ask.context.read(queue.schedules.pause, name)
            said = f"{name} is paused" if changed else f"{name} was paused already"
        elif action == "resume":
            changed = await ask.context.read(queue.schedules.resume, name)
            said = f"{name} goes on" if changed else f"{name} was not paused"
        else:
            raise HTTPException(400, "a schedule can be run, paused and resumed")
        return back(ask.request, "/schedules", said)
