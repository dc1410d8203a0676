"""The pace: how many jobs a step may claim at once.

What is claimed is held for a second, and must begin before it is due for others. A step that takes long is followed by
smaller ones, or what it claims is lost before it begins, and claimed and lost again by those who are slower still.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ALONE", "Pace"]

ALONE: Final = 1_000
"""Claims in a step of a worker with one topic."""
_TOGETHER: Final = 128  # beside other topics: one that becomes due meanwhile waits for milliseconds
_SLOW: Final = 0.35  # seconds of a step after which the next one claims less: what is held must begin in half a second
_FEWEST: Final = 64  # claims in a step, however slow it is


class Pace:
    """Only the dispatcher uses it."""

    def __init__(self, topics: int) -> None:
        self.full: Final = ALONE if topics <= 1 else _TOGETHER
        self.claims = self.full
        """How many the next step may claim."""

    def took(self, seconds: float) -> None:
        """Note how long a step took: half as many after a slow one, twice as many after a quick one."""
        if seconds > _SLOW:
            self.claims = max(self.claims // 2, _FEWEST)
        elif seconds < _SLOW / 2:
            self.claims = min(2 * self.claims, self.full)
