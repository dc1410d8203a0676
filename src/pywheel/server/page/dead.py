"""Dead jobs by what went wrong: each group can be tried again, or deleted, at once."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from starlette.responses import Response

from ...jobs.job import Job, State
from ...jobs.queries import Filter
from ...stores.contract import Store
from ..problems import Problem
from ..tokens import Grant
from .answers import Ask
from .bulk import ACTIONS, matching, start
from .filters import Asked, fields
from .words import error_group, first_line

__all__ = ["Group", "act", "groups"]

_MOST: Final = 20_000  # dead jobs that are looked at
_PATIENCE: Final = 1.5  # seconds
_GROUPS: Final = 200


class Group(NamedTuple):
    """Dead jobs of a topic whose errors differ in digits and ids alone."""

    asked: Asked  # the search that finds them
    error: str  # of one of them
    number: int
    first: Job
    last: Job


async def groups(ask: Ask) -> Response:
    """Show the groups, the largest first."""
    topic = ask.topic
    found, seen, whole = await ask.context.long(_grouped, ask.store, topic, ask.visitor)
    shown, rest = found[:_GROUPS], max(len(found) - _GROUPS, 0)
    return ask.page("dead.html", groups=shown, rest=rest, seen=seen, whole=whole, topic=topic, now=ask.now)


async def act(ask: Ask) -> Response:
    """Retry or delete a group."""
    given = await fields(ask.request)
    action = ACTIONS.get(given.get("action", ""))
    asked = Asked(given.get("topic", ""), State.DEAD, like=given.get("like", ""))
    if action is None or State.DEAD not in action.states or not asked.topic or not asked.like:
        raise Problem("bad-request", "dead jobs can be retried and deleted, by topic and error")
    ask.allow("admin", asked.topic)
    return await start(ask, action, asked, asked.said(), "/dead")


def _grouped(store: Store, topic: str | None, visitor: Grant) -> tuple[list[Group], int, bool]:
    """Return the groups, how many jobs were looked at, and whether that is all of them."""
    found: dict[tuple[str, str], Group] = {}
    end, seen, whole = time.monotonic() + _PATIENCE, 0, True
    for jobs in matching(store, Filter(topic), (State.DEAD,), visitor.sees):
        for job in jobs:
            seen += 1
            kind = error_group(job.last_error)
            group = found.get((job.topic, kind))
            if group is None:
                asked = Asked(job.topic, State.DEAD, like=kind)
                found[job.topic, kind] = Group(asked, first_line(job.last_error, 300), 1, job, job)
            else:
                found[job.topic, kind] = group._replace(number=group.number + 1, last=job)
        if seen >= _MOST or time.monotonic() > end:
            whole = False
            break
    return sorted(found.values(), key=lambda group: (-group.number, group.asked.topic)), seen, whole
