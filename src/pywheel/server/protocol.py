"""HTTP on one connection: uvicorn's, with limits on time and size that it has not. What is over them is cut."""

from __future__ import annotations

import re
from asyncio import Event, Transport
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from httptools import parse_url
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from .edge import ARRIVED, GONE, HEADERS, RESPOND
from .problems import MEDIA_TYPE, Problem

__all__ = ["Protocol"]

HEAD: Final = 10.0
"""seconds that the head of a request may take, from its first byte or from the connection's beginning"""
REQUEST: Final = 60.0
"""seconds that all of a request may take to arrive"""
STALLED: Final = 30.0
"""seconds that a client may leave an answer unread"""
_END: Final = b"\r\n\r\n"
_OFTEN: Final = frozenset({b"/v1/jobs", b"/v1/jobs/batch", b"/v1/reserve"})
_ONCE: Final = frozenset(
    b"connection expect idempotency-key last-event-id traceparent tracestate transfer-encoding upgrade "
    b"x-request-id".split()
)
"""Headers of another meaning, or of another value each time: a head with one of them is not remembered."""
_MOST_KNOWN: Final = 1_000
_LONGEST_KNOWN: Final = 2_048  # bytes
_LONGEST_HEAD: Final = 64 << 10  # bytes
_WISH: Final = b"\r\nupgrade:"
_UPGRADE: Final = re.compile(_WISH, re.IGNORECASE)
_OTHER: Final = b"\r\nx-upgrade:"


# ---- heads that come again ------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A head that a client sends again and again: it is parsed once."""

    scope: dict[str, Any]  # without what is the connection's
    length: int  # of the body


_heads: Final[dict[bytes, _Known]] = {}


def _learn(head: bytes, scope: dict[str, Any]) -> None:
    """Remember a head, if it is one that clients send again and again, byte by byte the same."""
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    if scope["raw_path"] not in _OFTEN or scope["query_string"] or not _ONCE.isdisjoint(headers) or len(length) > 5:
        return
    if len(_heads) >= _MOST_KNOWN:
        _heads.clear()
    kept = {name: scope[name] for name in scope if name not in ("server", "client")}
    _heads[head] = _Known({**kept, HEADERS: headers}, int(length))


# ---- one request ----------------------------------------------------------------------------------------------------


class Cycle(RequestResponseCycle):
    """One request and its answer."""

    async def receive(self) -> Any:
        """Return what has arrived of the request; at once if it is all."""
        if self.more_body or self._taken or self.waiting_for_100_continue or self.disconnected:
            return await super().receive()
        self._taken = True
        self.message_event.clear()
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": False}

    def whole(self, body: bytes) -> None:
        """Take in a body that has arrived with its head."""
        self.body = body  # type: ignore[assignment]  # nothing is added to it
        self.more_body = False

    def gone(self) -> bool:
        """Whether the client has gone away."""
        return self.disconnected

    _taken = False  # whether a request that had arrived was

    def respond(self, status: int, content: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Answer at once, in one system call. The headers are well-formed: nobody looks at them again."""
        if self.disconnected or self.response_started:
            return
        self.response_started = self.response_complete = True
        parts = [STATUS_LINE[status]]
        for name, value in (*self.default_headers, *headers):
            parts += name, b": ", value, b"\r\n"
        if status not in (204, 304):
            parts.append(b"content-length: %d\r\n" % len(content))
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        if self.scope["method"] != "HEAD":
            parts.append(content)
        self.transport.write(b"".join(parts))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class Protocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second: a timer for each request would cost more than the request."""

    most = 1 << 30
    """How many connections there may be; set before the server starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._since: float | None = self.loop.time()  # when the request that arrives has begun to; None between two
        self._stalled: float | None = None
        self._learns: bytes | None = None  # the head that arrives, if it may be one that comes again
        self._held = b""  # the end of what has arrived, if it may begin a wish for another protocol
        self._in_head = True
        self._head = 0  # bytes of a head that is not complete
        self._beyond = 0  # bytes since the last ones of the body: of what follows it, or is between its chunks
        self._answered: RequestResponseCycle | None = None  # the request that is, or was, answered

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, if there is room for one more."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(Problem("too-busy", "too many connections are open: try again", headers={"retry-after": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that nobody hears its answer, those too that others have followed in the pipeline."""
        for cycle in (self._answered, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        if self._since is None:
            end = data.find(_END) if data[:1] > b" " else -1  # what begins with line ends is not all head
            known = _heads.get(data[:end]) if end > 0 else None
            if known is not None and len(data) == end + 4 + known.length and self._is_idle():
                self._unset_keepalive_if_required()
                self._begin(known.scope.copy(), keep_alive=True, body=data[end + 4 :])
                return
            self._since, self._learns = self.loop.time(), data[:end] if 0 < end < _LONGEST_KNOWN else None
        if self._in_head:
            self._head += len(data)
            data, self._held = _without_upgrade(self._held + data)
        else:
            self._beyond += len(data)
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head > _LONGEST_HEAD or self._beyond > _LONGEST_HEAD:
            text = f"the head of a request, and what follows its body, may have {_LONGEST_HEAD} bytes each"
            self._refuse(Problem("headers-too-large", text))

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first
        return (cycle is None or cycle.response_complete) and not self.transport.is_closing()

    def on_message_begin(self) -> None:
        """Note when a request begins, which may be within the bytes that end the one before."""
        if self._since is None:
            self._since, self._head = self.loop.time(), 1
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header in. What follows a body is left out: a proxy has looked at the head alone."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body, and begin to answer."""
        self._in_head, self._head, self._beyond = False, 0, 0
        url = parse_url(self.url)
        raw_path: bytes = url.path
        path = raw_path.decode("ascii")
        version = self.parser.get_http_version()
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = url.query or b""
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        if self._learns is not None and keep_alive:
            _learn(self._learns, scope)
        self._learns = None
        self._begin(scope, keep_alive=keep_alive)

    def _begin(self, scope: dict[str, Any], *, keep_alive: bool, body: bytes | None = None) -> None:
        """Begin to answer a request, whose body has arrived or is still to come."""
        before: RequestResponseCycle | None = self.cycle  # None before the first
        cycle = self.cycle = Cycle(
            scope=scope,  # type: ignore[arg-type]  # as ASGI has it
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=Event(),
            expect_100_continue=body is None and self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        scope[RESPOND], scope[GONE] = cycle.respond, cycle.gone
        if body is not None:
            scope["server"], scope["client"] = self.server, self.client
            scope[ARRIVED] = body
            cycle.whole(body)
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body in."""
        self._beyond = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Go on to the next request."""
        self._in_head, self._since, self._beyond = True, None, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(Problem("bad-request", f"{msg} Speak HTTP/1.1"))

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._stalled = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again."""
        self._stalled = None
        super().resume_writing()

    def sweep(self, now: float) -> bool:
        """Cut the connection if it is too slow; return whether it was."""
        if self._stalled is None and self.transport.is_closing():
            self._stalled = now  # what is left of an answer must be read, too
        limit = HEAD if self._in_head else REQUEST
        if self._stalled is not None and now - self._stalled > STALLED:
            self.transport.abort()
        elif self.transport.is_closing() or self._since is None or now - self._since <= limit:
            return False
        elif self._in_head and self._head == 0:
            self.transport.close()  # it never said anything
        else:
            self._refuse(Problem("too-slow", "the request took too long to arrive"))
        return True

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer is under way, and close."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle  # None before the first
        if cycle is None or cycle.response_complete or not cycle.response_started:
            content = problem.content()
            head = [
                STATUS_LINE[problem.status],
                b"content-type: %s\r\n" % MEDIA_TYPE.encode(),
                b"content-length: %d\r\n" % len(content),
                *(f"{name}: {value}\r\n".encode() for name, value in problem.headers.items()),
                b"connection: close\r\n\r\n",
            ]
            self.transport.write(b"".join([*head, content]))
        self.transport.close()


def _without_upgrade(data: bytes) -> tuple[bytes, bytes]:
    """Return what has arrived of a head and what follows it without its wish for another protocol, and what to keep.

    Java's client asks for HTTP/2 so with each request. The parser would leave out the body. A head that is cut where
    that wish may begin is kept from there on, until more of it comes.
    """
    end = data.find(_END)
    if end >= 0:
        return data if _UPGRADE.search(data, 0, end) is None else _UPGRADE.sub(_OTHER, data[:end]) + data[end:], b""
    head = _UPGRADE.sub(_OTHER, data)
    for cut in range(max(len(head) - len(_WISH), 0), len(head)):
        tail = head[cut:].lower()
        if _WISH.startswith(tail) or _END.startswith(tail):
            return head[:cut], head[cut:]
    return head, b""
