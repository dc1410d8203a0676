"""Whole topics: which there are, their counts, pause and resume."""

from __future__ import annotations

from starlette.responses import Response

from . import schema
from .call import Call, JsonResponse

__all__ = ["counts", "pause", "resume", "topics"]


async def topics(call: Call) -> Response:
    """Return the topics that the token may see."""
    found = await call.context.read(call.context.queue.topics.list)
    seen = [schema.TopicOut(name, paused) for name, paused, _ in found if call.grant.may("read", name)]
    return JsonResponse(schema.Topics(seen))


async def counts(call: Call) -> Response:
    """Return the counts of the topics that the token may see."""
    found = await call.context.read(call.context.queue.topics.counts)
    seen = {name: schema.CountsOut(*each) for name, each in found.items() if call.grant.may("read", name)}
    return JsonResponse(schema.AllCounts(seen))


async def pause(call: Call) -> Response:
    """Let no job of a topic start."""
    topic = call.parameters.topic
    call.demand(topic)
    return JsonResponse(schema.Changed(await call.context.queue.aio.topics.pause(topic)))


async def resume(call: Call) -> Response:
    """Let jobs of a topic start again."""
    topic = call.parameters.topic
    call.demand(topic)
    return JsonResponse(schema.Changed(await call.context.queue.aio.topics.resume(topic)))
