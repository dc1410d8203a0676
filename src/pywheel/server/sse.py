"""Server-sent events, for users of the API and of the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_LOGGER: Final = logging.getLogger("pywheel.server")
_SLOW: Final = 10.0  # seconds after which a reader that takes nothing is dropped
_BEAT: Final = 15.0  # seconds without an event after which a comment shows that the stream lives
_HEADERS: Final = {"content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no"}


class Stopping:
    """An event that a server sets when it drains: long polls and streams end.

    It belongs to one event loop at a time. Another loop is another server, which has not drained.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def set(self) -> None:
        """Let long polls and streams end."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the server drains."""
        return self._here().is_set()

    async def wait(self) -> None:
        """Return when the server drains."""
        await self._here().wait()

    def _here(self) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            self._event = asyncio.Event()
        self._loop = loop
        return self._event


class EventStream(StreamingResponse):
    """A stream of events, until there are no more, the reader goes away or takes none, or the server stops.

    `stopping` is set when the server stops; `left` is called when the stream has ended; `alive` is sent as the sign of
    life. A slow reader gets the next event after it took the one before: nothing queues here.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        stopping: Stopping,
        left: Callable[[], object],
        headers: Mapping[str, str] | None = None,
        alive: bytes = b": alive\n\n",
    ) -> None:
        super().__init__(events, headers={**_HEADERS, **(headers or {})})
        self._events = events
        self._stopping = stopping
        self._left = left
        self._alive = alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and the events. HEAD gets the headers alone, as the stream has no end."""
        try:
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
            else:
                await super().__call__(scope, receive, send)
        finally:
            try:
                await self._events.aclose()
            finally:
                self._left()

    async def stream_response(self, send: Send) -> None:
        """Send the events as they come."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        stopping = asyncio.ensure_future(self._stopping.wait())
        coming = asyncio.ensure_future(anext(self._events, None))
        try:
            while True:
                await asyncio.wait((coming, stopping), timeout=_BEAT, return_when=asyncio.FIRST_COMPLETED)
                event = coming.result() if coming.done() else self._alive
                if stopping.done() or event is None:
                    break
                async with asyncio.timeout(_SLOW):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
                if coming.done():
                    coming = asyncio.ensure_future(anext(self._events, None))
        except TimeoutError:
            _LOGGER.info("a reader took no events for %g s: its stream is cut", _SLOW)
            raise ClientDisconnect from None
        finally:
            for task in (coming, stopping):
                task.cancel()
            await asyncio.gather(coming, stopping, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})
