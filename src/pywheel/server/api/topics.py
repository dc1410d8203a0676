"""Topics: list, counts, limits, pause and resume; and their workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.responses import Response

from ..._errors import BadJob
from ...jobs.checks import name
from ...jobs.limits import LimitOverride
from ...jobs.queries import ListWorkers
from ..audit import Deed, keep
from ..problems import bad_parameter
from ..visible import may_see, tell
from . import schema
from .call import Call, JsonResponse
from .records import after_cursor, cursor


async def topics(call: Call) -> Response:
    """Return a part of the topics that the token may see."""
    return await call.context.read(_topics, call)


async def counts(call: Call) -> Response:
    """Return the counts of the topics that the token may see."""
    return await call.context.read(_counts, call)


def _topics(call: Call) -> Response:
    """Return the answer. It runs in a thread, as there may be very many topics."""
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


async def change(call: Call, word: str) -> Response:
    """Pause or resume a topic."""
    return await _change(call, getattr(call.queue.aio.topics, word))


async def _change(call: Call, change: Callable[[str], Awaitable[bool]]) -> Response:
    return JsonResponse(schema.Changed(await change(_topic(call))))


def _topic(call: Call) -> str:
    """Return the topic in the path. Problem: the name is invalid, or the token does not allow it."""
    try:
        topic = name(call.path_params["topic"], "topic")
    except BadJob as error:
        raise bad_parameter("topic", str(error)) from None
    call.demand(topic)
    return topic


# ---- limits ---------------------------------------------------------------------------------------------------------


async def limits(call: Call) -> Response:
    """Return the limits that were set for a topic."""
    found = await call.queue.aio.topics.limits(_topic(call))
    return JsonResponse(schema.LimitsOut(None if found is None else schema.NewLimits(**found._asdict())))


async def limit(call: Call) -> Response:
    """Set limits for a topic, in place of those of its code."""
    wish: schema.NewLimits = call.wish
    override = LimitOverride(wish.limit, wish.per, wish.rate)
    return await _limit(call, override.text, partial(call.queue.aio.topics.limit, **override.options))


async def limit_as_code(call: Call) -> Response:
    """Remove the limits that were set: those of the code hold again."""
    return await _limit(call, "as its code says", call.queue.aio.topics.limit_as_code)


async def _limit(call: Call, what: str, change: Callable[[str], Awaitable[bool]]) -> Response:
    answer, topic = await _change(call, change), call.path_params["topic"]
    await keep(call.context, call.grant, Deed("limit", f"topic {topic}: {what}", topic))
    return answer


# ---- workers --------------------------------------------------------------------------------------------------------


async def workers(call: Call) -> Response:
    """Return the workers that the token may see."""
    members, now = await call.ask(ListWorkers()), call.queue.store.clock.wall()
    seen = [member.about(now) for member in members if may_see(call.grant, member)]
    for each in seen:
        each["topics"] = [topic for topic in each["topics"] if call.grant.may("read", topic)]
    return JsonResponse(schema.Workers([schema.WorkerOut(**each) for each in seen]))


async def order(call: Call, word: str) -> Response:
    """Give a worker an order."""
    worker: str = call.path_params["worker"]
    await call.context.read(tell, call.queue.store, call.grant, worker, word)
    await keep(call.context, call.grant, Deed(word, f"worker {worker}"))
    return Response(status_code=204)
