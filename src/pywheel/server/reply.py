"""A request that is answered without a task of its own: whoever has the outcome writes the answer."""

from __future__ import annotations

import logging
from asyncio import Event, Transport
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

if TYPE_CHECKING:
    from uvicorn.server import ServerState

    from .context import Context

__all__ = ["Reply", "Shortcut", "ShortcutMaker"]

_LOGGER: Final = logging.getLogger("pywheel.server")


class Reply:
    """One request at a time, of one connection, and its answer. To uvicorn it is a cycle, to a batch a future.

    `answer` makes of an outcome, or of the exception instead, a status, a body, and the lines of the headers.
    """

    __slots__ = ("_complete", "_state", "_transport", "answer", "disconnected", "keep_alive", "response_complete")

    message_event: Final = Event()  # nobody waits for it
    response_started = False  # it is complete at once

    def __init__(self, transport: Transport, state: ServerState, complete: Callable[[], None]) -> None:
        self._transport = transport
        self._state = state
        self._complete = complete
        self.answer: Callable[[Any], tuple[int, bytes, bytes]]
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = True

    def begin(self, answer: Callable[[Any], tuple[int, bytes, bytes]]) -> None:
        """Take on a request."""
        self.answer = answer
        self.response_complete = False

    def done(self) -> bool:
        """Whether there is nobody to answer."""
        return self.disconnected or self.response_complete

    def set_result(self, outcome: Any) -> None:
        """Answer. It never raises: others wait for their outcomes behind this one."""
        try:
            status, content, headers = self.answer(outcome)
            parts = [STATUS_LINE[status], _lines(self._state.default_headers), headers]
            if not self.keep_alive:
                parts.append(b"connection: close\r\n")
            parts.append(b"content-length: %d\r\n\r\n" % len(content))
            parts.append(content)
            self._transport.write(b"".join(parts))
            self.response_complete = True
            if not self.keep_alive:
                self._transport.close()
            self._complete()
        except Exception:
            _LOGGER.exception("an answer could not be sent")
            self._transport.abort()

    set_exception = set_result


Shortcut: TypeAlias = Callable[[bytes, Reply], bool]
"""Takes the body of a request on, to reply later; or returns False: it goes the usual way."""
ShortcutMaker: TypeAlias = "Callable[[Context, Mapping[bytes, bytes], Callable[[], bytes]], Shortcut | None]"
"""Returns the short way of requests with these headers, if they may take it. The last one makes ids of requests."""

_latest: tuple[Any, bytes] = ((), b"")


def _lines(headers: Any) -> bytes:
    """Return the headers that each answer has, as lines; they change once a second."""
    global _latest
    if _latest[0] is not headers:
        _latest = headers, b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return _latest[1]
