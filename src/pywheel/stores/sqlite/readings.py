"""Readings for people: what is coming, and what has just ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, Final

from ..readings import FORECAST, Ended, cap, in_buckets
from .lists import Rows
from .queries import Reader
from .transaction import FINISHED

__all__ = ["forecast", "recent"]

_ROWS: Final = FORECAST // 2  # jobs that are read of all topics together: it costs less than to count edge by edge
_LEAST: Final = 10  # and of each, at least
_CHUNKS: Final = (0, 8, 64, None)  # of topics, in which what is due is counted: where it is much, the first are enough


def forecast(reader: Reader, edges: Sequence[int], topic: str | None, most: int) -> list[int]:
    """Return how many delayed jobs are due between edges. Of each topic only the first are read, but of a large one."""
    if len(edges) < 2:
        return []
    number = None if topic is None else reader.topic(topic)
    if topic is not None and number is None:
        return [0] * (len(edges) - 1)
    return reader.at_one_time(lambda rows: _Forecast(rows, edges, most)(number))


class _Forecast:
    """Counts what is due between edges, at one moment."""

    def __init__(self, rows: Rows, edges: Sequence[int], most: int) -> None:
        self._rows = rows
        self._edges = edges
        self._most = most
        self._span: dict[str, Any] = {"first": edges[0], "end": edges[-1], "rows": _ROWS, "least": _LEAST}

    def __call__(self, topic: int | None) -> list[int]:
        [[self._span["idle"]]] = self._rows("forecast_idle", {"first": self._edges[0], "topic": topic})
        if topic is not None:
            return self._counted([topic])
        [[found]] = self._rows("forecast_topics", self._span)
        parts: list[tuple[int, list[int] | None]] = json.loads(found)
        offsets = chain.from_iterable(dues for _, dues in parts if dues)
        small = in_buckets(offsets, [edge - self._edges[0] for edge in self._edges])
        large = self._counted([number for number, dues in parts if dues is None])
        return [min(one + other, self._most) for one, other in zip(small, large, strict=True)]

    def _counted(self, topics: Sequence[int]) -> list[int]:
        """Return how many jobs of some topics are due between edges, as far as one counts. The largest come first."""
        counts, limit = [0] * (len(self._edges) - 1), cap(self._edges, self._most)
        for first, last in pairwise(_CHUNKS):
            some = topics[first:last]
            places = [place for place, jobs in enumerate(counts) if jobs < limit]
            if some and places:
                spans = json.dumps([self._edges[place : place + 2] for place in places])
                [[found]] = self._rows(
                    "forecast", {**self._span, "topics": json.dumps(some), "spans": spans, "most": limit}
                )
                for place, jobs in zip(places, json.loads(found), strict=True):
                    counts[place] = min(counts[place] + jobs, limit)
        return counts


def recent(reader: Reader, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return the jobs that ended last, the last one first."""
    number = None if topic is None else reader.topic(topic)
    if limit == 0 or (topic is not None and number is None):
        return []
    span: dict[str, Any] = {"topic": number, "since": since, "limit": limit}
    name = "recent_anywhere" if number is None else "recent_of_topic"
    found = reader.at_one_time(lambda rows: rows("recent", rows(name, span)[0]))
    return [Ended(id, name, key, FINISHED[state], *rest) for id, name, key, state, *rest in found]
