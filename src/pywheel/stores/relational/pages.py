"""Pages of jobs and what has ended, from the rows of a database: what readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..checks import clamped
from ..pages import Asked, Bodies, Looked, Page, Position, paged
from ..readings import Ended, latest
from .part import FINISHED
from .reading import part_of

__all__ = ["RECENT_ROWS", "Candidates", "ended", "page", "sifted", "sought"]

RECENT_ROWS: Final = 3_000
"""So many that ended last are looked at for those of one topic: there is no index of these."""


def sifted(
    wanted: Asked, rows: Sequence[Sequence[Any]], size: int, heads: Callable[[Sequence[int]], Sequence[Sequence[Any]]]
) -> Candidates:
    """Return those of up to so many jobs that may be meant. A row: id, due, and whether error and due time fit."""
    places = sorted((Position(due if wanted.by_due else 0, id) for id, due, _ in rows), reverse=wanted.newest)
    fitting = [id for id, _, fits in rows if fits]
    found = heads(fitting) if fitting else ()
    last = places[-1] if places else None
    return Candidates(found, len(rows) >= size, last, len(rows) - len(found))


def sought(wanted: Asked) -> dict[str, Any]:
    """Return what a database looks for in a job itself. No error that is stored has a NUL."""
    filter, error = wanted.filter, wanted.filter.error
    dues = {"due_from": filter.due_from, "due_until": filter.due_until}
    given = {name: None if due is None else clamped(due) for name, due in dues.items()}
    return {**given, "error": None if error is not None and "\0" in error else error}


class Candidates(NamedTuple):
    """The rows of jobs that may be meant, without their bodies."""

    rows: Sequence[Sequence[Any]]
    more: bool  # whether there may be more
    last: Position | None = None  # up to which was looked, if further than these
    looked: int = 0  # jobs looked at beside these


def page(
    wanted: Asked,
    find: Callable[[Position, int, int], Candidates],
    names: Callable[[Sequence[Sequence[Any]]], Mapping[int, str]],
    bodies: Bodies,
    moment: Callable[[], int],
) -> Page:
    """Return a page; `find` gives up to so many jobs behind a place, as they are at a moment."""

    def look(after: Position, size: int) -> Looked:
        now = moment()
        rows, more, last, looked = find(after, size, now)
        part = part_of(rows, names(rows), now)
        found = [(part._record(entry), entry._size) for entry in part.read.values()]
        found.sort(key=lambda one: wanted.place(one[0]), reverse=wanted.newest)
        if last is None:
            last = wanted.place(found[-1][0]) if found else after
        return Looked(found, len(found) + looked, last, more)

    return paged(wanted, look, bodies)


def ended(rows: Iterable[Sequence[Any]], names: Mapping[int, str], limit: int) -> list[Ended]:
    """Return what ended last. A row: id, topic, key, state, due, started, ended, attempt, worker, error."""
    found = (Ended(id, names[topic], key, FINISHED[state], *rest) for id, topic, key, state, *rest in rows)
    return latest(found, limit)
