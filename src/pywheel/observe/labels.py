"""Topics as labels: so many of them have a series of their own, the others share one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["OTHERS", "TOPICS", "Labels"]

OTHERS: Final = "_others"
"""What the topics beyond the bound are called."""
TOPICS: Final = 500
"""How many topics are labels, unless told otherwise: a program that makes a topic for each of its customers would
otherwise fill the memory of whoever keeps the series."""
_LONGEST: Final = 200  # characters of a label


class Labels:
    """Gives each topic its label: the first `most` keep their names for good, so that no counter ever goes down."""

    def __init__(self, most: int = TOPICS) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def __call__(self, topic: str) -> str:
        """Return the label of a topic. O(1)."""
        label = self._known.get(topic)
        if label is not None:
            return label
        if len(self._known) >= self._most or len(topic) > _LONGEST:
            return OTHERS
        return self._known.setdefault(topic, topic)

    def summed(self, values: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return the sum of values by label."""
        sums: dict[str, float] = {}
        for topic, value in values:
            label = self(topic)
            sums[label] = sums.get(label, 0.0) + value
        return sums

    def largest(self, values: Iterable[tuple[str, float]]) -> dict[str, float]:
        """Return the largest of values by label."""
        found: dict[str, float] = {}
        for topic, value in values:
            label = self(topic)
            found[label] = max(found.get(label, value), value)
        return found
