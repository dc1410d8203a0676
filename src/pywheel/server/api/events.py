"""Live events: jobs that ended, and counts that changed, as server-sent events.

They come from the snapshots that the page shows: once a second while somebody listens.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from functools import lru_cache
from typing import Final

import msgspec
from starlette.responses import Response

from ..._errors import StoreError
from ...jobs.checks import MOST
from ...jobs.job import Counts
from ...jobs.queries import Ended, ListEnded
from ..live import Watch
from ..problems import Problem
from ..sse import EventStream
from .call import Call
from .records import moment_out

_MOST: Final = 1_000  # ended jobs in one read
_KEPT: Final = 4  # snapshots that wait for a slow listener
_AHEAD: Final = 5_000  # ms that an end may be ahead: more, and the clock was set back since
_EVENT_ID: Final = re.compile(rb"([0-9]{1,15})-(-?[0-9]{1,19})")
_AS_THEY_ARE: Final = ("topic", "state", "key", "attempt", "worker")
_TIMES: Final = ("due", "ended", "started")
_MISSED: Final = b"event: missed\ndata: {}\n\n"


@lru_cache(_KEPT * _MOST)
def _ended(one: Ended) -> bytes:
    """Return the event of an ended job, made once for all streams."""
    told = {"id": str(one.id), **{field: value for field in _AS_THEY_ARE if (value := getattr(one, field))}}
    told |= {field: moment_out(at) for field in _TIMES if (at := getattr(one, field)) is not None}
    return b"event: ended\nid: %d-%d\ndata: %s\n\n" % (one.ended, one.id, msgspec.json.encode(told))


@lru_cache(_KEPT * _MOST)
def _counted(topic: str, counts: Counts) -> bytes:
    """Return the event of changed counts."""
    return b"event: counts\ndata: %s\n\n" % msgspec.json.encode({"topic": topic, **counts._asdict()})


async def events(call: Call) -> Response:
    """Return the stream of events after the last one that the client has seen."""
    context, token = call.context, call.grant.id
    call.demand(call.parameters.topic)
    context.streams.take(token)
    watch = context.live.watch(kept=_KEPT)  # before it looks back, so that nothing in between is missed

    def left() -> None:
        context.live.leave(watch)
        context.streams.leave(token)

    try:
        since, earlier, missed = await _earlier(call)
    except BaseException:
        left()
        raise
    return EventStream(_told(call, watch, since, earlier, missed), context.stopping, left)


async def _earlier(call: Call) -> tuple[tuple[int, int], list[Ended], bool]:
    """Return the end that the client saw last, the ends since then, and whether there may be more of them."""
    wall, given = call.queue.store.clock.wall(), call.sent.get(b"last-event-id")
    now = wall - 1, MOST
    found = None if given is None else _EVENT_ID.fullmatch(given)
    if found is None:
        return now, [], given is not None
    at = int(found[1]), int(found[2])
    ended = await call.ask(ListEnded(call.parameters.topic, at[0], _MOST, wall + _AHEAD))
    earlier = [one for one in reversed(ended) if (one.ended, one.id) > at]
    if at[0] > wall:  # the clock was set back, and what ended since has times before this one; or it lags here alone
        return now, earlier, True
    return at, earlier, len(ended) >= _MOST


async def _told(
    call: Call, watch: Watch, since: tuple[int, int], earlier: list[Ended], missed: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the events that the client may see, until its token is removed or expires."""
    topic, grant = call.parameters.topic, call.grant

    def sees(name: str) -> bool:
        return topic in (None, name) and grant.may("read", name)

    yield b"retry: 2000\n\n" + b"".join(_ended(one) for one in earlier if sees(one.topic)) + _MISSED * missed
    told = {(one.ended, one.id) for one in earlier}
    last: int | None = None
    looked = False
    async for snapshot in watch:
        if last is not None and (snapshot.cut or snapshot.number != last + 1):
            yield _MISSED
        ends = [one for one in snapshot.ended if (one.ended, one.id) not in told]
        if not looked:  # later snapshots have new ends alone, whatever the clock was set to meanwhile
            ends, looked = [one for one in ends if (one.ended, one.id) > since], snapshot.error is None
        last, counts = snapshot.number, snapshot.topics.counts
        news = [_ended(one) for one in ends if sees(one.topic)]
        news += [_counted(name, counts[name]) for name in snapshot.changed if sees(name)]
        for event in news:
            try:
                await call.identify((topic,))
            except (Problem, StoreError):
                return
            yield event
