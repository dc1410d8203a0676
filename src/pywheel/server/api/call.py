"""One request of the API: what was asked, by whom, and how it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from ..access import Granted, demand
from ..edge import ARRIVED, GONE, HEADERS, REQUEST_ID, RESPOND
from ..problems import Problem, of_validation

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from ..context import Context

__all__ = ["Answer", "Call", "Endpoint", "Gone", "Operation", "Stream", "json_answer"]

_JSON: Final = (b"content-type", b"application/json")
_ROOM: Final = 256 << 10  # bytes of a body for all but the job's own
_EMPTY: Final = (204, 304)


class Answer(NamedTuple):
    """What goes back."""

    status: int = 200
    content: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()


Stream: TypeAlias = Callable[["Scope", "Receive", "Send"], Awaitable[None]]
"""An answer that goes on: it sends by itself."""


def json_answer(value: Any, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
    """Return a value as JSON."""
    return Answer(status, msgspec.json.encode(value), (_JSON, *headers))


class Gone(Exception):
    """The client went away: there is nobody to answer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """One method of one path, as it is routed, checked and described."""

    id: str
    """operationId: the name of a method of generated clients"""
    method: str
    path: str
    handler: Callable[[Call], Awaitable[Answer | Stream]]
    summary: str
    tag: str
    scope: str | None = None
    """what a token must allow; None: no token is needed"""
    changes: bool = False
    """whether a server that only reads refuses it"""
    body: Any = None
    """the type of its body; None: it has none"""
    body_needed: bool = True
    many: bool = False
    """whether its body is of many jobs"""
    query: Any = None
    """the type of its parameters"""
    headers: tuple[str, ...] = ()
    """request headers with a meaning, of `openapi.HEADERS`"""
    answers: Mapping[int, Any] = field(default_factory=dict)
    """the types of its answers by status; None: without content"""
    problems: tuple[str, ...] = ()
    """what else may come back, beside what may come of every request"""
    notes: str = ""
    """more for whoever reads the document"""
    example: Any = None
    """an example of its body"""


class Call:
    """One request."""

    __slots__ = ("body", "content", "context", "grant", "headers", "operation", "query", "receive", "scope")

    def __init__(self, context: Context, operation: Operation, scope: Scope, receive: Receive) -> None:
        self.context = context
        self.operation = operation
        self.scope = scope
        self.receive = receive
        self.headers: Mapping[bytes, bytes] = scope[HEADERS]
        self.grant: Granted
        self.content = b""
        self.body: Any = None
        self.query: Any = None

    def demand(self, topic: str | None = None) -> None:
        """Raise the Problem of a token that does not allow this operation, for a topic."""
        demand(self.grant, self.operation.scope or "", topic)

    async def still_allowed(self, topics: Iterable[str | None]) -> None:
        """Raise the Problem of a token that has become good for nothing, or not for these, since the request came."""
        access = self.context.access
        if access.known(self.headers) is None:
            self.grant = await access.identify(self.scope, self.headers, self.context.read)
            for topic in topics:
                self.demand(topic)

    @property
    def gone(self) -> bool:
        """Whether the client is known to have gone away, at once; another server than ours tells by `receive` alone."""
        gone = self.scope.get(GONE)
        return gone is not None and gone()

    @property
    def most(self) -> int:
        """How many bytes the body may have: what the operation can make use of."""
        limits = self.context.limits
        useful = limits.batch if self.operation.many else 2 * self.context.queue.calls.max_body + _ROOM
        return min(limits.request, useful)

    @property
    def everywhere(self) -> bool:
        """Whether the token holds for every topic."""
        return "*" in self.grant.topics


class Endpoint:
    """A path of the API, as an ASGI application."""

    def __init__(self, context: Context, operations: Sequence[Operation]) -> None:
        self._context = context
        self._plans = {operation.method: _Plan(operation) for operation in operations}
        if "GET" in self._plans:
            self._plans["HEAD"] = self._plans["GET"]
        self._allow = ", ".join(sorted(self._plans))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        plan = self._plans.get(scope["method"])
        if plan is None:
            text = f"this path takes {self._allow}"
            raise Problem("method-not-allowed", text, headers={"allow": self._allow})
        call = Call(self._context, plan.operation, scope, receive)
        try:
            # In this order: a stranger's body is not even read.
            await plan.admit(call)
            if plan.reads(call):
                content: bytes | None = scope.get(ARRIVED)
                if content is None or len(content) > call.most:
                    content = await _content(call)
                call.content = content
            plan.decode(call)
            answer = await plan.operation.handler(call)
        except Gone:
            return
        if not isinstance(answer, Answer):
            await answer(scope, receive, send)
            return
        status, said, headers = answer
        respond = scope.get(RESPOND)
        if respond is not None:
            respond(status, said, (*headers, (b"x-request-id", scope[REQUEST_ID])))
            return
        length = () if status in _EMPTY else ((b"content-length", b"%d" % len(said)),)
        named = [*headers, *length, (b"x-request-id", scope[REQUEST_ID])]
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": said})


class _Plan:
    """How the requests of an operation are taken in."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)
        self.names = () if operation.query is None else tuple(operation.query.__struct_fields__)

    async def admit(self, call: Call) -> None:
        """Find out who calls, and whether the token allows it."""
        operation, context = self.operation, call.context
        if operation.scope is not None:
            grant = context.access.known(call.headers)
            if grant is None:
                grant = await context.access.identify(call.scope, call.headers, context.read)
            call.grant = grant
            demand(grant, operation.scope)
        if operation.changes and context.read_only:
            raise Problem("read-only", "this server was started with --read-only: change jobs elsewhere")

    def reads(self, call: Call) -> bool:
        """Whether there is a body to read."""
        return self.decoder is not None or _has_body(call.headers)

    def decode(self, call: Call) -> None:
        """Make of parameters and body what the operation wants."""
        call.query = self._parameters(call.scope["query_string"])
        if self.decoder is None:
            if call.content:
                operation = self.operation
                raise Problem("bad-request", f"{operation.method} {operation.path} takes no body: leave it out")
        elif call.content or self.operation.body_needed:
            _refuse_types(call.headers)
            call.body = _decoded(self.decoder, call.content)

    def _parameters(self, query: bytes) -> Any:
        if not query:
            return None if self.operation.query is None else _converted({}, self.operation.query)
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            raise Problem("bad-parameter", "the query is no UTF-8, or has too many parameters") from None
        given = dict(pairs)
        if len(given) < len(pairs):
            raise Problem("bad-parameter", "a parameter is given twice: give each once")
        for name in given:
            if name not in self.names:
                known = f": there are {', '.join(self.names)}" if self.names else ""
                raise Problem(
                    "bad-parameter", f"there is no parameter {name[:80]!r} here{known}", more={"parameter": name[:80]}
                )
        return None if self.operation.query is None else _converted(given, self.operation.query)


def _converted(given: dict[str, str], wanted: Any) -> Any:
    for name, text in given.items():
        if "\0" in text:
            raise Problem("bad-parameter", f"{name}: no text with NUL is stored", more={"parameter": name})
    try:
        found = msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise of_validation(error, parameter=True) from None
    for name, text in given.items():
        value = getattr(found, name)
        # What msgspec takes for a null, or for seconds since 1970.
        if value is None or (isinstance(value, datetime) and "T" not in text.upper()):
            raise Problem("bad-parameter", f"{name}: {text[:40]!r} is none", more={"parameter": name})
    return found


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise of_validation(error) from None
    except RecursionError:
        raise Problem("too-deep", "the body is nested too deep: put it as text, or as body_base64") from None
    except UnicodeDecodeError:
        raise Problem("bad-json", "the body is no UTF-8: send JSON in UTF-8, and other bytes as body_base64") from None
    except msgspec.DecodeError as error:
        raise Problem("bad-json", f"{error}: send JSON") from None


def _refuse_types(headers: Mapping[bytes, bytes]) -> None:
    """Raise the Problem of a body that is not JSON, by what its headers say."""
    given = headers.get(b"content-type", b"")
    if given != b"application/json":
        media, _, parameters = given.partition(b";")
        charset = parameters.lower().replace(b'"', b"").replace(b" ", b"")
        if media.strip().lower() != b"application/json" or charset not in (b"", b"charset=utf-8", b"charset=utf8"):
            text = "send the body as `Content-Type: application/json`, in UTF-8"
            raise Problem("wrong-type", text, headers={"accept": "application/json"})
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise Problem("wrong-type", "send the body without a Content-Encoding", headers={"accept-encoding": "identity"})


async def _content(call: Call) -> bytes:
    """Return the body. Raises the Problem of one that is too long or too slow."""
    limits, receive, most = call.context.limits, call.receive, call.most
    length = call.headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)
    # Our own server has a limit of its own on the time.
    message = await (receive() if RESPOND in call.scope else _arriving(receive, limits.arrival))
    if message["type"] == "http.disconnect":
        raise Gone
    content: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [content], len(content)
        until = asyncio.get_running_loop().time() + limits.arrival
        while message.get("more_body"):
            message = await _arriving(receive, until - asyncio.get_running_loop().time())
            if message["type"] == "http.disconnect":
                raise Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
        content = b"".join(parts)
    if len(content) > most:
        raise _too_large(most)
    return content


async def _arriving(receive: Receive, seconds: float) -> Any:
    """Return the next part of a body."""
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise Problem("too-slow", "the body took too long to arrive", headers={"connection": "close"}) from None
    return message


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _too_large(most: int) -> Problem:
    text = f"a request may have {most} bytes: put less at once, or store it elsewhere and put its name"
    return Problem("too-large", text, headers={"connection": "close"})
