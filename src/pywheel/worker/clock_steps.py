"""Steps of the wall clock, seen by a clock that is not stepped."""

from __future__ import annotations

from typing import Final

from ..clock import Clock

__all__ = ["ClockSteps"]

_TOLERANCE: Final = 0.05  # seconds by which the wall clock may be off what it should show; less does no harm


class ClockSteps:
    """By how much the wall clock was stepped between two looks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._read()

    def look(self) -> float:
        """Return the seconds of a step since the last look, 0 if there was none."""
        low, high = self._offset
        self._offset = self._read()
        step = max(self._offset[0] - high, 0.0) - max(low - self._offset[1], 0.0)
        return step if abs(step) > _TOLERANCE else 0.0

    def _read(self) -> tuple[float, float]:
        """Return between which two values wall clock less monotonic clock lies, whatever came between the readings."""
        before = self._clock.time()
        wall = self._clock.wall()
        after = self._clock.time()
        return wall / 1000 - after, (wall + 1) / 1000 - before
