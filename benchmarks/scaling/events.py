"""The clock of the model: a list of events, and the resources that events wait for. Times are seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

Then = Callable[[], None]
Work = Callable[[], float]
"""Begins some work, and returns how long it takes."""


class Events:
    """A caller of functions in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Then]] = []
        self._order = count()

    def after(self, seconds: float, then: Then) -> None:
        """Call a function `seconds` later."""
        self.at(self.now + seconds, then)

    def at(self, when: float, then: Then) -> None:
        """Call a function at a time."""
        heappush(self._heap, (when, next(self._order), then))

    def run(self, until: float, going: Callable[[], bool] = lambda: True) -> None:
        """Run until a time, or as long as `going` says."""
        while self._heap and self._heap[0][0] <= until and going():
            self.now, _, then = heappop(self._heap)
            then()


class Cores:
    """A number of cores that work at once; further work waits in order."""

    def __init__(self, events: Events, cores: int) -> None:
        self._events = events
        self._free = self.count = cores
        self._waiting: deque[tuple[float | Work, Then]] = deque()
        self.busy = 0.0

    def use(self, work: float | Work, then: Then) -> None:
        """Do work of some seconds, then call."""
        if not self._free:
            self._waiting.append((work, then))
            return
        self._free -= 1
        seconds = work() if callable(work) else work
        self.busy += seconds
        self._events.after(seconds, lambda: self._done(then))

    def _done(self, then: Then) -> None:
        self._free += 1
        if self._waiting:
            self.use(*self._waiting.popleft())
        then()


class Disk:
    """One flush at a time, for all that wait when it begins: group commit."""

    def __init__(self, events: Events, seconds: float, bandwidth: float = inf) -> None:
        self._events = events
        self._seconds = seconds
        self._bandwidth = bandwidth
        self._written = 0.0  # bytes since the last flush began
        self._waiting: list[Then] = []
        self._flushing = False
        self.busy = 0.0

    def flush(self, then: Then, bytes: float = 0.0) -> None:  # noqa: A002
        """Call once a flush that begins from now on is over."""
        self.wrote(bytes)
        if not self._seconds:
            then()
            return
        self._waiting.append(then)
        if not self._flushing:
            self._begin()

    def takes(self) -> float:
        """Return how long a flush takes that begins now, and count it."""
        seconds = self._seconds and self._seconds + self._written / self._bandwidth  # none waits where there are none
        self._written = 0.0
        self.busy += seconds
        return seconds

    def wrote(self, bytes: float) -> None:  # noqa: A002
        """Count what the next flush has to write."""
        self._written += bytes

    def _begin(self) -> None:
        self._flushing = True
        seconds = self.takes()
        served, self._waiting = self._waiting, []
        self._events.after(seconds, lambda: self._end(served))

    def _end(self, served: list[Then]) -> None:
        self._flushing = False
        if self._waiting:
            self._begin()
        for then in served:
            then()
