"""Readings for people: what is coming, what has just ended, what waits longest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._errors import BadJob
from ..jobs.checks import MOST, whole
from ..jobs.job import Outcome, State
from .filters import Filter

if TYPE_CHECKING:
    from .contract import Store

__all__ = [
    "FORECAST",
    "Ended",
    "cap",
    "edges_of",
    "forecast_of_all",
    "in_buckets",
    "latest",
    "most_of",
    "recent_of_all",
]

FORECAST: Final = 30_000
"""So many jobs are counted for a forecast at most."""
RECENT: Final = 1_000
"""The most that `recent` returns."""
_EDGES: Final = 1_000
_SOME: Final = 500  # jobs listed at once


class Ended(NamedTuple):
    """A job that has ended, and its last attempt."""

    id: int
    topic: str
    key: str | None
    state: State  # done, dead or cancelled
    due: int
    started: int | None  # when its last attempt did; None if it was cancelled
    ended: int
    attempt: int
    worker: str | None
    error: str | None  # why that attempt failed

    @property
    def lateness(self) -> int | None:
        """How long after it was due its last attempt started, in ms."""
        return None if self.started is None else self.started - self.due


# ---- arguments -------------------------------------------------------------------------------------------------------


def edges_of(edges: Sequence[int], most: int) -> list[int]:
    """Return edges as a store can compare them. BadJob if they are none."""
    whole(most, "most", MOST)
    if len(edges) > _EDGES + 1:
        raise BadJob(f"a forecast has {_EDGES} numbers at most, not {len(edges) - 1}")
    for edge in edges:
        whole(edge, "an edge", MOST, -MOST)
    if any(later <= earlier for earlier, later in pairwise(edges)):
        raise BadJob("the edges of a forecast ascend")
    return list(edges)


def cap(edges: Sequence[int], most: int) -> int:
    """Return how many jobs are counted between two of these edges."""
    return min(most, max(FORECAST // max(len(edges) - 1, 1), 1))


def most_of(limit: int) -> int:
    """Return how many of the recent ones are wanted. BadJob if it is no number."""
    return min(whole(limit, "limit", MOST, 0), RECENT)


def in_buckets(dues: Iterable[int], edges: Sequence[int]) -> list[int]:
    """Return how many due times lie between each two edges."""
    ordered = sorted(dues)
    places = [bisect_left(ordered, edge) for edge in edges]
    return [after - before for before, after in pairwise(places)]


def latest(found: Iterable[Ended], limit: int) -> list[Ended]:
    """Return those that ended last, the last one first."""
    return nlargest(limit, found, key=_when)


def _when(ended: Ended) -> tuple[int, int]:
    return ended.ended, ended.id


# ---- for stores that have only what they must ------------------------------------------------------------------------


def forecast_of_all(store: Store, edges: Sequence[int], topic: str | None, most: int) -> list[int]:
    """Return a forecast of a store that only lists jobs. O(jobs)."""
    if len(edges) < 2:
        return []
    return [min(jobs, most) for jobs in in_buckets(_dues(store, topic, edges[0], edges[-1]), edges)]


def _dues(store: Store, topic: str | None, first: int, end: int) -> Iterable[int]:
    after = 0
    while some := store.jobs(Filter(topic, State.DELAYED, due_from=first, due_until=end - 1), after, _SOME):
        yield from (job.due for job in some)
        after = some[-1].id


def recent_of_all(store: Store, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return what ended last in a store that only lists jobs. O(jobs)."""
    return latest((one for one in _ended(store, topic) if one.ended >= since), limit)


def _ended(store: Store, topic: str | None) -> Iterable[Ended]:
    for state in (State.DONE, State.DEAD, State.CANCELLED):
        after = 0
        while some := store.jobs(Filter(topic, state), after, _SOME):
            for job, history in zip(some, store.histories([job.id for job in some]), strict=True):
                if history and history[-1].ended is not None:
                    last: Any = history[-1]
                    error = last.error if last.outcome is Outcome.FAILED else None
                    where = (job.id, job.topic, job.key, job.state, job.due)
                    yield Ended(*where, last.started, last.ended, last.attempt, last.worker, error)
            after = some[-1].id
