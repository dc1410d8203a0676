"""Live events: jobs that ended, and counts that changed, as server-sent events.

They are told from the snapshots that the page shows: once a second while somebody listens.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from starlette.responses import Response

from ..._errors import StoreError
from ...jobs.queries import ListEnded
from ..problems import Problem
from ..sse import EventStream
from .call import Call
from .records import moment_out

if TYPE_CHECKING:
    from ...jobs.job import Counts
    from ...jobs.queries import Ended
    from ..context import Context

__all__ = ["Feed", "events"]

_MOST: Final = 1_000  # ends that are read at once, and events that wait for a listener
_EVENT_ID: Final = re.compile(rb"([0-9]{1,15})-(-?[0-9]{1,19})")
_AS_THEY_ARE: Final = ("topic", "state", "key", "attempt", "worker")
_TIMES: Final = ("due", "ended", "started")
_MISSED: Final = b"event: missed\ndata: {}\n\n"


class _Event(NamedTuple):
    """What goes to who may see its topic."""

    topic: str
    content: bytes
    key: tuple[int, int] | None = None  # of an end: when, and whose


class _Listener:
    """One stream."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[_Event] = asyncio.Queue(_MOST)
        self.missed = False

    def tell(self, event: _Event) -> None:
        """Keep an event until it is sent; one too many is left out, and the stream says so."""
        try:
            self.waiting.put_nowait(event)
        except asyncio.QueueFull:
            self.missed = True


class Feed:
    """What all streams of a process are fed from: the snapshots. Used on the loop only."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._listeners: set[_Listener] = set()
        self._task: asyncio.Task[None] | None = None

    def enter(self) -> _Listener:
        """Begin to listen."""
        listener = _Listener()
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return listener

    def leave(self, listener: _Listener) -> None:
        """Listen no longer."""
        self._listeners.discard(listener)

    async def _run(self) -> None:
        began = self._context.queue.store.clock.wall()
        last: int | None = None
        while self._listeners:  # a reader that has failed begins anew
            async with aclosing(self._context.live.watch()) as snapshots:
                async for snapshot in snapshots:
                    self._tell(ended_event(one) for one in snapshot.ended if one.ended >= began)
                    if last is not None:
                        for listener in self._listeners:
                            listener.missed |= snapshot.cut or snapshot.number != last + 1
                        counts = snapshot.topics.counts
                        self._tell(counts_event(name, counts[name]) for name in snapshot.changed)
                    last = snapshot.number
                    if not self._listeners:
                        return

    def _tell(self, events: Iterable[_Event]) -> None:
        for event in events:
            for listener in self._listeners:
                listener.tell(event)


def ended_event(one: Ended) -> _Event:
    """Return the event of a job that has ended."""
    told = {"id": str(one.id), **{field: value for field in _AS_THEY_ARE if (value := getattr(one, field))}}
    told |= {field: moment_out(at) for field in _TIMES if (at := getattr(one, field)) is not None}
    content = b"event: ended\nid: %d-%d\ndata: %s\n\n" % (one.ended, one.id, msgspec.json.encode(told))
    return _Event(one.topic, content, (one.ended, one.id))


def counts_event(topic: str, counts: Counts) -> _Event:
    """Return the event of counts that have changed."""
    content = msgspec.json.encode({"topic": topic, **counts._asdict()})
    return _Event(topic, b"event: counts\ndata: %s\n\n" % content)


# ---- one stream -----------------------------------------------------------------------------------------------------


async def events(call: Call) -> Response:
    """Return the stream of what happens, after the last event that the client has seen."""
    context, topic, token = call.context, call.parameters.topic, call.grant.id
    call.demand(topic)
    if context.feed is None:
        context.feed = Feed(context)
    context.streams.take(token)
    listener = context.feed.enter()  # before it looks back: between the two nothing is missed

    def left() -> None:
        assert context.feed is not None
        context.feed.leave(listener)
        context.streams.leave(token)

    try:
        earlier = await _earlier(call, listener)
    except BaseException:
        left()
        raise
    return EventStream(_told(call, listener, earlier), context.stopping, left)


async def _earlier(call: Call, listener: _Listener) -> list[_Event]:
    """Return what has ended since the event that the client saw last."""
    given = call.sent.get(b"last-event-id")
    if given is None:
        return []
    found = _EVENT_ID.fullmatch(given)
    if found is None:
        listener.missed = True
        return []
    at = int(found[1]), int(found[2])
    ended = await call.ask(ListEnded(call.parameters.topic, at[0], _MOST))
    listener.missed = len(ended) >= _MOST
    return [ended_event(one) for one in reversed(ended) if (one.ended, one.id) > at]


async def _told(call: Call, listener: _Listener, earlier: list[_Event]) -> AsyncGenerator[bytes, None]:
    """Yield what the client may see, until its token is removed or over its time."""
    topic, grant = call.parameters.topic, call.grant

    def sees(event: _Event) -> bool:
        return topic in (None, event.topic) and grant.may("read", event.topic)

    yield b"retry: 2000\n\n" + b"".join(event.content for event in earlier if sees(event))
    told = {event.key for event in earlier}
    while True:
        missed, listener.missed = listener.missed, False
        if missed:
            yield _MISSED
        event = await listener.waiting.get()
        if not sees(event) or (event.key is not None and event.key in told):
            continue
        try:
            await call.identify((topic,))
        except (Problem, StoreError):
            return
        yield event.content
