"""The workloads of the peers: deadlines, and the order in which timers are cancelled. The same for every peer."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SPAN = 60_000  # ticks: a minute of milliseconds
HORIZON = 30  # bits of the longest delay of the `horizons` workload
SAMPLE = 30_000  # timers restarted, or started and cancelled, while the rest is pending

T = TypeVar("T")


class Workload:
    """Random delays for `size` timers, from now = 0."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.random = np.random.default_rng(size)
        self.sample = min(size, SAMPLE)
        self.deadlines: list[int] = self._delays(size).tolist()
        self.more: list[int] = self._delays(self.sample).tolist()
        order = self.random.permutation(size)
        self.order: list[int] = order.tolist()
        moved = np.array(self.deadlines)[order[: self.sample]]
        self.later: list[int] = (moved + self._delays(self.sample)).tolist()
        self.items = list(range(size))

    def _delays(self, count: int) -> NDArray[np.int64]:
        """Return delays: uniform to 60 000 ticks, or, for `horizons`, of every magnitude to 2**30 alike."""
        if self.name == "horizons":
            return (2 ** self.random.uniform(0, HORIZON, count)).astype(np.int64)
        return self.random.integers(1, SPAN + 1, count)

    def shuffled(self, handles: Sequence[T]) -> list[T]:
        """Return the handles in random order."""
        return [handles[i] for i in self.order]

    def sampled(self, handles: Sequence[T]) -> list[T]:
        """Return some of the handles, in random order."""
        return [handles[i] for i in self.order[: self.sample]]

    def steps(self) -> list[int]:
        """Return ticks to advance to: each brings about 16 timers."""
        deadlines = sorted(self.deadlines)
        return sorted({*deadlines[15::16], deadlines[-1]})


@lru_cache(maxsize=1)
def workload(name: str, size: int) -> Workload:
    """Make a workload. The garbage collector leaves it alone, or the peers would pay for its lists."""
    made = Workload(name, size)
    gc.collect()
    gc.freeze()
    return made
