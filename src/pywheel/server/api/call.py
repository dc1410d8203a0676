"""A request of the API: its contents, its caller and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...jobs.queries import Query
from ..access import demand
from ..context import Context
from ..middleware import refuse_large
from ..problems import Problem, bad_parameter, of_validation
from ..tokens import Grant
from .once import ANSWERS_KEPT, once

R = TypeVar("R")
_ROOM: Final = 256 << 10  # bytes of a body beside the job's own body
_NOTHING: Final = 4 << 10  # bytes of a body for an operation without one: strangers may send it slowly


class JsonResponse(Response):
    """A value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the value as bytes."""
        return msgspec.json.encode(content)


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """A method of a path: its route, its checks and its description."""

    id: str  # operationId: the name of a method of generated clients
    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    summary: str
    tag: str
    scope: str | None = None  # the scope that a token must have; None: no token is needed
    body: Any = None  # the type of the body; None: no body
    body_needed: bool = True
    many: bool = False  # whether the body has many jobs
    query: Any = None  # the type of the parameters
    headers: tuple[str, ...] = ()  # request headers with a meaning, of `openapi._HEADERS`
    answers: Mapping[int, Any] = field(default_factory=dict)  # the types of the answers by status; None: no content
    problems: tuple[str, ...] = ()  # further problems, beside those of every request
    notes: str = ""  # more for the readers of the document
    example: Any = None  # an example of the body
    nonced: bool = False  # whether the handler itself deals with an Idempotency-Key
    # Answers a repeated request from the claims of the first one; None: the first answer is sent again.
    again: Callable[[Call, Sequence[tuple[int, int]]], Awaitable[Response]] | None = None

    @cached_property
    def changes(self) -> bool:
        """Whether a read-only server refuses it."""
        return self.method != "GET"

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """The decoder of its body."""
        return msgspec.json.Decoder(_Nothing if self.body is None else self.body)


class Ends(NamedTuple):
    """The events that end a wait early."""

    gone: asyncio.Future[None]  # the client goes away
    stopping: asyncio.Future[Any]  # the server drains


class Call(Request):
    """A request that was received."""

    grant: Grant
    content: bytes  # the body as it came
    wish: Any  # the body, of the operation's type; None without a body
    parameters: Any  # the query, of the operation's type
    claims: Sequence[tuple[int, int]] = ()  # the claims that it made
    keep: int = ANSWERS_KEPT  # for how many ms a repeated request gets this answer
    _held: int = 0  # bytes of its body that count

    def __init__(self, context: Context, operation: Operation, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self.context = context
        self.queue = context.queue
        self.operation = operation
        self.sent: Mapping[bytes, bytes] = dict(scope["headers"])  # by name; the last one of several with one name

    def demand(self, topic: str | None = None) -> None:
        """Raise a Problem if the token does not allow this operation, for a topic if one is given."""
        demand(self.grant, self.operation.scope or "", topic)

    async def ask(self, query: Query[R]) -> R:
        """Return the store's answer to a query."""
        return await self.context.read(self.queue.store.ask, query)

    async def identify(self, topics: Iterable[str | None] = (None,)) -> None:
        """Identify the caller. Problem: the token is no longer valid, or does not allow one of these topics."""
        if self.operation.scope is not None:
            self.grant = await self.context.access.identify(self.scope, self.context.read)
            for topic in topics:
                self.demand(topic)

    @contextmanager
    def ends(self) -> Iterator[Ends]:
        """Provide the futures that end a wait early, inside the `with` block."""
        ends = Ends(asyncio.ensure_future(self._gone()), asyncio.ensure_future(self.context.stopping.wait()))
        try:
            yield ends
        finally:
            for end in ends:
                end.cancel()

    async def _gone(self) -> None:
        """Return when the client has gone away."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def take(self) -> None:
        """Read body and parameters as the operation needs them. Problem: they are invalid, or too long."""
        operation = self.operation
        self.content = await self._received()
        query = self.scope["query_string"]
        self.parameters = _parameters(query, operation.query or _Nothing) if query or operation.query else None
        self.wish = None
        if self.content or (operation.body is not None and operation.body_needed):
            _refuse_types(self.sent)
            self.wish = _decoded(operation.decoder, self.content)

    def leave(self) -> None:
        """Let the body count no more: the request is done, or has failed."""
        self.context.bodies.leave(self._token, self._held)

    @property
    def _token(self) -> str:
        """The id of the token whose body it is."""
        return "" if self.operation.scope is None else self.grant.id

    async def _received(self) -> bytes:
        """Return the body. Problem: it is too long; if its length is known, before it is read."""
        length = self.sent.get(b"content-length", b"")
        if self.operation.body is None and length in (b"", b"0") and b"transfer-encoding" not in self.sent:
            return b""
        limits, most = self.context.limits, _NOTHING
        if self.operation.body is not None:  # the most that the operation can use
            useful = limits.batch if self.operation.many else 2 * self.queue.calls.max_body + _ROOM
            most = min(limits.request, useful)
        if length.isdigit():
            refuse_large(int(length[:20]), most)
        parts = list[bytes]()
        async for part in self.stream():
            self.context.bodies.take(self._token, len(part))  # bodies that are slow, or wait, must not fill the memory
            self._held += len(part)
            parts.append(part)
            refuse_large(self._held, most)
        await self.identify()  # the body may have come slowly, and the token may be removed by now
        return b"".join(parts)


class Endpoint:
    """A path of the API as an ASGI application, with one operation for each method."""

    def __init__(self, context: Context, operations: Sequence[Operation]) -> None:
        self._context = context
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations:
            self._operations["HEAD"] = self._operations["GET"]
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        operation = self._operations.get(scope["method"])
        if operation is None:
            text = f"this path takes {self._allow}"
            raise Problem("method-not-allowed", text, headers={"allow": self._allow})
        call = Call(self._context, operation, scope, receive)
        # The caller is identified first: a stranger's body is not even read.
        await call.identify()
        if operation.changes and self._context.read_only:
            raise Problem("read-only", "this server was started with --read-only: change jobs elsewhere")
        try:
            await call.take()
            key = call.sent.get(b"idempotency-key")
            if key is None or operation.nonced or not operation.changes:
                answer = await operation.handler(call)
            else:
                answer = await once(call, key)
        finally:
            call.leave()
        await answer(scope, receive, send)


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The empty body of an operation without one, as some clients always send it; and an empty set of parameters."""


def _parameters(query: bytes, wanted: Any) -> Any:
    """Return the parameters in a query. Problem: the query is invalid."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise Problem("bad-parameter", "the query is not UTF-8, or has too many parameters") from None
    given, names = dict(pairs), wanted.__struct_fields__
    if len(given) < len(pairs):
        raise Problem("bad-parameter", "a parameter is given twice: give each once")
    for name, text in given.items():
        if name not in names:
            known = f": there are {', '.join(names)}" if names else ""
            raise bad_parameter(name[:80], f"there is no such parameter here{known}")
        if "\0" in text:
            raise bad_parameter(name, "no text with NUL is stored")
    try:
        found = msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise of_validation(error, parameter=True) from None
    for name, text in given.items():
        value = getattr(found, name)
        # msgspec reads some texts as null, or as seconds since 1970.
        if value is None or (isinstance(value, datetime) and "T" not in text.upper()):
            raise bad_parameter(name, f"{text[:40]!r} is none")
    return found


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise of_validation(error) from None
    except RecursionError:
        raise Problem("too-deep", "the body is nested too deep: put it as text, or as body_base64") from None
    except UnicodeDecodeError:
        raise Problem("bad-json", "the body is not UTF-8: send JSON in UTF-8, and other bytes as body_base64") from None
    except msgspec.DecodeError as error:
        raise Problem("bad-json", f"{error}: send JSON") from None


def _refuse_types(headers: Mapping[bytes, bytes]) -> None:
    """Raise a Problem if the headers say that the body is not JSON."""
    given = headers.get(b"content-type", b"")
    if given != b"application/json":
        media, _, parameters = given.partition(b";")
        charset = parameters.lower().replace(b'"', b"").replace(b" ", b"")
        if media.strip().lower() != b"application/json" or charset not in (b"", b"charset=utf-8", b"charset=utf8"):
            text = "send the body as `Content-Type: application/json`, in UTF-8"
            raise Problem("wrong-type", text, headers={"accept": "application/json"})
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise Problem("wrong-type", "send the body without a Content-Encoding", headers={"accept-encoding": "identity"})
