"""One job, by its id or its key: look at it, cancel, edit, retry, delete; and all that a filter means."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, Final

from msgspec import UNSET, structs
from starlette.responses import Response

from ..._errors import BadJob
from ...client.jobs import FilterWords, filter_of
from ...jobs import new_job
from ...jobs.checks import FURTHEST
from ...jobs.commands import Cancel, Change, Command, Delete, Ref, Retry, called
from ...jobs.durations import delay_ms
from ...jobs.job import Job, State
from ...jobs.queries import GetHistories
from ..access import demand_all
from ..problems import Problem, checked
from ..visible import job_id, job_of, page
from . import records, schema
from .call import Call, JsonResponse
from .put import refusal

__all__ = ["cancel", "change_many", "delete", "edit", "find", "get", "history", "reference", "result", "retry"]

_TAG: Final = re.compile(rb'"[a-z]+-([0-9a-f]{1,16})-([0-9a-f]{1,16})"')


async def get(call: Call) -> Response:
    """Return a job."""
    job = await _job(call, reference(call))
    tag = records.etag(job)
    if _lists(call.sent.get(b"if-none-match"), tag.encode()):
        return Response(status_code=304, headers={"etag": tag})
    return JsonResponse(records.job_out(job), headers={"etag": tag, "cache-control": "no-store"})


async def history(call: Call) -> Response:
    """Return what was tried with a job."""
    job = await _job(call, reference(call))
    [attempts] = await call.ask(GetHistories([job.id]))
    return JsonResponse(schema.History([records.attempt_out(attempt) for attempt in attempts]))


async def result(call: Call) -> Response:
    """Return what has become of a job, once it has ended or the time is over."""
    job, queue = await _job(call, reference(call)), call.queue
    seconds = min(call.parameters.wait, call.context.limits.wait)
    if job.state.live and seconds > 0:
        with call.context.waits.place(call.grant.id), call.ends() as ends:
            ended = asyncio.ensure_future(queue.aio.wait(job))
            await asyncio.wait((ended, *ends), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not ended.cancel():
                ended.exception()  # it is looked at anew, and a job that was deleted is not there then
    so_far = await call.context.read(queue.result, job)
    return JsonResponse(records.result_out(so_far), 200 if so_far.ended else 202)


async def cancel(call: Call) -> Response:
    """Cancel a delayed job."""
    ref = reference(call)
    return await _change(call, ref, Cancel(ref, _expected(call)), State.DELAYED.value)


async def edit(call: Call) -> Response:
    """Give a delayed job another due time, body or fields."""
    ref, calls = reference(call), call.queue.calls
    options: Any = {name: value for name, value in structs.asdict(call.wish).items() if value is not UNSET}
    body, coded = options.pop("body", b""), options.pop("body_base64", None)
    if body or coded is not None:
        options["body"] = records.body_of(body, coded, call.context.limits.depth, "#")
    try:
        command = new_job.edit(calls.max_body, ref, **options)
    except BadJob as error:
        raise refusal(error, "#", too_large=len(options.get("body", b"")) > calls.max_body) from None
    command.expect = _expected(call)
    return await _change(call, ref, command, State.DELAYED.value)


async def retry(call: Call) -> Response:
    """Make a finished job delayed again."""
    ref = reference(call)
    delay = 0 if call.wish is None else checked("delay", delay_ms, call.wish.delay)
    return await _change(call, ref, Retry(ref, delay=delay), "done, dead or cancelled")


async def delete(call: Call) -> Response:
    """Forget a job."""
    ref = reference(call)
    return await _change(call, ref, Delete(ref), "not running")


# ---- which job ------------------------------------------------------------------------------------------------------


def reference(call: Call) -> Ref:
    """Return what the request calls the job by: the id in its path, or else a topic and a key."""
    if "id" not in call.path_params:
        call.demand(call.parameters.topic)
        return call.parameters.topic, call.parameters.key
    return job_id(call.path_params["id"])


async def _job(call: Call, ref: Ref) -> Job:
    return await call.context.read(job_of, call.queue.store, ref, call.grant, call.operation.scope or "")


async def _change(call: Call, ref: Ref, command: Command[Any], wanted: str) -> Response:
    """Change a job, if the token's topics allow it: without a query where they are all topics. Problem: it is not so.

    `wanted` is what it must be.
    """
    if not call.grant.everywhere and isinstance(ref, int):
        await _job(call, ref)
    change = await call.queue.calls.aapply(command)
    if change:
        return Response(status_code=204)
    if change is Change.NOT_FOUND:
        raise Problem("no-such-job", f"there is no job {called(ref)}")
    if change is Change.CHANGED:
        raise Problem("changed", f"job {called(ref)} has changed since: get it again, and decide anew")
    text = f"job {called(ref)} is {change}, not {wanted}: look at it"
    raise Problem("wrong-state", text, more={"state": change.value})


# ---- preconditions --------------------------------------------------------------------------------------------------


def _lists(header: bytes | None, tag: bytes) -> bool:
    """Whether an If-None-Match names a tag."""
    if header is None:
        return False
    return header.strip() == b"*" or tag in (part.strip().removeprefix(b"W/") for part in header.split(b","))


def _expected(call: Call) -> tuple[int, int] | None:
    """Return what a job must be like by If-Match. Raises the Problem of a tag that no job can have."""
    given = call.sent.get(b"if-match", b"*").strip()
    if given == b"*":
        return None
    found = _TAG.fullmatch(given)
    due, claims = (int(found[1], 16), int(found[2], 16)) if found is not None else (FURTHEST, FURTHEST)
    if max(due, claims) >= FURTHEST:
        raise Problem("changed", "this If-Match is no ETag of a job: give the one that came with it, just one")
    return due, claims


# ---- many jobs ------------------------------------------------------------------------------------------------------


async def find(call: Call) -> Response:
    """Return jobs that a filter means."""
    wish: schema.Find = call.parameters
    call.demand(wish.topic)
    after, preview = records.after_cursor(wish.cursor), None if wish.body else 0
    try:
        wanted = filter_of(wish.topic, wish.state, _words(wish))
    except BadJob as error:
        raise Problem("bad-parameter", str(error)) from None
    try:
        store, sees = call.queue.store, call.grant.sees
        found = await call.context.read(page, store, wanted, after, wish.limit, sees, preview=preview)
    except BadJob:
        raise records.no_cursor() from None
    following = None if found.next is None else records.cursor(found.next)
    shown = await records.jobs_out(found.jobs, partial(records.job_out, body=wish.body))
    return JsonResponse(schema.Found(shown, following, found.looked))


async def change_many(call: Call, word: str) -> Response:
    """Change the jobs that a filter means by a method of `Jobs`, which says which states it is for."""
    wish: schema.Bulk = call.wish
    if wish.topic is not None:
        call.demand(wish.topic)
    else:
        demand_all(call.grant, call.operation.scope or "", "name one of its topics")
    words = _words(wish) | ({} if wish.state is None else {"state": wish.state})
    if isinstance(wish, schema.BulkRetry):
        words["delay"] = checked("delay", delay_ms, wish.delay) / 1000
    change = partial(getattr(call.queue.jobs, word), wish.topic, **words, dry_run=wish.dry_run)
    return JsonResponse(schema.BulkAnswer(await call.context.long(change), wish.dry_run))


def _words(wish: schema.Filter) -> Any:
    """Return what a filter says beside topic and state, in the words of the client."""
    return {word: getattr(wish, word) for word in FilterWords.__annotations__}
