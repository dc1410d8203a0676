"""Whole topics: which there are, their counts, pause and resume."""

from __future__ import annotations

from . import schema
from .call import Answer, Call, json_answer

__all__ = ["counts", "pause", "resume", "topics"]


async def topics(call: Call) -> Answer:
    """Return the topics that the token may see."""
    found = await call.context.read(call.context.queue.topics.list)
    seen = [schema.TopicOut(name, paused) for name, paused, _ in found if call.grant.may("read", name)]
    return json_answer(schema.Topics(seen))


async def counts(call: Call) -> Answer:
    """Return the counts of the topics that the token may see."""
    found = await call.context.read(call.context.queue.topics.counts)
    seen = {name: schema.CountsOut(*each) for name, each in found.items() if call.grant.may("read", name)}
    return json_answer(schema.AllCounts(seen))


async def pause(call: Call) -> Answer:
    """Let no job of a topic start."""
    topic = call.query.topic
    call.demand(topic)
    return json_answer(schema.Changed(await call.context.queue.aio.topics.pause(topic)))


async def resume(call: Call) -> Answer:
    """Let jobs of a topic start again."""
    topic = call.query.topic
    call.demand(topic)
    return json_answer(schema.Changed(await call.context.queue.aio.topics.resume(topic)))
