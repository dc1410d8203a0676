"""Clocks: where the drivers get the time from."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from ._seconds import LONGEST, signed_ns, too_far, unsigned_ns

if TYPE_CHECKING:
    from ._seconds import Seconds


class Clock(ABC):
    """A clock that never goes back. A subclass gives `time_ns`."""

    @abstractmethod
    def time_ns(self) -> int:
        """Return the time in nanoseconds since a moment of the clock's own, 0 or more."""

    def time(self) -> float:
        """Return the time in seconds."""
        return self.time_ns() / 1e9


class MonotonicClock(Clock):
    """The system's monotonic clock: the one of `time.monotonic` and of asyncio's loops.

    Whether it stands still while the machine is suspended is the system's choice; either way a driver sees one jump.
    """

    def time_ns(self) -> int:
        """Return `time.monotonic_ns()`."""
        return time.monotonic_ns()


class Driven(Protocol):
    """What a ManualClock moves: a driver, a queue, a loop."""

    def _next_ns(self) -> int | None:
        """Return the next time after this one at which something may be due; None if it runs by itself."""

    def _clock_moved(self, run: bool) -> None:
        """Look at the clock: wake who sleeps; with `run`, run what is due before returning, if nobody else would."""


class ManualClock(Clock):
    """A clock for tests: it stands still until it is told to go on.

    Args:
        start: its first time, in seconds.
        autojump: whoever would sleep until a deadline moves the clock there instead, so that a program which waits
            for hours takes no time. For ThreadTimers and EventLoop; with several of them asleep, the first to
            fall asleep moves it.

    Safe to use from several threads.
    """

    def __init__(self, start: Seconds = 0.0, *, autojump: bool = False) -> None:
        self._now = unsigned_ns(start, "start")
        self._lock = threading.RLock()
        self._driven: WeakValueDictionary[int, Driven] = WeakValueDictionary()  # by id, in the order they came
        self.autojump = autojump

    def __repr__(self) -> str:
        return f"<ManualClock at {self.time():.6f} s>"

    def time_ns(self) -> int:
        """Return the time it was told, in nanoseconds."""
        return self._now

    def advance(self, seconds: Seconds) -> None:
        """Let time pass: go from deadline to deadline, and have all that is due there run, each at its own time.

        Timers driven by hand and those of a thread have run when this returns; a loop's run when it gets its turn.
        Of several drivers that have something to do at one time, the one made first is the first to run.

        Raises:
            TypeError, ValueError: seconds is no duration, negative, or leads beyond 146 years.
        """
        self._advance_to(self._now + self._distance(seconds))

    def _advance_to(self, end: int) -> None:
        self._move_to(self._now, True)
        while (stop := self._next_stop(end)) < end:
            self._move_to(stop, True)
        self._move_to(end, True)

    def _next_stop(self, end: int) -> int:
        stops = [ns for driven in self._attached() if (ns := driven._next_ns()) is not None]
        return min(stops, default=end)

    def jump(self, seconds: Seconds) -> None:
        """Go forward at once, as a machine does that was suspended: what lay in between is then late.

        Raises:
            TypeError, ValueError: seconds is no duration, or negative.
        """
        self._move_to(self._now + self._distance(seconds), False)

    def _move_to(self, now: int, run: bool) -> None:
        with self._lock:
            self._now = max(self._now, now)
        for driven in self._attached():
            driven._clock_moved(run)

    def _distance(self, seconds: Seconds) -> int:
        nanoseconds = signed_ns(seconds, "seconds")
        if nanoseconds < 0:
            raise ValueError("a clock does not go back: seconds must not be negative")
        if self._now + nanoseconds > LONGEST:
            raise too_far("the time")
        return nanoseconds

    def attach(self, driven: Driven) -> None:
        """Have the clock tell `driven` when it moves, for as long as that lives."""
        with self._lock:
            self._driven[id(driven)] = driven

    def _attached(self) -> list[Driven]:
        with self._lock:
            return list(self._driven.values())


def monotonic_or(clock: Clock | None) -> Clock:
    """Return `clock`, or the system's monotonic one. TypeError if it is no clock."""
    if clock is None:
        return MonotonicClock()
    if not callable(getattr(clock, "time_ns", None)):
        raise TypeError(f"clock must have a method time_ns(), as pywheel.Clock has, not {type(clock).__name__}")
    return clock
