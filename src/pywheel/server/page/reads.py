"""What the page asks of a store, until every store has these methods itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...jobs.job import Job, State
from ...stores.contract import Filter, Span, Store
from ...stores.ownership import ALL


class Page(NamedTuple):
    jobs: list[Job]
    next: str | None


class Ended(NamedTuple):
    id: int
    topic: str
    key: str | None
    state: State
    due: int
    started: int | None
    ended: int
    attempt: int
    worker: str | None


def page(store: Store, filter: Filter, after: str = "", limit: int = 100, preview=None, newest=False) -> Page:
    if hasattr(store, "page"):
        return store.page(filter, after, limit, preview=preview, newest=newest)
    found = store.jobs(filter, int(after or 0), limit + 1)
    return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)


def forecast(store: Store, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
    if hasattr(store, "forecast"):
        return store.forecast(edges, topic, most)
    names = [each.name for each in store.topics() if topic in (None, each.name)]
    counted = [0] * (len(edges) - 1)
    for due in store.windows([Span(name, ALL, (edges[0] - 1, 2**63 - 1), edges[-1]) for name in names], 100_000):
        index = next((i for i in range(len(counted)) if edges[i] <= due.due < edges[i + 1]), None)
        if index is not None and counted[index] < most:
            counted[index] += 1
    return counted


def recent(store: Store, topic: str | None, since: int, limit: int) -> list[Ended]:
    if hasattr(store, "recent"):
        return store.recent(topic, since, limit)
    ended = []
    for job in store.jobs(Filter(topic), 0, 100_000):
        if job.state.live:
            continue
        last = store.history(job.id)[-1]
        if last.ended and last.ended >= since:
            ended.append(
                Ended(job.id, job.topic, job.key, job.state, job.due, last.started, last.ended, job.attempt, last.worker)
            )
    return sorted(ended, key=lambda each: -each.ended)[:limit]
