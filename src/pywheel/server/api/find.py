"""Many jobs: search, and change all that a filter means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.responses import Response

from ..._errors import BadJob
from ...client.jobs import FilterWords, filter_of
from ...jobs.durations import delay_ms
from ...jobs.job import State
from ..access import demand_all
from ..problems import Problem, checked
from ..visible import page
from . import schema
from .call import Call, JsonResponse
from .records import after_cursor, cursor, job_out, jobs_out, no_cursor

__all__ = ["cancel_many", "delete_many", "find", "retry_many"]


async def find(call: Call) -> Response:
    """Return jobs that a filter means."""
    wish: schema.Find = call.parameters
    if wish.topic is not None:
        call.demand(wish.topic)
    after = after_cursor(wish.cursor)
    preview = None if wish.body else 0
    try:
        wanted = filter_of(wish.topic, wish.state, _words(wish))
    except BadJob as error:
        raise Problem("bad-parameter", str(error)) from None
    try:
        store, sees = call.queue.store, call.grant.sees
        found = await call.context.read(page, store, wanted, after, wish.limit, sees, preview=preview)
    except BadJob:
        raise no_cursor() from None
    following = None if found.next is None else cursor(found.next)
    shown = await jobs_out(found.jobs, partial(job_out, body=wish.body))
    return JsonResponse(schema.Found(shown, following, found.looked))


def _words(wish: schema.Filter) -> Any:
    """Return what a filter says beside topic and state, in the words of the client."""
    return {word: getattr(wish, word) for word in FilterWords.__annotations__}


# ---- bulk -----------------------------------------------------------------------------------------------------------


async def cancel_many(call: Call) -> Response:
    """Cancel the delayed jobs that a filter means."""
    return await _bulk(call, call.queue.jobs.cancel_many, State.DELAYED)


async def retry_many(call: Call) -> Response:
    """Retry the finished jobs that a filter means."""
    delay = checked("delay", delay_ms, call.wish.delay) / 1000
    return await _bulk(call, call.queue.jobs.retry_many, State.DEAD, delay=delay)


async def delete_many(call: Call) -> Response:
    """Forget the jobs that a filter means and that are not running."""
    return await _bulk(call, call.queue.jobs.delete_many, None)


async def _bulk(call: Call, change: Callable[..., int], usual: State | None, **words: Any) -> Response:
    wish: schema.Bulk = call.wish
    if wish.topic is not None:
        call.demand(wish.topic)
    else:
        demand_all(call.grant, call.operation.scope or "", "name one of its topics")
    state = usual if wish.state is None else State(wish.state)
    jobs = await call.context.long(change, wish.topic, state, **_words(wish), **words, dry_run=wish.dry_run)
    return JsonResponse(schema.BulkAnswer(jobs, wish.dry_run))
