"""Readings for people: what is coming, and what has just ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..forecast import Forecast
from ..readings import Ended
from .lists import Rows
from .queries import Reader
from .transaction import FINISHED

__all__ = ["forecast", "recent"]


def forecast(reader: Reader, edges: Sequence[int], topic: str | None, most: int) -> list[int]:
    """Return how many delayed jobs are due between edges."""
    if len(edges) < 2:
        return []
    number = None if topic is None else reader.topic(topic)
    if topic is not None and number is None:
        return [0] * (len(edges) - 1)
    return reader.at_one_time(lambda rows: _Forecast(rows, edges, most, number)(number))


class _Forecast(Forecast):
    """Counts what is due, at one moment."""

    def __init__(self, rows: Rows, edges: Sequence[int], most: int, topic: int | None) -> None:
        super().__init__(edges, most)
        self._rows = rows
        [[self._idle]] = rows("forecast_idle", {"first": edges[0], "topic": topic})

    def topics(self) -> list[int]:
        """Return all topics."""
        found: list[int] = json.loads(self._rows("forecast_topics", {})[0][0])
        return found

    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> list[int]:
        """Return how many jobs are due in each span."""
        asked = {"topics": json.dumps(topics), "spans": json.dumps(spans), "most": most, "idle": self._idle}
        found: list[int] = json.loads(self._rows("forecast", asked)[0][0])
        return found

    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return the due times of jobs, and the topics with many."""
        asked = {"topics": json.dumps(topics), "first": span[0], "end": span[1], "share": share, "idle": self._idle}
        parts: list[tuple[int, list[int] | None]] = json.loads(self._rows("forecast_few", asked)[0][0])
        return [dues for _, dues in parts if dues], [topic for topic, dues in parts if dues is None]


def recent(reader: Reader, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return the jobs that ended last, the last one first."""
    number = None if topic is None else reader.topic(topic)
    if limit == 0 or (topic is not None and number is None):
        return []
    span: dict[str, Any] = {"topic": number, "since": since, "limit": limit}
    name = "recent_anywhere" if number is None else "recent_of_topic"
    found = reader.at_one_time(lambda rows: rows("recent", rows(name, span)[0]))
    return [Ended(id, name, key, FINISHED[state], *rest) for id, name, key, state, *rest in found]
