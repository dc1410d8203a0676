"""Jobs: put one or many; read, cancel, edit, retry or delete one, by id or key; find and change those of a filter."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from msgspec import UNSET, structs
from starlette.responses import Response

from ..._errors import BadJob
from ...client.jobs import FilterWords, filter_of
from ...jobs.checks import FURTHEST
from ...jobs.commands import Cancel, Change, Command, Delete, Ref, Retry, called
from ...jobs.durations import delay_ms
from ...jobs.job import Job, NewJob, State
from ...jobs.new_job import TRACEPARENT, new_job
from ...jobs.new_job import edit as edited
from ...jobs.queries import GetHistories
from ..access import demand_all
from ..context import Context
from ..problems import Problem, bad_field, checked
from ..visible import job_id, job_of, page
from . import records, schema
from .call import Call, JsonResponse
from .once import stored

_TAG: Final = re.compile(rb'"[a-z]+-([0-9a-f]{1,16})-([0-9a-f]{1,16})"')
_LONGEST_STATE: Final = 512


# ---- put ------------------------------------------------------------------------------------------------------------


async def put(call: Call) -> Response:
    """Store a job."""
    wish: schema.NewJob = call.wish
    call.demand(wish.topic)
    trace = _trace(call.sent)
    jobs = (_record(call.context, wish, "#", trace),)
    [id] = await stored(call, jobs)
    headers = {"location": f"{call.scope.get('root_path', '')}/v1/jobs/{id}", **_traced(trace)}
    return JsonResponse({"id": str(id)}, 201, headers)


async def put_many(call: Call) -> Response:
    """Store jobs, all or none."""
    wishes: list[schema.NewJob] = call.wish.jobs
    trace = _trace(call.sent)
    if call.grant.everywhere:
        call.demand(wishes[0].topic)
    else:
        for topic in {wish.topic for wish in wishes}:
            call.demand(topic)
    jobs = await _records(call.context, wishes, trace)
    ids = await stored(call, jobs)
    return JsonResponse({"ids": list(map(str, ids))}, 201, _traced(trace))


async def _records(context: Context, wishes: list[schema.NewJob], trace: dict[str, str] | None) -> tuple[NewJob, ...]:
    """Return the records of jobs. Other requests get their turns in between."""
    turns = records.Turns()
    made = []
    for place, wish in enumerate(wishes):
        made.append(_record(context, wish, place, trace))
        await turns.after(made[-1].body)
    return tuple(made)


def _record(context: Context, wish: schema.NewJob, place: str | int, trace: dict[str, str] | None) -> NewJob:
    """Return the record of a job. Problem: the job is invalid; the problem has its place."""
    pointer = place if isinstance(place, str) else f"#/jobs/{place}"
    queue, limits = context.queue, context.limits
    content = records.body_of(wish.body, wish.body_base64, limits.depth, pointer)
    headers: Mapping[str, str] | None = wish.headers
    if trace is not None:
        headers = {**trace, **(headers or {})}
    try:
        return new_job(
            queue.calls.max_body, wish.topic, content, wish.delay, wish.at, wish.key, wish.replace, wish.ttr,
            wish.max_attempts, headers, wish.to, None, wish.dedupe_for, wish.priority, wish.expires,
        )  # fmt: skip
    except BadJob as error:
        raise _refusal(error, pointer, too_large=len(content) > queue.calls.max_body) from None


def _refusal(error: BadJob, pointer: str, *, too_large: bool) -> Problem:
    """Return the problem of an invalid job, or of a body that is too large."""
    return bad_field(f"{pointer}/body", str(error), "too-large") if too_large else bad_field(pointer, str(error))


# ---- traces ---------------------------------------------------------------------------------------------------------


def _trace(headers: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """Return the trace context of a request, as the job keeps it. A malformed one counts as none."""
    sent = headers.get(b"traceparent")
    if sent is None or not TRACEPARENT.fullmatch(parent := sent.decode("latin-1")) or parent.startswith("ff"):
        return None
    trace = {"traceparent": parent}
    state = headers.get(b"tracestate", b"")
    if 0 < len(state) <= _LONGEST_STATE and state.isascii():
        trace["tracestate"] = state.decode("ascii")
    return trace


def _traced(trace: dict[str, str] | None) -> dict[str, str]:
    return {} if trace is None else {"traceparent": trace["traceparent"]}


# ---- one job --------------------------------------------------------------------------------------------------------


async def get(call: Call) -> Response:
    """Return a job."""
    job = await _job(call, reference(call))
    tag = records.etag(job)
    if _lists(call.sent.get(b"if-none-match"), tag.encode()):
        return Response(status_code=304, headers={"etag": tag})
    return JsonResponse(records.job_out(job), headers={"etag": tag, "cache-control": "no-store"})


async def history(call: Call) -> Response:
    """Return the attempts of a job."""
    job = await _job(call, reference(call))
    [attempts] = await call.ask(GetHistories([job.id]))
    return JsonResponse(schema.History([records.attempt_out(attempt) for attempt in attempts]))


async def result(call: Call) -> Response:
    """Return the result of a job, once the job has ended or the wait is over."""
    job, queue = await _job(call, reference(call)), call.queue
    seconds = min(call.parameters.wait, call.context.limits.wait)
    if job.state.live and seconds > 0:
        with call.context.waits.place(call.grant.id), call.ends() as ends:
            ended = asyncio.ensure_future(queue.aio.wait(job))
            await asyncio.wait((ended, *ends), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not ended.cancel():
                ended.exception()  # the store is read again below, and says so if the job was deleted
        await call.identify((job.topic,))
    so_far = await call.context.read(queue.result, job)
    return JsonResponse(records.result_out(so_far), 200 if so_far.ended else 202)


async def cancel(call: Call) -> Response:
    """Cancel a delayed job."""
    ref = reference(call)
    return await _change(call, ref, Cancel(ref, _expected(call)), State.DELAYED.value)


async def edit(call: Call) -> Response:
    """Give a delayed job another due time, body or other fields."""
    ref, calls = reference(call), call.queue.calls
    options: Any = {name: value for name, value in structs.asdict(call.wish).items() if value is not UNSET}
    body, coded = options.pop("body", b""), options.pop("body_base64", None)
    if body or coded is not None:
        options["body"] = records.body_of(body, coded, call.context.limits.depth, "#")
    try:
        command = edited(calls.max_body, ref, **options)
    except BadJob as error:
        raise _refusal(error, "#", too_large=len(options.get("body", b"")) > calls.max_body) from None
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
    """Return the reference to the job in the request: the id in its path, or else a topic and a key."""
    if "id" not in call.path_params:
        call.demand(call.parameters.topic)
        return call.parameters.topic, call.parameters.key
    return job_id(call.path_params["id"])


async def _job(call: Call, ref: Ref) -> Job:
    return await call.context.read(job_of, call.queue.store, ref, call.grant, call.operation.scope or "")


async def _change(call: Call, ref: Ref, command: Command[Any], wanted: str) -> Response:
    """Change a job, if the token allows its topic. Problem: the job does not exist, or is not in the `wanted` state.

    Only an id under a token with some topics costs a query.
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
    """Return the due time and claims that If-Match demands, or None. Problem: no job can have this tag."""
    given = call.sent.get(b"if-match", b"*").strip()
    if given == b"*":
        return None
    found = _TAG.fullmatch(given)
    due, claims = (int(found[1], 16), int(found[2], 16)) if found is not None else (FURTHEST, FURTHEST)
    if max(due, claims) >= FURTHEST:
        raise Problem("changed", "this If-Match is not an ETag of a job: give the one that came with it, just one")
    return due, claims


# ---- many jobs ------------------------------------------------------------------------------------------------------


async def find(call: Call) -> Response:
    """Return the jobs that match a filter."""
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
    """Change the jobs that match a filter, by a method of `Jobs`, which knows the states it is for."""
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
    """Return the fields of a filter beside topic and state, as arguments of the client."""
    return {word: getattr(wish, word) for word in FilterWords.__annotations__}
