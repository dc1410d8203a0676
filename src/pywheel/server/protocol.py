"""HTTP on one connection: uvicorn's, with limits on time and size that it has not. What is over them is cut."""

from __future__ import annotations

from asyncio import Transport
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .problems import MEDIA_TYPE, Problem

__all__ = ["Protocol"]

HEAD: Final = 10.0
"""seconds that the head of a request may take, from its first byte or from the connection's beginning"""
REQUEST: Final = 60.0
"""seconds that all of a request may take to arrive"""
STALLED: Final = 30.0
"""seconds that a client may leave an answer unread"""
_LONGEST_HEAD: Final = 64 << 10  # bytes


class Protocol(HttpToolsProtocol):
    """One connection. `sweep` is called once a second: a timer for each request would cost more than the request."""

    most = 1 << 30
    """How many connections there may be; set before the server starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._since: float | None = self.loop.time()  # when the request that arrives has begun to
        self._stalled: float | None = None
        self._in_head = True
        self._head = 0  # bytes of a head that is not complete

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, if there is room for one more."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(Problem("too-busy", "too many connections are open: try again", headers={"retry-after": "1"}))

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        if self._since is None:
            self._since = self.loop.time()
        if self._in_head:
            self._head += len(data)
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head > _LONGEST_HEAD:
            self._refuse(Problem("headers-too-large", f"a request's head may have {_LONGEST_HEAD} bytes"))

    def on_headers_complete(self) -> None:
        """Go on to the body."""
        self._in_head, self._head = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Go on to the next request."""
        self._in_head, self._since = True, None
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

    def sweep(self, now: float) -> None:
        """Cut the connection if it is too slow."""
        if self._stalled is not None and now - self._stalled > STALLED:
            self.transport.abort()
        elif self._since is not None and now - self._since > (HEAD if self._in_head else REQUEST):
            if self._in_head and self._head == 0:
                self.transport.close()  # it never said anything
            else:
                self._refuse(Problem("too-slow", "the request took too long to arrive"))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless an answer is under way, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            content = problem.content()
            head = [
                STATUS_LINE[problem.status],
                b"content-type: %s\r\n" % MEDIA_TYPE.encode(),
                b"content-length: %d\r\n" % len(content),
                *(f"{name}: {value}\r\n".encode() for name, value in problem.headers.items()),
                b"connection: close\r\n\r\n",
            ]
            self.transport.write(b"".join([*head, content]))
        cast("Transport", self.transport).close()
