"""Periodic jobs: which schedules there are, and where they are; run one now, pause and resume it."""

from __future__ import annotations

from starlette.responses import Response

from ..._errors import NoSuchSchedule
from ...client.schedules import Scheduled
from ...jobs.schedule import Schedule
from ..problems import Problem
from . import schema
from .call import Call, JsonResponse
from .records import moment_out

__all__ = ["pause", "resume", "run", "schedules"]


async def schedules(call: Call) -> Response:
    """Return a part of the schedules whose topics the token may see."""
    query, queue = call.parameters, call.context.queue

    def seen(schedule: Schedule) -> bool:
        return bool(call.grant.may("read", schedule.topic))

    found = await call.context.read(queue.schedules.page, query.after or "", query.limit, seen)
    following = found[-1].schedule.name if len(found) == query.limit else None
    return JsonResponse(schema.Schedules([_out(one) for one in found], following))


async def run(call: Call) -> Response:
    """Put a tick now."""
    name = await _named(call)
    return JsonResponse(schema.PutAnswer(str(await call.context.queue.aio.schedules.run(name))), 201)


async def pause(call: Call) -> Response:
    """Let a schedule put nothing."""
    return JsonResponse(schema.Changed(await call.context.queue.aio.schedules.pause(await _named(call))))


async def resume(call: Call) -> Response:
    """Let a schedule go on."""
    return JsonResponse(schema.Changed(await call.context.queue.aio.schedules.resume(await _named(call))))


async def _named(call: Call) -> str:
    """Return the name in the path. Raises the Problem of a schedule that is not there, or that the token leaves out."""
    name: str = call.path_params["name"]
    try:
        found = await call.context.queue.aio.schedules.get(name)
    except (NoSuchSchedule, ValueError):
        found = None
    if found is None or not call.grant.may(call.operation.scope or "", found.schedule.topic):
        raise Problem("no-such-schedule", f"there is no schedule {name[:80]!r} that this token may do that to")
    return name


def _out(one: Scheduled) -> schema.ScheduleOut:
    schedule = one.schedule
    return schema.ScheduleOut(
        name=schedule.name,
        topic=schedule.topic,
        every=None if schedule.every is None else schedule.every / 1000,
        cron=schedule.cron,
        tz=schedule.tz if schedule.cron is not None else None,
        catch_up=schedule.catch_up,
        overlap=schedule.overlap,
        paused=schedule.paused,
        next=None if one.next is None else moment_out(one.next),
        last=None if one.last is None else moment_out(one.last),
        outcome=one.outcome,
        job=None if one.job is None else str(one.job.id),
    )
