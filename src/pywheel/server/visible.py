"""Jobs, lists of jobs, and workers, for a grant that may see some topics alone.

Lists go topic by topic. A list of all topics would reveal hidden ones by its cursors and its gaps.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, TypeAlias

from .._errors import BadJob
from ..jobs.checks import MOST
from ..jobs.commands import Ref, called
from ..jobs.job import Job
from ..jobs.queries import PAGE_MOST, Filter, GetJob, ListTopics, ListWorkers, Member, Page
from ..stores.contract import Store, outcome_of
from ..stores.notifier import order
from ..stores.pages import BYTES, search
from ..stores.schedule_notes import TOPIC as SCHEDULES
from .problems import Problem
from .tokens import Grant

Sees: TypeAlias = Callable[[str], bool] | None
"""Whether a topic may be seen; None: every topic, so no check is made."""
_TOPICS: Final = 100  # topics that a page may have searched in vain
_ID: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


def job_id(text: str) -> int:
    """Return the id in an address. Problem: the text is not an id."""
    if not _ID.fullmatch(text) or abs(int(text)) > MOST:
        raise Problem("no-such-job", f"there is no job {text[:40]!r}: an id is what the put answered")
    return int(text)


def job_of(store: Store, ref: Ref, grant: Grant, scope: str = "read") -> Job:
    """Return a job. Problem: it does not exist, or the grant lacks the scope for its topic."""
    job = store.ask(GetJob(ref))
    if job is None or not grant.may(scope, job.topic):
        raise Problem("no-such-job", f"there is no job {called(ref)} that this token may see")
    return job


def page(
    store: Store, filter: Filter, after: str, limit: int, sees: Sees, *, preview: int | None, newest: bool = False
) -> Page:
    """Return what `Store.page` returns, for visible topics alone. Several topics come one after the other.

    O(topics), plus what it looks at: at most a hundred topics, and the bodies of two pages of the store. BadJob:
    `after` is not a cursor of such a list.
    """
    if filter.topic is not None and sees is not None and not sees(filter.topic):
        return Page([], None)
    if sees is None or filter.topic is not None:
        return search(store, filter, after, limit, preview=preview, newest=newest)
    first, inner = _place(after)
    names = sorted(topic.name for topic in store.ask(ListTopics()) if sees(topic.name))
    names = names[bisect_left(names, first) :]
    if inner and names[:1] != [first]:  # that topic is gone
        inner = ""
    jobs, sizes, looked, held = list[Job](), list[int](), 0, 0
    for number, name in enumerate(names):
        if number == _TOPICS or len(jobs) == limit or looked == PAGE_MOST or held >= BYTES:
            return Page(jobs, _cursor(name, inner), sizes, looked)
        some = filter._replace(topic=name)
        left = PAGE_MOST - looked
        found = search(store, some, inner, limit - len(jobs), preview=preview, newest=newest, most=left)
        jobs += found.jobs
        sizes += found.sizes
        looked += found.looked
        held += sum(len(job.body) for job in found.jobs)
        if found.next is not None:
            return Page(jobs, _cursor(name, found.next), sizes, looked)
        inner = ""
    return Page(jobs, None, sizes, looked)


def _cursor(name: str, inner: str) -> str:
    return json.dumps([name, inner])


def _place(cursor: str) -> tuple[str, str]:
    """Return topic and cursor within it."""
    if not cursor:
        return "", ""
    try:
        match json.loads(cursor):
            case [str(name), str(inner)]:
                return name, inner
    except (ValueError, RecursionError):
        pass
    raise BadJob("this is not a cursor of this list: use the one that came with the part before")


# ---- workers --------------------------------------------------------------------------------------------------------


def may_see(grant: Grant, member: Member) -> bool:
    """Whether the grant may see a worker: it may read one of its topics. The topic of schedules does not count."""
    return grant.everywhere or any(grant.may("read", topic) for topic in member.handles if topic != SCHEDULES)


def may_order(grant: Grant, member: Member) -> bool:
    """Whether the grant may give a worker orders: it is admin of all its topics."""
    return may_see(grant, member) and all(grant.may("admin", topic) for topic in member.handles if topic != SCHEDULES)


def tell(store: Store, grant: Grant, worker: str, word: str) -> None:
    """Give a worker an order, one of `ORDERS`. Problem: it does not exist, or the grant may not order it."""
    member = next((one for one in store.ask(ListWorkers()) if one.worker == worker), None)
    if member is None or not may_see(grant, member):
        raise Problem("not-found", f"there is no worker {worker[:80]!r} that this token may see: it may have ended")
    if not may_order(grant, member):
        raise Problem("scope-missing", "this needs the scope 'admin' for all topics of the worker")
    outcome_of(store, order(worker, word))
