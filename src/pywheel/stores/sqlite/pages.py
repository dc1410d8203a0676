"""Pages of lists by a filter, for readers who want no more than they see.

Dead and cancelled jobs have an index by id, jobs with a key one by key, live ones one by due time. Live and done jobs
have none by id, as each put and ack would pay for it: where there are few, all are read, else a bounded number of all
jobs is walked through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple

from ...jobs.job import State
from ..checks import clamped
from ..pages import ROWS, Asked, Looked, Page, Position, paged
from .lists import Rows
from .queries import Reader, job_of
from .transaction import FINISHED

__all__ = ["page"]

_FEW: Final = 16_000  # entries of an index that are read for one page
_WALK: Final = 10_000  # jobs that are walked through for one page
_LARGE: Final = 65_536  # bytes of a body of which a part is not read by SQL, which reads all of it
_LIVE: Final = -1
_COUNTED: Final = (State.DELAYED, State.DONE, State.CANCELLED, State.DEAD)


class _Found(NamedTuple):
    """Places of jobs that may be meant, in order."""

    places: Sequence[Position]
    last: Position | None = None  # up to which was looked, if further than these
    more: bool | None = None  # whether there may be more, if not just as these are as many as wanted
    rows: int = 0  # looked at, beside these


def page(reader: Reader, wanted: Asked, now: int) -> Page:
    """Return a page of a list."""
    filter = wanted.filter
    topic = None if filter.topic is None else reader.topic(filter.topic)
    if topic is None and filter.topic is not None:
        return Page([], None)
    dues = [None if due is None else clamped(due) for due in (filter.due_from, filter.due_until)]
    asked = {"topic": topic, "until": wanted.until, "now": now, "key": filter.key, "error": filter.error}
    asked |= {"due_from": dues[0], "due_until": dues[1]}

    def look(after: Position, size: int) -> Looked:
        span = {**asked, "due": after.due, "id": after.id, "limit": size}
        return reader.at_one_time(lambda rows: _looked(rows, wanted, span, now))

    return paged(wanted, look, partial(_bodies, reader, wanted.preview))


def _looked(rows: Rows, wanted: Asked, span: dict[str, Any], now: int) -> Looked:
    found = _places(partial(_run, rows, wanted.newest), wanted, span)
    ids = [place.id for place in found.places]
    heads = [job_of(row, now) for row in rows("page_heads", {**span, "ids": json.dumps(ids)})] if ids else []
    after = found.places[-1] if found.places else Position(span["due"], span["id"])
    more = len(ids) >= span["limit"] if found.more is None else found.more
    # A head has the body's size in the body's place.
    jobs = [(job._replace(body=b""), int(job.body)) for job in heads]
    return Looked(jobs, len(ids) + found.rows, found.last or after, more)


Run = Callable[[str, Mapping[str, Any]], Any]
"""Returns what a statement finds in the direction of the list, out of JSON; None if that is no row."""


def _run(rows: Rows, newest: bool, name: str, span: Mapping[str, Any]) -> Any:
    found = rows(f"{name}_down" if newest else name, dict(span))
    return json.loads(found[0][0]) if found and isinstance(found[0][0], str) else found[0][0] if found else None


def _places(run: Run, wanted: Asked, span: dict[str, Any]) -> _Found:
    """Return up to `limit` places of jobs that may be meant."""
    if wanted.by_due:
        return _by_due(run, span)
    if wanted.filter.key is not None:
        return _by_key(run, wanted, span)
    match wanted.filter.state:
        case None | State.DELAYED | State.DONE as state:
            return _unindexed(run, state, wanted, span)
        case State.RUNNING:
            return _Found(_ids(run, "page_running", {**span, "over": 0}))
        case State.DEAD:
            lost = _ids(run, "page_running", {**span, "over": 1})
            dead = _finished(run, State.DEAD, span)
            both = sorted({*lost, *dead}, reverse=wanted.newest)
            return _Found(both[: span["limit"]])
        case state:
            return _Found(_finished(run, state, span))


def _ids(run: Run, name: str, span: Mapping[str, Any]) -> list[Position]:
    return [Position(0, id) for id in run(name, span)]


def _by_due(run: Run, span: dict[str, Any]) -> _Found:
    places = run("page_due_anywhere" if span["topic"] is None else "page_due", span)
    return _Found([Position(*place) for place in places])


def _by_key(run: Run, wanted: Asked, span: dict[str, Any]) -> _Found:
    topics = run("page_keyed_topics", span) if span["topic"] is None else [span["topic"]]
    found = [place for topic in topics for place in _ids(run, "page_keyed", {**span, "topic": topic})]
    return _Found(sorted(found, reverse=wanted.newest)[: span["limit"]])


def _finished(run: Run, state: State, span: dict[str, Any]) -> list[Position]:
    """Return dead or cancelled jobs."""
    name = "page_finished_anywhere" if span["topic"] is None else "page_finished"
    return _ids(run, name, {**span, "state": FINISHED.index(state)})


def _unindexed(run: Run, state: State | None, wanted: Asked, span: dict[str, Any]) -> _Found:
    """Return live jobs, done ones, or all of a topic: none of these has an index by id."""
    kinds = _COUNTED if state is None else (state,)
    if state is not None or span["topic"] is not None:
        sizes = dict(zip(_COUNTED, run("page_sizes", span), strict=True))
        if sum(sizes[kind] for kind in kinds) <= _FEW:
            return _Found(_few(run, kinds, wanted, span))
    span = {**span, "rows": _WALK, "state": {None: None, State.DELAYED: _LIVE, State.DONE: 0}[state]}
    found = _ids(run, "page_walk", span)
    if len(found) >= span["limit"]:
        return _Found(found)
    end = run("page_walked", span)
    return _Found(found, None if end is None else Position(0, end), end is not None, ROWS)


def _few(run: Run, kinds: Sequence[State], wanted: Asked, span: dict[str, Any]) -> list[Position]:
    """Return jobs of kinds of which there are few."""
    read = {State.DELAYED: "page_few_live", State.DONE: "page_few_done"}
    parts = [_ids(run, read[kind], span) if kind in read else _finished(run, kind, span) for kind in kinds]
    return list(islice(merge(*parts, reverse=wanted.newest), span["limit"]))


# ---- bodies ---------------------------------------------------------------------------------------------------------


def _bodies(reader: Reader, preview: int | None, ids: Sequence[int]) -> dict[int, tuple[int, bytes]]:
    """Return the sizes of bodies, and what is wanted of them."""
    rows = reader.rows("page_bodies", {"ids": json.dumps(ids), "preview": preview, "large": _LARGE})
    return {id: (size, reader.beginning(id, preview or 0) if body is None else body) for id, size, body in rows}
