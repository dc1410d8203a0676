"""Readings for people: what is coming, and what has just ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

from ..pages import lazily_merged
from ..readings import FORECAST, Ended, cap, in_buckets
from .lists import Rows
from .queries import Reader
from .transaction import FINISHED

__all__ = ["forecast", "recent"]

_Place = tuple[int, int]  # when a job ended, and which


def forecast(reader: Reader, edges: Sequence[int], topic: str | None, most: int) -> list[int]:
    """Return how many delayed jobs are due between edges: of each topic only the first are read, but of a large one."""
    if len(edges) < 2:
        return []
    number = None if topic is None else reader.topic(topic)
    if topic is not None:
        return [0] * (len(edges) - 1) if number is None else _counted(reader.rows, [number], edges, most)
    return reader.at_one_time(lambda rows: _of_all(rows, edges, most))


def _of_all(rows: Rows, edges: Sequence[int], most: int) -> list[int]:
    [[topics]] = rows("count_topics", {})
    share = max(FORECAST // max(topics, 1), 1)
    [[found]] = rows("forecast_topics", {"first": edges[0], "end": edges[-1], "share": share})
    parts: list[tuple[int, list[int]]] = json.loads(found)
    small = in_buckets(chain.from_iterable(dues for _, dues in parts if len(dues) < share), edges)
    large = [topic for topic, dues in parts if len(dues) == share]
    others = _counted(rows, large, edges, most) if large else [0] * len(small)
    return [min(one + other, most) for one, other in zip(small, others, strict=True)]


def _counted(rows: Rows, topics: Sequence[int], edges: Sequence[int], most: int) -> list[int]:
    """Return how many jobs of some topics are due between edges, as far as one counts."""
    spans = json.dumps(list(pairwise(edges)))
    [[found]] = rows("forecast", {"topics": json.dumps(topics), "spans": spans, "most": cap(edges, most)})
    counts: list[int] = json.loads(found)
    return counts


def recent(reader: Reader, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return the jobs that ended last, the last one first."""
    number = None if topic is None else reader.topic(topic)
    if topic is not None and number is None:
        return []
    return reader.at_one_time(lambda rows: _recent(rows, number, since, limit))


def _recent(rows: Rows, topic: int | None, since: int, limit: int) -> list[Ended]:
    def behind(kind: tuple[int, int], after: _Place, some: int) -> list[_Place]:
        span: dict[str, Any] = {"ended": after[0], "job": after[1], "since": since, "limit": some}
        [[found]] = rows("recent_behind", {**span, "topic": kind[0], "outcome": kind[1]})
        return [(ended, job) for ended, job in json.loads(found)]

    [[found]] = rows("recent_firsts", {"topic": topic, "since": since, "limit": limit})
    firsts = [((ended, job), (number, outcome)) for ended, job, number, outcome in json.loads(found)]
    places = lazily_merged(firsts, behind, limit, newest=True)
    return [
        Ended(id, name, key, FINISHED[state], *rest)
        for id, name, key, state, *rest in rows("recent", (json.dumps([job for _, job in places]),))
    ]
