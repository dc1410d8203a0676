"""The forecast: how many jobs are due in each part of the next minute, hour and day."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..jobs.queries import FORECAST_MOST, GetForecast
from ..stores.contract import Store


class Horizon(NamedTuple):
    """A stretch of time from now on, in equal parts."""

    name: str
    step: int  # ms of a part
    parts: int
    every: int  # ms for which a count is good enough
    at_once: int  # parts in one query: with fewer, each is counted further

    @property
    def most(self) -> int:
        """The largest count of a part. It bounds the cost of a look."""
        return FORECAST_MOST // self.at_once


HORIZONS: Final = (
    Horizon("minute", 1_000, 60, 1_000, 30),
    Horizon("hour", 60_000, 60, 10_000, 15),
    Horizon("day", 1_800_000, 48, 30_000, 6),
)


class Part(NamedTuple):
    """The jobs that are due within a horizon."""

    horizon: Horizon
    start: int  # ms; parts begin on whole seconds, minutes or half hours, but the first begins now
    counts: tuple[int, ...]  # one part more if the first and the last are cut

    @property
    def total(self) -> int:
        """How many jobs, at least."""
        return sum(self.counts)


class Coming(NamedTuple):
    """The jobs that are overdue, and those within each horizon."""

    overdue: int
    overdue_capped: bool
    parts: tuple[Part, ...]


_OVERDUE_MOST: Final = 10_000


class Forecaster:
    """The source of forecasts, which remembers the farther horizons for a while. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str | None, dict[str, tuple[int, Part]]] = {}

    def look(self, store: Store, topic: str | None, at: int) -> Coming:
        """Return the forecast of a topic, or of all topics for None. O(jobs that are counted)."""
        known = self._known.setdefault(topic, {})
        parts = []
        for horizon in HORIZONS:
            looked, part = known.get(horizon.name, (0, None))
            if part is None or not 0 <= at - looked < horizon.every:
                start = at - at % horizon.step
                between = range(start + horizon.step, at + horizon.parts * horizon.step, horizon.step)
                edges = [at, *between, at + horizon.parts * horizon.step]  # earlier jobs are overdue
                part = Part(horizon, start, tuple(_counted(store, horizon, edges, topic)))
                known[horizon.name] = at, part
            parts.append(part)
        if len(self._known) > 100:
            self._known = {topic: known}
        [overdue] = store.ask(GetForecast([0, at], topic, _OVERDUE_MOST))
        return Coming(overdue, overdue >= _OVERDUE_MOST, tuple(parts))


def _counted(store: Store, horizon: Horizon, edges: list[int], topic: str | None) -> Iterator[int]:
    for first in range(0, len(edges) - 1, horizon.at_once):
        yield from store.ask(GetForecast(edges[first : first + horizon.at_once + 1], topic, horizon.most))
