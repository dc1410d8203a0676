"""HTTP on one connection: uvicorn's, with limits on time and size that it has not. What is over them is cut."""

from __future__ import annotations

import re
from asyncio import Event, Transport
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from httptools import parse_url
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from .edge import ARRIVED, GONE, HEADERS, RESPOND
from .problems import MEDIA_TYPE, Problem
from .reply import Reply, Shortcut

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
_UPGRADE: Final = re.compile(rb"(?<=\n)upgrade:", re.IGNORECASE)
_PART_OF_UPGRADE: Final = re.compile(rb"(?<=\n)(?:u|up|upg|upgr|upgra|upgrad|upgrade)\Z", re.IGNORECASE)
_LOOK_BACK: Final = len(_END) - 1
_CHUNK: Final = 8  # bytes around the smallest chunk of a body
_PIECE: Final = 1_024  # bytes that are parsed at once: a parsed request of 18 bytes takes 10 kB
_FEW: Final = 64  # lines; what has no more of them has few requests, and is parsed at once
_MOST_HELD: Final = 65_536  # bytes that wait to be parsed; the server stops reading at more


# ---- heads that come again ------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A head that a client sends again and again: it is parsed once."""

    scope: dict[str, Any]  # without what is the connection's
    length: int  # of the body
    shortcut: Shortcut | None


_heads: Final[WeakKeyDictionary[Any, dict[bytes, _Known]]] = WeakKeyDictionary()
"""What each application was asked."""


def _learn(known: dict[bytes, _Known], head: bytes, length: int, scope: Any, app: Any) -> None:
    """Remember a head, if it is one that clients send again and again, byte by byte the same.

    It was the first and the only one of what arrived at once, and a body of so many bytes all else: what belongs to
    another request, or to a body, is never taken for a head.
    """
    headers = dict(scope["headers"])
    if scope["raw_path"] not in _OFTEN or scope["query_string"] or not _ONCE.isdisjoint(headers):
        return
    if headers.get(b"content-length", b"0") != b"%d" % length or len(headers) < len(scope["headers"]):
        return
    if len(known) >= _MOST_KNOWN:
        known.clear()
    kept = {name: scope[name] for name in scope if name not in ("server", "client")}
    kept[HEADERS] = headers
    known[head] = _Known(kept, length, app.shortcut(kept) if hasattr(app, "shortcut") else None)


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


class _Flow(FlowControl):
    """Stops reading while enough bytes wait to be parsed."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second: a timer for each request would cost more than the request.

    A request begins when the answers before it are written, all but a little. What comes meanwhile waits: a few
    requests are parsed, some bytes are kept as they came, and the rest stays with the client.
    """

    most = 1 << 30
    """How many connections there may be; set before the server starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known = _heads.setdefault(self.app, {})
        self._reply: Reply | None = None
        self._answered: RequestResponseCycle | None = None  # the latest that is, or was, answered by a task
        self._idle = 0.0  # since when there is no request, if there is none
        self._since: float | None = self.loop.time()  # when the request that arrives has begun to; None: none does
        self._stalled: float | None = None
        self._heads = 0  # that were complete in what has just arrived
        self._in_head = True
        self._head = 0  # bytes of a head that is not complete
        self._before = b""  # the last bytes of it that the parser has
        self._held = b""  # its end, if that may be the beginning of a wish for another protocol
        self._rest = b""  # what has arrived and is not parsed yet
        self._waits = False  # whether to go on when the client has read more of the answers
        self._keeps_alive = False  # whether the latest request lets the connection be open
        self._beside = 0  # bytes of what came after it, and is not body: of chunks and trailers

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, if there is room for one more."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        if len(self.connections) > self.most:
            self._refuse(Problem("too-busy", "too many connections are open: try again", headers={"retry-after": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that nobody hears its answer, those too that others have followed in the pipeline."""
        for cycle in (self._answered, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._rest, self._waits = b"", False
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        if self._rest or self.pipeline or self.flow.write_paused:
            self._rest += data
            self._waits |= not self.pipeline and self._is_idle()
            self._hold()
            return
        alone = self._since is None  # it begins with a request
        end = -1
        if alone:
            end = data.find(_END)
            known = self._known.get(data[:end]) if end > 0 else None
            if known is not None and len(data) == end + 4 + known.length and self._is_idle():
                body = data[end + 4 :]
                if known.shortcut is None or not self._go_short(known.shortcut, body):
                    self._begin(known.scope.copy(), keep_alive=True, body=body)
                return
        self._heads = 0
        self._parse(data)
        once = alone and self._heads == 1 and self._since is None and not self._rest
        if once and 0 < end < _LONGEST_KNOWN and self._keeps_alive and not self.transport.is_closing():
            _learn(self._known, data[:end], len(data) - end - 4, self.scope, self.app)

    def _parse(self, data: bytes) -> None:
        """Parse what has arrived, until a request has to wait for its turn."""
        size = _PIECE if data.count(b"\n") > _FEW else len(data)
        for at in range(0, len(data), size):
            if self.transport.is_closing():
                return
            if self.pipeline:
                self._rest = data[at:]
                break
            self._parse_piece(data[at : at + size])
        self._hold()

    def _parse_piece(self, data: bytes) -> None:
        if self._in_head:
            self._head += len(data)
            data, self._held = _without_upgrade(self._before, self._held + data)
        else:
            self._beside += len(data)
        super().data_received(data)
        if self._in_head:
            self._before = (self._before + data)[-_LOOK_BACK:]
        if self._head > _LONGEST_HEAD or self._beside > _LONGEST_HEAD:
            self._refuse(Problem("headers-too-large", f"a request's head may have {_LONGEST_HEAD} bytes"))

    def _hold(self) -> None:
        """Stop reading while enough bytes wait."""
        flow: _Flow = self.flow  # type: ignore[assignment]  # it is made here
        flow.held = len(self._rest) > _MOST_HELD
        if flow.held:
            flow.pause_reading()

    def _go_short(self, shortcut: Shortcut, body: bytes) -> bool:
        """Answer a request without a task; False if it cannot be."""
        if self._reply is None:
            self._reply = Reply(self.transport, self.server_state, self.on_response_complete)
        if not shortcut(body, self._reply):
            return False
        self.cycle = self._reply  # type: ignore[assignment]  # as much of a cycle as uvicorn looks at
        return True

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first
        return (cycle is None or cycle.response_complete) and not self.transport.is_closing()

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        if self._since is None:
            self._since = self.loop.time()
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header in, but none from behind a body: a proxy has not seen that, and it has no meaning here."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body, and begin to answer."""
        self._in_head, self._head, self._before, self._beside = False, 0, b"", 0
        self._heads += 1
        if self.parser.should_upgrade():  # it came behind another request, else `_without_upgrade` had seen it
            self._refuse(Problem("bad-request", "wait for the answer before you ask for another protocol"))
            return
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
        self._keeps_alive = keep_alive
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
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Go on to the next request."""
        self._in_head, self._since = True, None
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body in."""
        self._beside = max(0, self._beside - _CHUNK * len(body))
        if not self.transport.is_closing():
            super().on_body(body)

    def on_response_complete(self) -> None:
        """Go on to a request that has come meanwhile, or wait for the next one until a sweep finds it too long."""
        self.server_state.total_requests += 1
        self._idle = self.loop.time()
        flow = self.flow
        if flow.write_paused:
            self._waits = True
        elif self.pipeline or self._rest or flow.read_paused:
            self._go_on()

    def _go_on(self) -> None:
        """Begin what waits."""
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self._rest and not self.pipeline:
            rest, self._rest = self._rest, b""
            self._parse(rest)
        self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(Problem("bad-request", f"{msg} Speak HTTP/1.1"))

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._stalled = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that it does again, and go on."""
        self._stalled = None
        super().resume_writing()
        if self._waits:
            self._waits = False
            self._go_on()

    def sweep(self, now: float) -> bool:
        """Cut the connection if it is too slow; return whether it was."""
        if self._stalled is None and self.transport.is_closing():
            self._stalled = now  # what is left of an answer must be read, too
        if self._rest and self._since is not None:
            self._since = now  # more of the request has come, and waits here
        limit = HEAD if self._in_head else REQUEST
        if self._stalled is not None and now - self._stalled > STALLED:
            self.transport.abort()
        elif self.transport.is_closing():
            return False
        elif self._since is None:
            if not self._is_idle() or now - self._idle <= self.timeout_keep_alive:
                return False
            self.transport.close()
        elif now - self._since <= limit:
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


def _without_upgrade(before: bytes, data: bytes) -> tuple[bytes, bytes]:
    """Return what has arrived, without the wish for another protocol in its head, and what of it to hold back.

    Java's client asks for HTTP/2 so with each request. The parser would leave out the body. `before` are the last bytes
    of the head that came before these. What is held back is the beginning of such a wish, maybe.
    """
    joined, skipped = before + data, len(before)
    end = joined.find(_END)
    if end >= 0:
        end = max(end + 2, skipped)  # the rest may be a body, and have the same words in it
        return _UPGRADE.sub(b"x-upgrade:", joined[:end])[skipped:] + joined[end:], b""
    maybe = _PART_OF_UPGRADE.search(joined)
    end = len(joined) if maybe is None else maybe.start()
    return _UPGRADE.sub(b"x-upgrade:", joined[:end])[skipped:], joined[end:]
