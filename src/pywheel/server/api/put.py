"""Put one job, or many."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from ..._errors import BadJob
from ...client.new_job import new_job
from ...jobs import job as records
from ...jobs.commands import Put
from ..problems import Problem
from .call import Answer, Call
from .records import body_of
from .schema import NewJob

__all__ = ["put", "put_many"]

_CREATED: Final = (b"content-type", b"application/json")
_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_STATE: Final = 512
_ROOT: Final = "#"


async def put(call: Call) -> Answer:
    """Store a job."""
    wish: NewJob = call.body
    call.demand(wish.topic)
    trace = _trace(call.headers)
    [id] = await _stored(call, (_new(call, wish, _ROOT, trace),))
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
    jobs = tuple([_new(call, wish, place, trace) for place, wish in enumerate(wishes)])
    ids = await _stored(call, jobs)
    return Answer(201, b'{"ids":["%s"]}' % '","'.join(map(str, ids)).encode(), (_CREATED, *_traced(trace)))


def _new(call: Call, wish: NewJob, place: str | int, trace: dict[str, str] | None) -> records.NewJob:
    """Return the record of a job. Raises the Problem of one that makes no sense, with its place."""
    pointer = place if isinstance(place, str) else f"#/jobs/{place}"
    queue, limits = call.context.queue, call.context.limits
    content = body_of(wish.body, wish.body_base64, limits.depth, pointer)
    headers: Mapping[str, str] | None = wish.headers
    if trace is not None:
        headers = {**trace, **(headers or {})}
    try:
        return new_job(
            queue.max_body,
            wish.topic,
            content,
            wish.delay,
            wish.at,
            wish.key,
            wish.replace,
            wish.ttr,
            wish.max_attempts,
            headers,
            None,
        )
    except BadJob as error:
        if len(content) > queue.max_body:
            raise Problem("too-large", f"{pointer}/body: {error}", errors=[(f"{pointer}/body", str(error))]) from None
        raise Problem("bad-body", f"{pointer}: {error}", errors=[(pointer, str(error))]) from None


# ---- once -----------------------------------------------------------------------------------------------------------


async def _stored(call: Call, jobs: tuple[records.NewJob, ...]) -> list[int]:
    """Store jobs; return their ids. With an idempotency key once."""
    key = call.headers.get(b"idempotency-key")
    if key is None:
        return await call.context.queue._ado(Put(jobs))
    if not 1 <= len(key) <= 255:
        raise Problem("bad-request", "an Idempotency-Key has 1 to 255 characters, such as a UUID")
    name = sha256(b"\0".join((call.grant.id.encode(), call.operation.id.encode(), key))).hexdigest()
    return await call.context.queue._ado(Put(jobs, f"http:{name}"))


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
