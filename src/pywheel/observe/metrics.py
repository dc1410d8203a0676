"""What a queue and its workers report: two methods, to be given to any monitoring system."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Final, Protocol

__all__ = ["Metrics", "Silent", "Tally"]


class Metrics(Protocol):
    """Called from many threads; must be quick and must not raise.

    Counters: ``put``, ``claimed``, ``done``, ``retried``, ``dead``, ``lease_lost``, ``released``, ``store_error``.
    Histograms, in seconds: ``lateness`` (handler's start after the due time), ``run_time``. Gauge: ``backlog`` (jobs
    that are due and not claimed, as far as this worker knows).
    """

    def count(self, name: str, topic: str, amount: int = 1) -> None:
        """Add to a counter."""

    def observe(self, name: str, topic: str, value: float) -> None:
        """Add a value to a histogram, or set a gauge."""


class Silent:
    """Reports to nobody."""

    def count(self, name: str, topic: str, amount: int = 1) -> None:
        """Do nothing."""

    def observe(self, name: str, topic: str, value: float) -> None:
        """Do nothing."""


class Tally:
    """Keeps counters, and the latest values of each histogram, in memory."""

    KEPT: Final = 100_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counters: Counter[tuple[str, str]] = Counter()
        self.values: dict[tuple[str, str], deque[float]] = {}

    def count(self, name: str, topic: str, amount: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self.counters[name, topic] += amount

    def observe(self, name: str, topic: str, value: float) -> None:
        """Keep a value."""
        values = self.values.get((name, topic))
        if values is None:
            values = self.values.setdefault((name, topic), deque(maxlen=self.KEPT))
        values.append(value)  # atomic, as `setdefault` is: pools do not wait for each other here

    def total(self, name: str) -> int:
        """Return a counter's sum over all topics."""
        with self._lock:
            return sum(count for (counter, _), count in self.counters.items() if counter == name)

    def percentile(self, name: str, part: float) -> float | None:
        """Return the value below which `part` (0 to 1) of a histogram's kept values lie; None without any."""
        kept = [values.copy() for (series, _), values in self.values.copy().items() if series == name]
        found = sorted(value for values in kept for value in values)
        return found[min(int(part * len(found)), len(found) - 1)] if found else None
