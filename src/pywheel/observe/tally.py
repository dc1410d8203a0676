"""A listener that counts: for tests, for the live view, and for any monitoring system that asks from time to time.

Its memory is bounded by topics, not by jobs. A value goes into a bucket whose width is 9 % of the value.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from typing import Final

from ..events import (
    BacklogSeen,
    Event,
    JobEnded,
    JobGivenBack,
    JobsClaimed,
    JobsPut,
    JobStarted,
    LeaseLost,
    StoreFailed,
)
from ..jobs.job import Outcome, State

__all__ = ["Histogram", "Tally"]

_STEPS: Final = 8  # buckets for each doubling
_SMALLEST: Final = 1e-6  # seconds; what is below lies in the first bucket
_BUCKETS: Final = 40 * _STEPS + 1  # up to 12 days; what is beyond lies in the last


class Histogram:
    """How often which values came, to within a bucket. O(1) for a value, O(buckets) for a percentile."""

    __slots__ = ("_buckets", "count", "largest", "smallest", "total")

    def __init__(self) -> None:
        self._buckets = [0] * _BUCKETS
        self.count = 0
        self.total = 0.0
        self.smallest = math.inf
        self.largest = -math.inf

    def add(self, value: float) -> None:
        """Count a value."""
        self.add_to(_bucket(value), value)

    def add_to(self, bucket: int, value: float) -> None:
        """Count a value whose bucket is known."""
        self._buckets[bucket] += 1
        self.count += 1
        self.total += value
        if value < self.smallest:
            self.smallest = value
        if value > self.largest:
            self.largest = value

    def percentile(self, part: float) -> float | None:
        """Return a value that `part` (0 to 1) of all values do not exceed, at most 9 % too large; None without any."""
        if self.count == 0:
            return None
        wanted, seen = min(max(part, 0.0), 1.0) * self.count, 0
        for place, count in enumerate(self._buckets):
            seen += count
            if seen and seen >= wanted:
                edge: float = _SMALLEST * 2.0 ** (place / _STEPS)
                return max(min(edge, self.largest), self.smallest)
        return self.largest


class Tally:
    """Counts events in memory: ``JobQueue(url, listeners=[tally])``. Any thread may call any method.

    Counters: ``put``, ``claimed``, ``done``, ``retried``, ``dead``, ``released``, ``lease_lost``, ``store_error``.
    Histograms, in seconds: ``lateness`` (a handler's start after the due time), ``run_time``.
    Gauge: ``backlog`` (jobs that are due and not claimed, as far as a worker of this process knows).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counters: Counter[tuple[str, str]] = Counter()
        """By (name, topic); the topic of ``store_error`` is ""."""
        self._histograms: dict[tuple[str, str | None], Histogram] = {}  # None: of all topics
        self._gauges: dict[tuple[str, str], float] = {}

    def __call__(self, event: Event) -> None:
        """Count an event."""
        with self._lock:
            match event:
                case JobStarted(job, late):
                    self._observe("lateness", job.topic, late)
                case JobEnded(job=job, outcome=outcome, state=state, seconds=seconds):
                    self._observe("run_time", job.topic, seconds)
                    self.counters[_ended(outcome, state), job.topic] += 1
                case JobsPut(topic, count):
                    self.counters["put", topic] += count
                case JobsClaimed(topic, count):
                    self.counters["claimed", topic] += count
                case BacklogSeen(topic, count):
                    self._gauges["backlog", topic] = count
                case JobGivenBack(job):
                    self.counters["released", job.topic] += 1
                case LeaseLost(job):
                    self.counters["lease_lost", job.topic] += 1
                case StoreFailed():
                    self.counters["store_error", ""] += 1
                case _:
                    pass

    def _observe(self, name: str, topic: str, value: float) -> None:
        bucket = _bucket(value)
        for series in ((name, topic), (name, None)):
            histogram = self._histograms.get(series)
            if histogram is None:
                histogram = self._histograms[series] = Histogram()
            histogram.add_to(bucket, value)

    def total(self, name: str, topic: str | None = None) -> int:
        """Return a counter of a topic, or its sum over all topics."""
        with self._lock:
            if topic is not None:
                return self.counters[name, topic]
            return sum(count for (counter, _), count in self.counters.items() if counter == name)

    def count(self, name: str, topic: str | None = None) -> int:
        """Return how many values a histogram has, of a topic or of all."""
        with self._lock:
            histogram = self._histograms.get((name, topic))
            return 0 if histogram is None else histogram.count

    def percentile(self, name: str, part: float, topic: str | None = None) -> float | None:
        """Return a value that `part` (0 to 1) of a histogram's values do not exceed; None without any.

        It is at most 9 % too large, and at 1 the largest itself. O(buckets), however many values there were.
        """
        with self._lock:
            histogram = self._histograms.get((name, topic))
            return None if histogram is None else histogram.percentile(part)

    def gauge(self, name: str, topic: str | None = None) -> float:
        """Return the latest value of a gauge, of a topic or the sum of all; 0 before the first."""
        with self._lock:
            if topic is not None:
                return self._gauges.get((name, topic), 0)
            return sum(value for (gauge, _), value in self._gauges.items() if gauge == name)


def _bucket(value: float) -> int:
    """Return in which bucket a value lies."""
    if value <= _SMALLEST:
        return 0
    return min(math.ceil(math.log2(value / _SMALLEST) * _STEPS), _BUCKETS - 1)


def _ended(outcome: Outcome, state: State) -> str:
    if outcome is Outcome.DONE:
        return "done"
    return "dead" if state is State.DEAD else "retried"
