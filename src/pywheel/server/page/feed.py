"""Fragments of the page as they change: each is rendered and compressed once for all who may see the same."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
import zlib
from collections.abc import AsyncGenerator, Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from ..._errors import StoreError
from ..live import Live, Snapshot
from ..problems import Problem
from ..sse import EventStream
from ..tokens import Grant
from .answers import HEADERS, Ask, visitor_of
from .overview import fragments_of

__all__ = ["Feed", "Frame"]

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
    """What somebody looks at, and with which rights: all who have the same ones see the same."""

    name: str
    topic: str | None
    root: str
    visitor: Grant  # without whose it is

    @property
    def topics(self) -> tuple[str | None, ...]:
        """Of what it shows what is coming."""
        return (self.topic,) if self.name == "topic" or (self.name == "overview" and self.visitor.everywhere) else ()


def _rights(visitor: Grant) -> Grant:
    return visitor._replace(id="", until=None, name="")


class Feed:
    """The frames of the latest snapshots."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._frames: dict[View, tuple[int, asyncio.Future[Frame]]] = {}  # with the number of the snapshot

    async def parts(self, ask: Ask, name: str, topic: str | None = None) -> tuple[Snapshot, dict[str, str]]:
        """Return the fragments of a view as they are now."""
        view = View(name, topic, ask.root, _rights(ask.visitor))
        snapshot = await self.live.now(view.topics)
        return snapshot, (await self.frame(view, snapshot)).parts

    async def frame(self, view: View, snapshot: Snapshot) -> Frame:
        """Return what a view shows: rendered once, in a thread, as there may be very many topics."""
        rendering = self._frames.get(view)
        if rendering is None or rendering[0] != snapshot.number:
            before = rendering[1] if rendering is not None else None
            if len(self._frames) >= _FRAMES:
                self._frames.clear()
            task = asyncio.ensure_future(asyncio.to_thread(_rendered, view, snapshot, _parts_of(before)))
            rendering = self._frames[view] = snapshot.number, task
        return await asyncio.shield(rendering[1])

    async def stream(self, ask: Ask) -> Response:
        """Answer with the frames of a view from now on."""
        name, topic = ask.query.get("view", "overview"), ask.topic
        if name not in _VIEWS or (name == "topic") != (topic is not None):
            raise Problem("not-found", f"there is no such view: {', '.join(_VIEWS)}, that of a topic with its name")
        view = View(name, topic, ask.root, _rights(ask.visitor))
        packed = "gzip" in ask.request.headers.get("accept-encoding", "")
        headers = {**HEADERS, "Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if packed else {})}
        views, token = ask.context.views, ask.visitor.id
        views.take(token)  # nothing is awaited from here until the stream begins
        frames = self._frames_of(ask, view, packed)
        return EventStream(frames, ask.context.stopping, lambda: views.leave(token), headers, alive=b"")

    async def _frames_of(self, ask: Ask, view: View, packed: bool) -> AsyncGenerator[bytes, None]:
        """Yield the frames of a view, until whoever looks may see something else by now."""
        if packed:
            yield _GZIP_HEAD
        frame = await self.frame(view, await self.live.now(view.topics))
        yield frame.whole[packed]
        last, asked = frame.number, time.monotonic()
        async with contextlib.aclosing(self.live.watch(view.topics)) as snapshots:
            async for snapshot in snapshots:
                if snapshot.number <= last:
                    continue
                if time.monotonic() - asked > _TRUSTED:
                    try:
                        visitor = await visitor_of(ask)
                    except StoreError:  # nobody can know whether they may
                        return
                    if visitor is None or _rights(visitor) != view.visitor:
                        return
                    asked = time.monotonic()
                frame = await self.frame(view, snapshot)
                yield (frame.news if frame.number == last + 1 else frame.whole)[packed]
                last = frame.number


def _parts_of(rendering: asyncio.Future[Frame] | None) -> Mapping[str, str]:
    """Return the fragments that were rendered before, as far as that has ended well."""
    if rendering is None or not rendering.done() or rendering.cancelled() or rendering.exception() is not None:
        return {}
    return rendering.result().parts


def _rendered(view: View, snapshot: Snapshot, before: Mapping[str, str]) -> Frame:
    parts = fragments_of(view.name, snapshot, view.visitor, view.root, view.topic)
    news = {id: part for id, part in parts.items() if before.get(id) != part}
    return Frame(snapshot.number, parts, _event(parts), _event(news))


def _event(parts: dict[str, str]) -> tuple[bytes, bytes]:
    text = "".join(
        f'<hx-partial hx-target="#{id}" hx-swap="innerMorph">{part}</hx-partial>' for id, part in parts.items()
    )
    plain = "".join(f"data: {line}\n" for line in text.splitlines()).encode() + b"\n"
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    # Looks back at nothing before it and ends on a byte: so it is compressed once, and sent in many streams.
    return plain, packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)
