"""How many jobs are due when, in a bounded time.

The jobs of the largest topics are counted first, edge by edge: where much is due, that is enough. Those of the others
are read in one go for many topics, up to a number, and counted edge by edge only where there are more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from ...jobs.queries import FORECAST_MOST, GetForecast
from .read import priorities_of
from .statement import Rows, Select, Steps
from .transaction import LIVE, Lookup

__all__ = ["forecast"]

_LARGEST: Final = 8  # topics that are counted edge by edge
_TOGETHER: Final = 256  # topics with a priority each that are read at once
_READ: Final = FORECAST_MOST // 2  # jobs that are read of all those
_DUES: Final = (
    "SELECT j.next FROM {w: topic, priority} {then} job j ON j.topic = w.topic AND j.priority = w.priority "
    "WHERE j.state = 0 AND j.next >= :first AND j.next < :end LIMIT :most"
)
_COUNT: Final = f"SELECT count(*) FROM ({_DUES}) c"

_RUNS: Final = 3  # parts of the time that are read each by itself

_Group = tuple[int, int]  # a topic and a priority


def forecast(known: Lookup, query: GetForecast) -> Steps[list[int]]:
    """Return how many delayed jobs are due between each two edges."""
    edges = query.edges
    if len(edges) < 2:
        return []
    counts = _Counts(edges, query.cap)
    largest, others = yield from _groups(known, query.topic)
    yield from counts.each(largest, range(len(edges) - 1))
    parts = [others[at : at + _TOGETHER] for at in range(0, len(others), _TOGETHER)]
    for run in _open_runs(counts.found, counts.limit) if parts else ():
        for part in parts:
            yield from counts.together(part, run, _READ // len(parts))
    return counts.found


def _groups(known: Lookup, topic: str | None) -> Steps[tuple[list[_Group], list[_Group]]]:
    """Return what has jobs: of the topics with the most live ones, and of all others."""
    where = "" if topic is None else "WHERE name = :name"
    names, *sums = yield (
        Rows("id name lanes", f"SELECT id, name, lanes FROM topic {where}", {"name": topic}),
        *known.tallies,
    )
    known.topics.learn({name: id for id, name, _ in names})
    live: Counter[int] = Counter()
    for rows in sums:
        for row in rows:
            live[row[0]] += int(row[1 + LIVE])
    ordered = sorted(names, key=lambda row: (-live[row[0]], row[0]))
    return _of(ordered[:_LARGEST]), _of(ordered[_LARGEST:])


def _of(topics: Sequence[tuple[int, str, int]]) -> list[_Group]:
    return [(id, priority) for id, _, lanes in topics for priority in priorities_of(lanes)]


def _values(groups: Sequence[_Group], first: int, end: int, most: int) -> dict[str, Any]:
    return {"w": groups, "first": first, "end": end, "most": most}


class _Counts:
    """How many jobs were found between each two edges, up to a limit."""

    def __init__(self, edges: Sequence[int], limit: int) -> None:
        self.found = [0] * (len(edges) - 1)
        self._edges = edges
        self.limit = limit

    def each(self, groups: Sequence[_Group], run: range) -> Steps[None]:
        """Count jobs edge by edge, where not enough were found."""
        spans = list(pairwise(self._edges))
        places = [place for place in run if self.found[place] < self.limit]
        if groups and places:
            counted = yield [Select(_COUNT, _values(groups, *spans[place], self.limit)) for place in places]
            self._add(places, [rows[0][0] for rows in counted])

    def together(self, groups: Sequence[_Group], run: range, most: int) -> Steps[None]:
        """Count jobs by reading when all are due, or edge by edge if there are too many for that."""
        edges = self._edges[run.start : run.stop + 1]
        [rows] = yield (Rows("next", _DUES, _values(groups, edges[0], edges[-1], most)),)
        if len(rows) < most:
            self._add(run, _in_buckets([due for [due] in rows], edges))
        else:
            yield from self.each(groups, run)

    def _add(self, places: Sequence[int], counts: Sequence[int]) -> None:
        for place, jobs in zip(places, counts, strict=True):
            self.found[place] = min(self.found[place] + jobs, self.limit)


def _open_runs(counts: Sequence[int], limit: int) -> list[range]:
    """Return the places where one still counts, as fewer than `limit` were found, those side by side together.

    What lies between them is not read: most jobs may be due there.
    """
    runs: list[range] = []
    for place, jobs in enumerate(counts):
        if jobs >= limit:
            continue
        if runs and runs[-1].stop == place:
            runs[-1] = range(runs[-1].start, place + 1)
        else:
            runs.append(range(place, place + 1))
    return runs if len(runs) <= _RUNS else [range(runs[0].start, runs[-1].stop)]


def _in_buckets(dues: Sequence[int], edges: Sequence[int]) -> list[int]:
    """Return how many due times lie between each two edges."""
    ordered = sorted(dues)
    places = [bisect_left(ordered, edge) for edge in edges]
    return [after - before for before, after in pairwise(places)]
