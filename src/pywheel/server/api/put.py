"""Put one job, or many."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ..._errors import BadJob
from ...jobs import job as records
from ...jobs.commands import Put
from ...jobs.new_job import new_job
from ..problems import Problem, bad_field
from .call import Call, JsonResponse
from .once import identity
from .records import Turns, body_of
from .schema import NewJob

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["put", "put_many", "refusal"]

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_STATE: Final = 512


async def put(call: Call) -> Response:
    """Store a job."""
    wish: NewJob = call.wish
    call.demand(wish.topic)
    trace = _trace(call.sent)
    jobs = (_record(call.context, wish, "#", trace),)
    [id] = await _stored(call, jobs)
    headers = {"location": f"{call.scope.get('root_path', '')}/v1/jobs/{id}", **_traced(trace)}
    return JsonResponse({"id": str(id)}, 201, headers)


async def put_many(call: Call) -> Response:
    """Store jobs, all or none."""
    wishes: list[NewJob] = call.wish.jobs
    trace = _trace(call.sent)
    if call.grant.everywhere:
        call.demand(wishes[0].topic)
    else:
        for topic in {wish.topic for wish in wishes}:
            call.demand(topic)
    jobs = await _records(call.context, wishes, trace)
    ids = await _stored(call, jobs)
    return JsonResponse({"ids": list(map(str, ids))}, 201, _traced(trace))


def _stored(call: Call, jobs: tuple[records.NewJob, ...]) -> Awaitable[list[int]]:
    """Store jobs. With an Idempotency-Key the store knows a second put of them, in the transaction of the first."""
    key = call.sent.get(b"idempotency-key")
    nonce = (None, None) if key is None else identity(call, key)
    return call.queue.calls.aapply(Put(jobs, *nonce))


async def _records(context: Context, wishes: list[NewJob], trace: dict[str, str] | None) -> tuple[records.NewJob, ...]:
    """Return the records of jobs. Other requests have their turn in between."""
    turns = Turns()
    made = []
    for place, wish in enumerate(wishes):
        made.append(_record(context, wish, place, trace))
        await turns.after(made[-1].body)
    return tuple(made)


def _record(context: Context, wish: NewJob, place: str | int, trace: dict[str, str] | None) -> records.NewJob:
    """Return the record of a job. Raises the Problem of one that makes no sense, with its place."""
    pointer = place if isinstance(place, str) else f"#/jobs/{place}"
    queue, limits = context.queue, context.limits
    content = body_of(wish.body, wish.body_base64, limits.depth, pointer)
    headers: Mapping[str, str] | None = wish.headers
    if trace is not None:
        headers = {**trace, **(headers or {})}
    try:
        return new_job(
            queue.calls.max_body, wish.topic, content, wish.delay, wish.at, wish.key, wish.replace, wish.ttr,
            wish.max_attempts, headers, wish.to, None, wish.dedupe_for, wish.priority, wish.expires,
        )  # fmt: skip
    except BadJob as error:
        raise refusal(error, pointer, too_large=len(content) > queue.calls.max_body) from None


def refusal(error: BadJob, pointer: str, *, too_large: bool) -> Problem:
    """Return the problem of a job that makes no sense, or whose body is too large."""
    return bad_field(f"{pointer}/body", str(error), "too-large") if too_large else bad_field(pointer, str(error))


# ---- traces ---------------------------------------------------------------------------------------------------------


def _trace(headers: Mapping[bytes, bytes]) -> dict[str, str] | None:
    """Return the trace context of a request, as the job keeps it. One that is malformed counts as none."""
    parent = headers.get(b"traceparent")
    if parent is None or not _TRACEPARENT.fullmatch(parent) or parent.startswith(b"ff"):
        return None
    trace = {"traceparent": parent.decode("ascii")}
    state = headers.get(b"tracestate", b"")
    if 0 < len(state) <= _LONGEST_STATE and state.isascii():
        trace["tracestate"] = state.decode("ascii")
    return trace


def _traced(trace: dict[str, str] | None) -> dict[str, str]:
    return {} if trace is None else {"traceparent": trace["traceparent"]}
