"""Put one job, or many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ..._errors import BadJob, NonceTaken
from ...jobs import job as records
from ...jobs.commands import Put
from ...jobs.new_job import new_job
from ..problems import Problem
from .call import Answer, Call
from .records import body_of
from .schema import NewJob
from .turns import Turns

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["ROOT", "new_record", "put", "put_many"]

_CREATED: Final = (b"content-type", b"application/json")
_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_STATE: Final = 512
_LONGEST_KEY: Final = 255
ROOT: Final = "#"
"""Where a job is within a request of one."""


async def put(call: Call) -> Answer:
    """Store a job."""
    wish: NewJob = call.body
    call.demand(wish.topic)
    trace = _trace(call.headers)
    jobs = (new_record(call.context, wish, ROOT, trace),)
    key = call.headers.get(b"idempotency-key")
    [id] = await (call.context.queue.calls.aapply(Put(jobs)) if key is None else _once(call, key, jobs))
    location = f"{call.scope.get('root_path', '')}/v1/jobs/{id}".encode("latin-1", "replace")
    return Answer(201, b'{"id":"%d"}' % id, (_CREATED, (b"location", location), *_traced(trace)))


async def put_many(call: Call) -> Answer:
    """Store jobs, all or none."""
    wishes: list[NewJob] = call.body.jobs
    trace = _trace(call.headers)
    if call.everywhere:
        call.demand(wishes[0].topic)
    else:
        for topic in {wish.topic for wish in wishes}:
            call.demand(topic)
    jobs = await _records(call.context, wishes, trace)
    key = call.headers.get(b"idempotency-key")
    ids = await (call.context.queue.calls.aapply(Put(jobs)) if key is None else _once(call, key, jobs))
    return Answer(201, b'{"ids":["%s"]}' % '","'.join(map(str, ids)).encode(), (_CREATED, *_traced(trace)))


async def _records(context: Context, wishes: list[NewJob], trace: dict[str, str] | None) -> tuple[records.NewJob, ...]:
    """Return the records of jobs. Other requests have their turn in between."""
    turns = Turns()
    made = []
    for place, wish in enumerate(wishes):
        made.append(new_record(context, wish, place, trace))
        await turns.after(made[-1].body)
    return tuple(made)


def new_record(context: Context, wish: NewJob, place: str | int, trace: dict[str, str] | None) -> records.NewJob:
    """Return the record of a job. Raises the Problem of one that makes no sense, with its place."""
    pointer = place if isinstance(place, str) else f"#/jobs/{place}"
    queue, limits = context.queue, context.limits
    content = body_of(wish.body, wish.body_base64, limits.depth, pointer)
    headers: Mapping[str, str] | None = wish.headers
    if trace is not None:
        headers = {**trace, **(headers or {})}
    try:
        return new_job(
            queue.calls.max_body,
            wish.topic,
            content,
            wish.delay,
            wish.at,
            wish.key,
            wish.replace,
            wish.ttr,
            wish.max_attempts,
            headers,
            wish.to,
            None,
            wish.dedupe_for,
            wish.priority,
        )
    except BadJob as error:
        if len(content) > queue.calls.max_body:
            raise Problem("too-large", f"{pointer}/body: {error}", errors=[(f"{pointer}/body", str(error))]) from None
        raise Problem("bad-body", f"{pointer}: {error}", errors=[(pointer, str(error))]) from None


# ---- once -----------------------------------------------------------------------------------------------------------


async def _once(call: Call, key: bytes, jobs: tuple[records.NewJob, ...]) -> list[int]:
    """Store jobs, unless the same was done with this key before; return their ids.

    The store knows both by the nonce and its fingerprint, in the transaction of the put.
    """
    if not 1 <= len(key) <= _LONGEST_KEY:
        raise Problem("bad-request", f"an Idempotency-Key has 1 to {_LONGEST_KEY} characters, such as a UUID")
    nonce = sha256(b"\0".join((call.grant.id.encode(), key))).hexdigest()
    fingerprint = sha256(b"\0".join((call.operation.id.encode(), call.content))).hexdigest()
    try:
        return await call.context.queue.calls.aapply(Put(jobs, nonce, fingerprint))
    except NonceTaken:
        text = "this Idempotency-Key came with another request before: give each request a key of its own"
        raise Problem("key-reused", text) from None


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


def _traced(trace: dict[str, str] | None) -> tuple[tuple[bytes, bytes], ...]:
    return () if trace is None else ((b"traceparent", trace["traceparent"].encode("ascii")),)
