"""A request with an Idempotency-Key happens once: a repeated one gets the answer of the first.

A note in the store holds the key, from before the operation until the answer is forgotten. A put keeps its key itself,
in its own transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from ..._errors import PywheelError
from ...jobs.commands import Put, SetNote
from ...jobs.job import NewJob
from ..problems import KEY_REUSED, Problem

if TYPE_CHECKING:
    from .call import Call

ANSWERS_KEPT: Final = 86_400_000
"""The ms for which an answer is kept."""
UNDER_WAY: Final = 60_000
"""The ms, beside the request's wait, for which a key is taken if the server ends before it answers."""
_RENEWED: Final = 20.0  # seconds after which a key is taken anew: a change of many may take minutes
_LONGEST: Final = 255
_HEADERS: Final = ("content-type", "etag", "location")


class _Kept(msgspec.Struct, array_like=True):
    """The stored part of a request. Its status is 0 until there is an answer."""

    fingerprint: str
    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    claims: list[tuple[int, int]] = []


_encoded: Final = msgspec.msgpack.Encoder().encode
_decoded: Final = msgspec.msgpack.Decoder(_Kept).decode


def identity(call: Call, key: bytes) -> tuple[str, str]:
    """Return the name of a key of this token, and the fingerprint of its request."""
    if not 1 <= len(key) <= _LONGEST:
        raise Problem("bad-request", f"an Idempotency-Key has 1 to {_LONGEST} characters, such as a UUID")
    parts = [call.operation.id.encode(), call.content]
    parts += [str(value).encode() for value in call.path_params.values()]
    if call.scope["query_string"]:
        parts.append(call.scope["query_string"])
    nonce = sha256(b"\0".join((call.grant.id.encode(), key))).hexdigest()
    return nonce, sha256(b"\0".join(parts)).hexdigest()


def stored(call: Call, jobs: tuple[NewJob, ...]) -> Awaitable[list[int]]:
    """Store jobs. With an Idempotency-Key, the store recognizes a repeated put in the transaction of the first one."""
    key = call.sent.get(b"idempotency-key")
    nonce = (None, None) if key is None else identity(call, key)
    return call.queue.calls.aapply(Put(jobs, *nonce))


async def once(call: Call, key: bytes) -> Response:
    """Return the answer to a request, or the answer of the first time. A refused request leaves the key free."""
    nonce, fingerprint = identity(call, key)
    apply, name, kept = call.queue.calls.aapply, f"idem:{nonce}", _Kept(fingerprint)
    under_way = UNDER_WAY + round(1000 * call.context.limits.wait)
    before = await apply(SetNote(name, _encoded(kept), under_way, absent=True))
    if before is not None:
        return await _again(call, _decoded(before), fingerprint)
    try:
        async with _taken(call, SetNote(name, _encoded(kept), under_way)):
            answer = await call.operation.handler(call)
    except Exception:
        with suppress(PywheelError):
            await apply(SetNote(name, None))
        raise
    if call.operation.again is None or call.claims:
        kept.status, kept.claims = answer.status_code, list(call.claims)
        kept.body = b"" if call.claims else bytes(answer.body)
        kept.headers = {header: answer.headers[header] for header in _HEADERS if header in answer.headers}
        change = SetNote(name, _encoded(kept), call.keep)
    else:  # nothing was claimed, and the next request may get jobs
        change = SetNote(name, None)
    with suppress(PywheelError):  # the operation has happened: the answer goes out even if the key is not kept
        await apply(change)
    return answer


@asynccontextmanager
async def _taken(call: Call, note: SetNote) -> AsyncIterator[None]:
    """Keep a key taken inside the `async with` block, however long that takes."""
    over = asyncio.Event()

    async def renew() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_RENEWED):
                    await over.wait()
                    return
            with suppress(PywheelError):
                await call.queue.calls.aapply(note)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        over.set()
        await renewing  # no renewal comes after the answer


async def _again(call: Call, kept: _Kept, fingerprint: str) -> Response:
    if kept.fingerprint != fingerprint:
        raise Problem("key-reused", KEY_REUSED)
    if not kept.status:
        text = "the first request with this Idempotency-Key is under way: repeat it in a moment"
        raise Problem("key-busy", text, headers={"retry-after": "1"})
    if call.operation.again is None:
        answer = Response(kept.body, kept.status, kept.headers)
    else:
        answer = await call.operation.again(call, kept.claims)
    answer.headers["idempotency-replayed"] = "true"
    return answer
