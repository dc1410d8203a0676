"""Periodic jobs: list and read schedules; set, remove, run, pause and resume one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from starlette.responses import Response

from ..._errors import BadJob, BadOption, ExtraMissing, NoSuchSchedule
from ...client.schedules import Scheduled, ScheduleOptions
from ...jobs.schedule import Schedule
from ..problems import Problem
from . import schema
from .call import Call, JsonResponse
from .once import stored
from .records import after_cursor, body_of, cursor, moment_out, no_cursor

_OPTIONS: Final = tuple(ScheduleOptions.__annotations__)


async def schedules(call: Call) -> Response:
    """Return a part of the schedules whose topics the token may see."""
    query, queue = call.parameters, call.queue

    def seen(schedule: Schedule) -> bool:
        return bool(call.grant.may("read", schedule.topic))

    try:
        found = await call.context.read(queue.schedules.page, after_cursor(query.cursor), query.limit, seen)
    except BadJob:
        raise no_cursor() from None
    following = cursor(found[-1].schedule.name) if len(found) == query.limit else None
    return JsonResponse(schema.Schedules([_out(one) for one in found], following))


async def get(call: Call) -> Response:
    """Return a schedule."""
    return JsonResponse(_out(await _named(call)))


async def set_(call: Call) -> Response:
    """Make a schedule, or change it."""
    wish: schema.NewSchedule = call.wish
    call.demand(wish.topic)
    name, schedules = call.path_params["name"], call.queue.aio.schedules
    with suppress(NoSuchSchedule, BadOption):
        if not call.grant.may("put", (await schedules.get(name)).schedule.topic):
            raise _not_there(name)
    body = body_of(wish.body, wish.body_base64, call.context.limits.depth, "#")
    try:
        await schedules.set(name, wish.topic, body, **{option: getattr(wish, option) for option in _OPTIONS})
    except ExtraMissing as error:
        raise Problem("not-implemented", str(error)) from None
    return JsonResponse(_out(await schedules.get(name)))


async def delete(call: Call) -> Response:
    """Remove a schedule."""
    name = await _name(call)
    if not await call.queue.aio.schedules.delete(name):
        raise _not_there(name)
    return Response(status_code=204)


async def run(call: Call) -> Response:
    """Put a tick now."""
    tick = await call.context.read(call.queue.schedules.tick, await _name(call))
    [id] = await stored(call, (tick,))
    return JsonResponse(schema.PutAnswer(str(id)), 201)


async def change(call: Call, word: str) -> Response:
    """Pause or resume a schedule."""
    return JsonResponse(schema.Changed(await getattr(call.queue.aio.schedules, word)(await _name(call))))


async def _name(call: Call) -> str:
    return (await _named(call)).schedule.name


async def _named(call: Call) -> Scheduled:
    """Return the schedule in the path. Problem: it does not exist, or the token may not see it."""
    name: str = call.path_params["name"]
    try:
        found = await call.queue.aio.schedules.get(name)
    except (NoSuchSchedule, ValueError):
        found = None
    if found is None or not call.grant.may(call.operation.scope or "", found.schedule.topic):
        raise _not_there(name)
    return found


def _not_there(name: str) -> Problem:
    return Problem("no-such-schedule", f"there is no schedule {name[:80]!r} that this token may do that to")


def _out(one: Scheduled) -> schema.ScheduleOut:
    about = one.about()
    for time in ("next", "last"):
        about[time] = None if about[time] is None else moment_out(about[time])
    return schema.ScheduleOut(**about | {"job": None if one.job is None else str(one.job.id)})
