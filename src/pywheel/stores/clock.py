"""Where stores and workers get the time from; tests and simulations give another one."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Two clocks: the wall clock says when a job is due, the monotonic one how long something took."""

    def wall(self) -> int:
        """Return the wall clock in whole milliseconds since 1970, rounded down. It may jump either way."""

    def until(self, wall: int) -> float:
        """Return the seconds, with their fractions, until the wall clock shows this; negative if it has."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start. Never goes back."""


class SystemClock:
    """The clocks of this host."""

    def wall(self) -> int:
        """Return the wall clock in whole milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def until(self, wall: int) -> float:
        """Return the seconds until the wall clock shows this."""
        return wall / 1000 - time.time()

    def monotonic(self) -> float:
        """Return seconds of the host's monotonic clock."""
        return time.monotonic()
