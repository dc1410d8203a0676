"""Lists of jobs by a filter.

Cancelled and dead jobs have an index by id, jobs with a key one by key. Live and done jobs, mostly many, have none by
id, as each put and ack would pay for it. So the jobs themselves are looked through, from where the list begins, in
pieces; and once that is dearer than an index that holds all of the wanted kind, this is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, Final

from ...jobs.job import Job, State
from ..checks import clamped
from ..contract import Filter
from .transaction import FINISHED

__all__ = ["listed"]

_PAGE: Final = 20  # jobs read at once, at least
_LOOSE: Final = 200  # the same where most of them may not fit
_LARGEST: Final = 2_000
_MOST: Final = 2**31
_PIECE: Final = 10_000  # jobs that are looked through first
_DEARER: Final = 4  # so many entries of an index are read in the time of one job
_LAST: Final = 2**63 - 1

Rows = Callable[[str, Any], list[Any]]
Page = Callable[[Callable[[Rows], list[int]]], tuple[list[int], list[Job]]]
"""Takes what chooses ids, by running statements; returns these, and their jobs."""


def listed(page: Page, filter: Filter, topic: int | None, after: int, limit: int, now: int) -> list[Job]:
    """Return up to `limit` jobs behind an id. `page` reads some, of one moment; between two others get their turn."""
    limit = min(clamped(limit), _MOST)
    loose = filter.due_from is not None or filter.due_until is not None or filter.error is not None
    span: dict[str, Any] = {"topic": topic, "after": clamped(after), "now": now, "key": filter.key}
    found: list[Job] = []
    while len(found) < limit:
        size = span["limit"] = min(max(limit - len(found), _LOOSE if loose else _PAGE), _LARGEST)
        ids, jobs = page(partial(_candidates, filter=filter, span=span))
        found += [job for job in jobs if filter.fits(job)]
        if len(ids) < size:
            break
        span["after"] = ids[-1]
    return found[: max(limit, 0)]


def _candidates(rows: Rows, filter: Filter, span: dict[str, Any]) -> list[int]:
    """Return up to `limit` ids of jobs that may be meant, by id; fewer only if there are no more."""
    if filter.key is not None:
        return _ids(rows, "ids_of_key", span)
    match filter.state:
        case None if span["topic"] is None:
            return _ids(rows, "ids_between", {**span, "until": _LAST})
        case None:
            return _of_topic(rows, span)
        case State.DELAYED:
            return _live(rows, span)
        case State.DONE:
            return _done(rows, span)
        case State.RUNNING:
            return _ids(rows, "ids_running", {**span, "over": 0})
        case State.DEAD:
            return _first_of(span, _finished(rows, State.DEAD, span), _ids(rows, "ids_running", {**span, "over": 1}))
        case state:
            return _finished(rows, state, span)


def _ids(rows: Rows, name: str, span: dict[str, Any]) -> list[int]:
    ids: list[int] = json.loads(rows(name, span)[0][0])
    return ids


def _first_of(span: dict[str, Any], *sources: list[int]) -> list[int]:
    """Return the first ids of several lists."""
    return list(islice(merge(*sources), span["limit"]))


def _of_topic(rows: Rows, span: dict[str, Any]) -> list[int]:
    """Return the ids of a topic's jobs, in whatever state."""
    near, complete = _look(rows, "ids_between_of_topic", span, lambda live, done: live + done)
    if complete:
        return near
    anyhow = {**span, "now": -_LAST}  # no lease is over then
    kinds = ("ids_live_of_topic", "ids_running", "ids_done")
    finished = [_finished(rows, state, span) for state in (State.CANCELLED, State.DEAD)]
    return _first_of(span, *(_ids(rows, kind, {**anyhow, "over": 0}) for kind in kinds), *finished)


def _live(rows: Rows, span: dict[str, Any]) -> list[int]:
    """Return the ids of jobs that are not finished, and not running."""
    near, complete = _look(rows, "ids_between_live", span, lambda live, _: live)
    return near if complete else _ids(rows, "ids_live" if span["topic"] is None else "ids_live_of_topic", span)


def _done(rows: Rows, span: dict[str, Any]) -> list[int]:
    """Return the ids of jobs that are done."""
    near, complete = _look(rows, "ids_between_done", span, lambda _, done: done)
    return near if complete else _ids(rows, "ids_done", span)


def _look(rows: Rows, name: str, span: dict[str, Any], kind: Callable[[float, float], float]) -> tuple[list[int], bool]:
    """Look through the jobs that follow, as long as these are no more than the index of the kind would hold.

    Return the ids found, and whether they are enough or all there are.
    """
    [(last, live, done)] = rows("sizes", span)
    after, size, found = span["after"], _PIECE, list[int]()
    while after < last:
        until = min(after + size, last)
        found += _ids(rows, name, {**span, "after": after, "until": until, "limit": span["limit"] - len(found)})
        if len(found) == span["limit"]:
            return found, True
        after, size = until, 2 * size
        if after < last and _DEARER * size > kind(live, done):
            return found, False
    return found, True


def _finished(rows: Rows, state: State, span: dict[str, Any]) -> list[int]:
    """Return the ids of cancelled or dead jobs. Those that come first are of the topics whose first come first."""
    span = {**span, "state": FINISHED.index(state)}
    if span["topic"] is not None:
        return _ids(rows, "ids_finished", span)
    found: list[int] = []
    for first, topic in _firsts(rows, span):
        if len(found) == span["limit"] and first > found[-1]:
            break
        found = _first_of(span, found, _ids(rows, "ids_finished", {**span, "topic": topic}))
    return found


def _firsts(rows: Rows, span: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield for each topic the first of its jobs, in their order, and the topic."""
    yield from json.loads(rows("firsts_finished", span)[0][0])
