"""How many jobs are due when, in a bounded time, where they lie by topic and due time.

The largest topics are counted first, edge by edge: where much is due, that is enough. Of the others the first jobs of
each are read in one go, and only those that have more are counted too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Final

from ..jobs.queries import FORECAST_MOST
from .readings import in_buckets

__all__ = ["Forecast", "open_runs"]

_LARGEST: Final = 8
_ROWS: Final = FORECAST_MOST // 2  # jobs read of all other topics together
_LEAST: Final = 10  # and of each, at least
_RUNS: Final = 3  # parts of the time that are read each by itself
_CHUNK: Final = 64  # topics that are counted at once


class Forecast(ABC):
    """Counts what is due between edges. Topics are numbers."""

    def __init__(self, edges: Sequence[int], cap: int) -> None:
        self._edges = edges
        self._limit = cap
        self._counts = [0] * (len(edges) - 1)

    @abstractmethod
    def topics(self) -> list[int]:
        """Return all topics, those with the most jobs first."""

    @abstractmethod
    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> Sequence[int]:
        """Return how many jobs of all these topics together are due in each span, up to `most`."""

    @abstractmethod
    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return when the jobs of these topics are due within a span, and which of the topics have more than `share`.

        Of those no job is among them.
        """

    def __call__(self, topic: int | None) -> list[int]:
        """Return the numbers, of one topic or of all."""
        topics = self.topics() if topic is None else [topic]
        self._count(topics[:_LARGEST], range(len(self._counts)))
        topics = topics[_LARGEST:]
        runs = open_runs(self._counts, self._limit) if topics else []
        share = max(_ROWS // max(len(topics) * len(runs), 1), _LEAST)
        for run in runs:
            others = self._count_few(topics, run, share)
            for first in range(0, len(others), _CHUNK):
                self._count(others[first : first + _CHUNK], run)
        return self._counts

    def _add(self, places: Sequence[int], counts: Sequence[int]) -> None:
        for place, jobs in zip(places, counts, strict=True):
            self._counts[place] = min(self._counts[place] + jobs, self._limit)

    def _count(self, topics: Sequence[int], run: range) -> None:
        """Count jobs of some topics edge by edge."""
        places = [place for place in run if self._counts[place] < self._limit]
        if topics and places:
            spans = [(self._edges[place], self._edges[place + 1]) for place in places]
            self._add(places, self.count(topics, spans, self._limit))

    def _count_few(self, topics: Sequence[int], run: range, share: int) -> list[int]:
        """Count jobs of those topics that have few; return the others."""
        edges = self._edges[run.start : run.stop + 1]
        dues, others = self.few(topics, (edges[0], edges[-1]), share)
        self._add(run, in_buckets(chain.from_iterable(dues), edges))
        return others


def open_runs(counts: Sequence[int], limit: int) -> list[range]:
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
