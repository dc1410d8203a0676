"""Readings for people: what is coming, and what has just ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from ..readings import FORECAST, Ended, cap, in_buckets
from .lists import Rows
from .queries import Reader
from .transaction import FINISHED

__all__ = ["forecast", "recent"]

_LARGEST: Final = 8  # topics in which jobs are counted first: where much is due, that is enough
_ROWS: Final = FORECAST // 2  # jobs read of all other topics together, which costs less than to count edge by edge
_LEAST: Final = 10  # and of each, at least
_CHUNK: Final = 64  # topics with many jobs that are counted at once


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
        self._limit = cap(edges, most)
        self._counts = [0] * (len(edges) - 1)
        self._idle: int = 0

    def __call__(self, topic: int | None) -> list[int]:
        [[self._idle]] = self._rows("forecast_idle", {"first": self._edges[0], "topic": topic})
        topics = [topic] if topic is not None else json.loads(self._rows("forecast_topics", {})[0][0])
        self._count(topics[:_LARGEST])
        others = self._count_few(topics[_LARGEST:])
        for first in range(0, len(others), _CHUNK):
            self._count(others[first : first + _CHUNK])
        return self._counts

    def _open(self) -> list[int]:
        """Return the places between which one still counts."""
        return [place for place, jobs in enumerate(self._counts) if jobs < self._limit]

    def _add(self, places: Sequence[int], counts: Sequence[int]) -> None:
        for place, jobs in zip(places, counts, strict=True):
            self._counts[place] = min(self._counts[place] + jobs, self._limit)

    def _count(self, topics: Sequence[int]) -> None:
        """Count jobs of some topics edge by edge."""
        places = self._open()
        if topics and places:
            spans = json.dumps([self._edges[place : place + 2] for place in places])
            asked = {"topics": json.dumps(topics), "spans": spans, "most": self._limit, "idle": self._idle}
            [[found]] = self._rows("forecast", asked)
            self._add(places, json.loads(found))

    def _count_few(self, topics: Sequence[int]) -> list[int]:
        """Count jobs of those topics that have few; return the others."""
        places = self._open()
        if not topics or not places:
            return []
        edges = self._edges[places[0] : places[-1] + 2]
        share = max(_ROWS // len(topics), _LEAST)
        asked = {"topics": json.dumps(topics), "first": edges[0], "end": edges[-1], "share": share, "idle": self._idle}
        parts: list[tuple[int, list[int] | None]] = json.loads(self._rows("forecast_few", asked)[0][0])
        offsets = chain.from_iterable(dues for _, dues in parts if dues)
        self._add(range(places[0], places[-1] + 1), in_buckets(offsets, [edge - edges[0] for edge in edges]))
        return [number for number, dues in parts if dues is None]


def recent(reader: Reader, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return the jobs that ended last, the last one first."""
    number = None if topic is None else reader.topic(topic)
    if limit == 0 or (topic is not None and number is None):
        return []
    span: dict[str, Any] = {"topic": number, "since": since, "limit": limit}
    name = "recent_anywhere" if number is None else "recent_of_topic"
    found = reader.at_one_time(lambda rows: rows("recent", rows(name, span)[0]))
    return [Ended(id, name, key, FINISHED[state], *rest) for id, name, key, state, *rest in found]
