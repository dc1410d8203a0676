"""A listener that counts: for tests, and for any monitoring system that polls.

Its memory depends on the number of topics, not of jobs. A value goes into a bucket whose width is 9 % of the value.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, TypeVar

from .. import events
from ..jobs.job import Outcome, State

V = TypeVar("V")
OTHERS: Final = "_others"
"""The label of all topics beyond the bound."""
TOPICS: Final = 500
"""The default number of topics that are labels: a topic for each customer would fill the monitoring system's memory."""
_LONGEST: Final = 200  # characters of a label
_STEPS: Final = 8  # buckets for each doubling
_SMALLEST: Final = 1e-6  # seconds; smaller values are in the first bucket
_EDGES: Final[list[float]] = [_SMALLEST * 2.0 ** (place / _STEPS) for place in range(40 * _STEPS)]
"""Up to 12 days; larger values are in the last bucket."""
_TOGETHER: Final = 256  # values that are counted at once
_topic: Final = attrgetter("job.topic")
_seconds: Final = attrgetter("seconds")


class Labels:
    """The label of each topic: the first `most` topics keep their names for good, so that no counter ever goes down."""

    def __init__(self, most: int = TOPICS) -> None:
        self._most = most
        self._known = {"": ""}  # what belongs to no topic

    def __call__(self, topic: str) -> str:
        """Return the label of a topic. O(1)."""
        label = self._known.get(topic)
        if label is not None:
            return label
        if len(self._known) > self._most or len(topic) > _LONGEST:
            return OTHERS
        return self._known.setdefault(topic, topic)

    def merged(self, values: Iterable[tuple[str, V]], merge: Callable[[V, V], V]) -> dict[str, V]:
        """Return values by label; values of the same label are merged."""
        found: dict[str, V] = {}
        for topic, value in values:
            label = self(topic)
            found[label] = merge(found[label], value) if label in found else value
        return found


class Histogram:
    """The counts of values by bucket. O(1) for a value, O(buckets) for a percentile.

    Values wait in a queue and are counted in batches, which takes a third of the time. Any thread may add, without a
    lock; one thread at a time may call the other methods.

    Args:
        whole: another histogram that also gets the values.
        edges: the largest value of each bucket except the last, ascending. They limit how exact a percentile is.
    """

    __slots__ = ("_buckets", "_count", "_largest", "_new", "_smallest", "_total", "_whole", "edges")

    def __init__(self, whole: Histogram | None = None, edges: Sequence[float] = _EDGES) -> None:
        self.edges = edges
        self._whole = whole
        self._buckets = [0] * (len(edges) + 1)
        self._count = 0
        self._total = 0.0
        self._smallest = math.inf
        self._largest = -math.inf
        self._new: deque[float] = deque()

    def add(self, values: Iterable[float]) -> bool:
        """Add values here and to `whole`; `settle` counts them. Return whether it is time to `settle`."""
        self._new.extend(values)
        return len(self._new) >= _TOGETHER

    def settle(self) -> None:
        """Count the values that wait in the queue."""
        new = [self._new.popleft() for _ in range(len(self._new))]
        counts = Counter(map(partial(bisect_left, self.edges), new))
        for histogram in filter(None, (self, self._whole) if new else ()):
            for bucket, count in counts.items():
                histogram._buckets[bucket] += count
            histogram._count += len(new)
            histogram._total += sum(new)
            histogram._smallest = min(histogram._smallest, *new)
            histogram._largest = max(histogram._largest, *new)

    @property
    def count(self) -> int:
        """The number of values."""
        return self._count + len(self._new)

    def cumulated(self) -> tuple[list[int], float]:
        """Return how many values are in each bucket or a lower one, and the sum of all values."""
        self.settle()
        return list(accumulate(self._buckets)), self._total

    def percentile(self, part: float) -> float | None:
        """Return a value that `part` (0 to 1) of all values do not exceed, at most 9 % too large; None without any."""
        self.settle()
        if self._count == 0:
            return None
        wanted, seen = min(max(part, 0.0), 1.0) * self._count, 0
        for edge, count in zip(self.edges, self._buckets, strict=False):
            seen += count
            if seen and seen >= wanted:
                return max(min(edge, self._largest), self._smallest)
        return self._largest


class Tally:
    """Counts events in memory: ``JobQueue(url, listeners=[tally])``. Any thread may call any method of it.

    Counters: ``put``, ``claimed``, ``done``, ``retried``, ``dead``, ``released``, ``lease_lost``, ``stuck`` (jobs that
    a pool without progress gave back), ``store_error``, ``clock_step``; with a spool ``spooled``, ``forwarded``,
    ``refused``.
    Histograms, in seconds: ``lateness`` (a handler's start after the due time), ``run_time``.
    Gauge: ``backlog`` (for how many seconds a worker of this process has not claimed all due jobs).

    Args:
        edges: the largest values of the histograms' buckets; by default a percentile is exact to 9 %.
    """

    def __init__(self, *, edges: Sequence[float] = _EDGES) -> None:
        self._lock = threading.RLock()  # a signal handler may put while its thread counts a put
        self._edges = edges
        self._label: Callable[[str], str] = str  # the topic as it is
        self.counters: Counter[tuple[str, str]] = Counter()
        """By (name, topic); the topic of ``store_error`` and ``clock_step`` is ""."""
        self._histograms: dict[tuple[str, str | None], Histogram] = {}  # None: of all topics
        self._gauges: dict[tuple[str, str], float] = {}

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        count = _COUNTS.get(type(event))
        if count is not None:
            count(self, event)

    def many(self, ends: Sequence[events.JobEnded]) -> None:
        """Count the good ends of several jobs."""
        topics = set(map(_topic, ends))
        for topic in topics:
            mine = ends if len(topics) == 1 else [event for event in ends if event.job.topic == topic]
            self._add("run_time", topic, map(_seconds, mine))
            self._count("done", topic, len(mine))

    def _ended(self, event: events.JobEnded) -> None:
        self._add("run_time", event.job.topic, (event.seconds,))
        word = "done" if event.outcome is Outcome.DONE else "dead" if event.state is State.DEAD else "retried"
        self._count(word, event.job.topic)

    def _backlog(self, event: events.BacklogSeen) -> None:
        with self._lock:
            self._gauges["backlog", event.topic] = event.seconds

    def _stopped(self, _: events.WorkerStopped) -> None:
        with self._lock:  # another worker of this process says it again with its next claim
            self._gauges = dict.fromkeys(self._gauges, 0.0)

    def _count(self, word: str, topic: str, count: int = 1) -> None:
        label = self._label(topic)
        with self._lock:
            self.counters[word, label] += count

    def _add(self, name: str, topic: str, values: Iterable[float]) -> None:
        topic = self._label(topic)
        histogram = self._histograms.get((name, topic))
        if histogram is None:
            with self._lock:
                whole = self._histograms.setdefault((name, None), Histogram(None, self._edges))
                histogram = self._histograms.setdefault((name, topic), Histogram(whole, self._edges))
        if histogram.add(values):
            with self._lock:
                histogram.settle()

    def total(self, name: str, topic: str | None = None) -> int:
        """Return a counter of a topic, or its sum over all topics."""
        return int(self._sum(self.counters, name, topic))

    def count(self, name: str, topic: str | None = None) -> int:
        """Return the number of values in a histogram, of a topic or of all."""
        with self._lock:
            histogram = self._settled(name, topic)
            return 0 if histogram is None else histogram.count

    def percentile(self, name: str, part: float, topic: str | None = None) -> float | None:
        """Return a value that `part` (0 to 1) of a histogram's values do not exceed; None without any.

        It is at most 9 % too large, and exact for 1. O(topics + buckets), however many values there are.
        """
        with self._lock:
            histogram = self._settled(name, topic)
            return None if histogram is None else histogram.percentile(part)

    def _settled(self, name: str, topic: str | None) -> Histogram | None:
        """Return a histogram, or None. The one of all topics first gets the values that wait in theirs."""
        if topic is None:
            for (other, _), histogram in self._histograms.items():
                if other == name:
                    histogram.settle()
        return self._histograms.get((name, topic))

    def gauge(self, name: str, topic: str | None = None) -> float:
        """Return the latest value of a gauge, of a topic or summed over all; 0 before the first value."""
        return self._sum(self._gauges, name, topic)

    def _sum(self, values: Mapping[tuple[str, str], float], name: str, topic: str | None) -> float:
        with self._lock:
            if topic is not None:
                return values.get((name, topic), 0)
            return sum(value for (other, _), value in values.items() if other == name)


_COUNTS: Final[dict[type, Callable[[Tally, Any], None]]] = {
    events.JobStarted: lambda tally, event: tally._add("lateness", event.job.topic, (event.late,)),
    events.JobEnded: Tally._ended,
    events.JobDied: lambda tally, event: tally._count("dead", event.job.topic),
    events.JobsPut: lambda tally, event: tally._count("put", event.topic, event.jobs),
    events.JobsSpooled: lambda tally, event: tally._count("spooled", event.topic, event.jobs),
    events.JobsForwarded: lambda tally, event: tally._count("forwarded", event.topic, event.jobs),
    events.JobRefused: lambda tally, event: tally._count("refused", event.topic),
    events.JobsClaimed: lambda tally, event: tally._count("claimed", event.topic, event.jobs),
    events.BacklogSeen: Tally._backlog,
    events.JobGivenBack: lambda tally, event: tally._count("released", event.job.topic),
    events.JobSkipped: lambda tally, event: tally._count("released", event.job.topic),
    events.LeaseLost: lambda tally, event: tally._count("lease_lost", event.job.topic),
    events.PoolStuck: lambda tally, event: tally._count("stuck", event.topic, event.jobs),
    events.StoreFailed: lambda tally, event: tally._count("store_error", ""),  # noqa: ARG005
    events.ClockStepped: lambda tally, event: tally._count("clock_step", ""),  # noqa: ARG005
    events.WorkerStopped: Tally._stopped,
}
