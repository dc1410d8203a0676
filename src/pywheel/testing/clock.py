"""A clock for stores and workers that stands still until it is told to move."""

from __future__ import annotations

import threading

__all__ = ["SettableClock"]


class SettableClock:
    """Wall clock and monotonic clock by hand. From any thread."""

    def __init__(self, wall: int = 1_700_000_000_000) -> None:
        self._mutex = threading.Lock()
        self._wall = wall
        self._monotonic = 0.0

    def wall(self) -> int:
        """Return the wall clock in ms."""
        return self._wall

    def until(self, wall: int) -> float:
        """Return the seconds until the wall clock shows this."""
        return (wall - self._wall) / 1000

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds."""
        return self._monotonic

    def set(self, wall: int) -> None:
        """Let the wall clock show this, as if somebody had stepped it; the monotonic one does not move."""
        with self._mutex:
            self._wall = wall

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        with self._mutex:
            self._wall += milliseconds
            self._monotonic += milliseconds / 1000
