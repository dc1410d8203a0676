"""Whole topics: which there are, their counts, pause and resume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from . import schema
from .call import Call, JsonResponse
from .records import after_cursor, cursor

__all__ = ["counts", "pause", "resume", "topics"]


async def topics(call: Call) -> Response:
    """Return a part of the topics that the token may see."""
    return await call.context.read(_topics, call)


async def counts(call: Call) -> Response:
    """Return the counts of the topics that the token may see."""
    return await call.context.read(_counts, call)


def _topics(call: Call) -> Response:
    """Return the answer; in a thread, as there may be very many."""
    after, limit = after_cursor(call.parameters.cursor), call.parameters.limit
    found = call.queue.topics.list()
    seen = [schema.TopicOut(name, paused) for name, paused, _ in found if name > after and call.grant.may("read", name)]
    following = cursor(seen[limit - 1].topic) if len(seen) > limit else None
    return JsonResponse(schema.Topics(seen[:limit], following))


def _counts(call: Call) -> Response:
    found = call.queue.topics.counts()
    return JsonResponse(
        schema.AllCounts(
            {name: schema.CountsOut(*each) for name, each in found.items() if call.grant.may("read", name)}
        )
    )


async def pause(call: Call) -> Response:
    """Let no job of a topic start."""
    return await _change(call, call.queue.aio.topics.pause)


async def resume(call: Call) -> Response:
    """Let jobs of a topic start again."""
    return await _change(call, call.queue.aio.topics.resume)


async def _change(call: Call, change: Callable[[str], Awaitable[bool]]) -> Response:
    topic: str = call.path_params["topic"]
    call.demand(topic)
    return JsonResponse(schema.Changed(await change(topic)))
