"""Fragments of the page as they change: each is rendered and compressed once for all who may see the same."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..._errors import StoreError
from ..live import Live, Snapshot
from .answers import HEADERS, Ask
from .overview import fragments_of
from .visitor import Visitor, token_of, visitor_of

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["Feed", "Frame"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_SLOW: Final = 10.0  # seconds after which a reader that takes nothing is let go
_TRUSTED: Final = 4.0  # seconds after which a stream asks again what its reader may see
_VIEWS: Final = ("overview", "topic", "workers")
_FRAMES: Final = 1_000  # different views that are kept
_GZIP_HEAD: Final = struct.pack("<BBBBLBB", 0x1F, 0x8B, 8, 0, 0, 0, 255)


class Frame(NamedTuple):
    """What a view shows at a snapshot."""

    number: int
    parts: dict[str, str]  # by the id of the element that it is in
    whole: tuple[bytes, bytes]  # as an event, plain and deflated
    news: tuple[bytes, bytes]  # the same, with what differs from the frame before alone


class View(NamedTuple):
    """What somebody looks at, and with which rights: all who have the same one see the same."""

    name: str
    topic: str | None
    root: str
    visitor: Visitor

    @property
    def topics(self) -> tuple[str | None, ...]:
        """Of what it shows what is coming."""
        return (self.topic,) if self.name == "topic" or (self.name == "overview" and self.visitor.everywhere) else ()


class Feed:
    """The frames of the latest snapshots."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._frames: dict[View, Frame] = {}

    async def parts(self, ask: Ask, name: str, topic: str | None = None) -> tuple[Snapshot, dict[str, str]]:
        """Return the fragments of a view as they are now."""
        view = View(name, topic, ask.root, ask.visitor)
        snapshot = await self.live.now(view.topics)
        return snapshot, self.frame(view, snapshot).parts

    def frame(self, view: View, snapshot: Snapshot) -> Frame:
        """Return what a view shows; rendered unless somebody else has asked for it."""
        before = self._frames.get(view)
        if before is not None and before.number == snapshot.number:
            return before
        parts = fragments_of(view.name, snapshot, view.visitor, view.root, view.topic)
        known = before.parts if before else {}
        news = {id: part for id, part in parts.items() if known.get(id) != part}
        frame = Frame(snapshot.number, parts, _event(parts), _event(news))
        if len(self._frames) >= _FRAMES:
            self._frames.clear()
        self._frames[view] = frame
        return frame

    async def stream(self, ask: Ask) -> Response:
        """Answer with the frames of a view from now on."""
        query = ask.request.query_params
        name, topic = query.get("view", "overview"), query.get("topic") or None
        if name not in _VIEWS or (name == "topic") != (topic is not None):
            raise HTTPException(404, "there is no such view")
        if topic is not None:
            ask.allow("read", topic)
        if ask.request.method == "HEAD":
            return Response(None, 200, HEADERS, "text/event-stream")
        token = await token_of(ask.request, ask.context)
        ask.context.views.take(token)  # nothing is awaited from here until the stream begins
        return _Stream(self, View(name, topic, ask.root, ask.visitor), ask.request, ask.context, token)


def _event(parts: dict[str, str]) -> tuple[bytes, bytes]:
    text = "".join(
        f'<hx-partial hx-target="#{id}" hx-swap="innerMorph">{part}</hx-partial>' for id, part in parts.items()
    )
    plain = "".join(f"data: {line}\n" for line in text.splitlines()).encode() + b"\n"
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    # Looks back at nothing before it and ends on a byte: so it is compressed once, and sent in many streams.
    return plain, packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)


class _Stream(Response):
    """Server-sent events for one reader. Who is slow gets fewer of them; nothing waits in line for them."""

    def __init__(self, feed: Feed, view: View, request: Request, context: Context, token: str) -> None:
        self._feed, self._view, self._request, self._context = feed, view, request, context
        self._token = token
        self._packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = HEADERS | {"X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
        if self._packed:
            headers["Content-Encoding"] = "gzip"
        super().__init__(None, 200, headers, "text/event-stream")
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            await self._stream(receive, send)
        finally:
            self._context.views.leave(self._token)

    async def _stream(self, receive: Receive, send: Send) -> None:
        work = asyncio.create_task(self._send(send))
        ends = [work, *map(asyncio.ensure_future, (_gone(receive), self._context.stopping.wait()))]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            ended, *_ = await asyncio.gather(*ends, return_exceptions=True)
        if isinstance(ended, TimeoutError):
            _LOGGER.info("a reader of the page took nothing for %g s: its stream is cut", _SLOW)
        elif isinstance(ended, Exception) and not isinstance(ended, StoreError):
            raise ended
        else:  # the server stops, or may tell no more, or cannot know whether it may, or nobody is there
            with contextlib.suppress(TimeoutError):
                await _within(send, b"", more=False)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if self._packed:
            await _within(send, _GZIP_HEAD)
        view = self._view
        snapshot = await self._feed.live.now(view.topics)
        frame = self._feed.frame(view, snapshot)
        await _within(send, frame.whole[self._packed])
        last = frame.number
        asked = time.monotonic()
        async with contextlib.aclosing(self._feed.live.watch(view.topics)) as snapshots:
            async for snapshot in snapshots:
                if snapshot.number <= last:
                    continue
                if time.monotonic() - asked > _TRUSTED:
                    if await visitor_of(self._request, self._context) != view.visitor:
                        return  # the token was removed, or allows something else by now
                    asked = time.monotonic()
                frame = self._feed.frame(view, snapshot)
                await _within(send, (frame.news if frame.number == last + 1 else frame.whole)[self._packed])
                last = frame.number


async def _within(send: Send, content: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(_SLOW):
        await send({"type": "http.response.body", "body": content, "more_body": more})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
