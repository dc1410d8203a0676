"""Pages of several stores: each is asked for one, and they are merged as far as all were looked through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any

from ..pages import BYTES, Asked, Page, Position, asked
from .ids import Ids
from .inner import Inner
from .parts import outer_job

__all__ = ["page"]


def page(
    ids: Ids,
    stores: Sequence[tuple[int, Inner]],
    together: Callable[[Sequence[Callable[[], Page]]], list[Page]],
    wanted: Asked,
) -> Page:
    """Return a page of these stores."""
    filter, limit, preview, newest = wanted.filter, wanted.limit, wanted.preview, wanted.newest
    calls = [
        partial(store.page, filter, wanted.cursor(_inner(ids, number, wanted)), limit, preview=preview, newest=newest)
        for number, store in stores
    ]
    parts: list[list[Any]] = []
    ends: list[Position] = []
    for (number, _), found in zip(stores, together(calls), strict=True):
        jobs = [outer_job(ids, number, job) for job in found.jobs]
        parts.append([(wanted.place(job), job, size) for job, size in zip(jobs, found.sizes, strict=True)])
        if found.next is not None:
            last = asked(filter, found.next, limit, preview, newest=newest).after
            ends.append(last._replace(id=ids.outer(number, last.id)))
    # Behind this some store was not looked through.
    end: Position | None = None if not ends else max(ends) if newest else min(ends)
    merged = merge(*parts, key=lambda one: one[0], reverse=newest)
    reached = [one for one in merged if end is None or (one[0] >= end if newest else one[0] <= end)]
    taken = list(islice(reached, _most(reached, limit)))
    if len(taken) < len(reached):
        end = taken[-1][0]
    return Page([job for _, job, _ in taken], None if end is None else wanted.cursor(end), [size for *_, size in taken])


def _most(found: Sequence[Any], limit: int) -> int:
    """Return how many of these a page may hold."""
    held = 0
    for place, (_, job, _) in enumerate(found[:limit]):
        held += len(job.body)
        if held >= BYTES:
            return place + 1
    return limit


def _inner(ids: Ids, store: int, wanted: Asked) -> Position:
    """Return the place in one store behind which its jobs are those behind a place for everybody."""
    due, id = wanted.after
    return Position(due, ids.after(store, id - 1) + 1 if wanted.newest else max(ids.after(store, id), 0))
