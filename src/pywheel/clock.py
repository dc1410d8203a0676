"""Clocks: the source of the time for timers and jobs.

Monotonic time measures durations; wall time tells when a job is due. Only wall time may be stepped.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Protocol
from weakref import WeakValueDictionary

from ._forks import renew_after_fork
from ._seconds import LONGEST, signed_ns, too_far, unsigned_ns

if TYPE_CHECKING:
    from ._seconds import Seconds


class Clock(ABC):
    """A monotonic clock and a wall clock. A subclass defines `time_ns`, and may define a wall clock of its own."""

    @abstractmethod
    def time_ns(self) -> int:
        """Return the nanoseconds since some moment, 0 or more. Never goes back."""

    def time(self) -> float:
        """Return the time in seconds. Never goes back."""
        return self.time_ns() / 1e9

    def wall(self) -> int:
        """Return the wall clock in whole milliseconds since 1970, rounded down. It may jump either way."""
        return time.time_ns() // 1_000_000

    def until(self, wall: int) -> float:
        """Return the seconds, with fractions, until the wall clock shows this time; negative if it is past."""
        return wall / 1000 - time.time()


class MonotonicClock(Clock):
    """The host's clocks. The monotonic one is that of `time.monotonic` and of asyncio's loops.

    The system decides whether the clock stands still while the machine is suspended; either way a driver sees one jump.
    """

    def time_ns(self) -> int:
        """Return `time.monotonic_ns()`."""
        return time.monotonic_ns()

    def time(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()


class Driven(Protocol):
    """An object that a ManualClock moves: a driver, a queue, a loop."""

    def _next_ns(self) -> int | None:
        """Return the next time at which something may be due; None if the object runs by itself."""

    def _clock_moved(self, run: bool) -> None:
        """Look at the clock: wake sleepers; with `run`, run what is due before returning, if nothing else does."""


class ManualClock(Clock):
    """A clock for tests: it stands still until a call moves it.

    Args:
        start: its first time, in seconds.
        wall: the wall clock at that time, in whole milliseconds since 1970.
        autojump: a sleep until a deadline moves the clock there instead, so that a program which waits for hours
            takes no time. For ThreadTimers and EventLoop; with several of them asleep, the first to fall asleep
            moves it.

    Any thread may use it. It cannot be copied or pickled: its sleepers would follow only one of the two.
    """

    def __init__(self, start: Seconds = 0.0, *, wall: int = 1_700_000_000_000, autojump: bool = False) -> None:
        self._now = unsigned_ns(start, "start")
        self._wall = wall * 1_000_000 - self._now  # nanoseconds by which the wall clock is ahead
        self._lock = threading.RLock()
        self._driven: WeakValueDictionary[int, Driven] = WeakValueDictionary()  # by id, in the order of `attach`
        self.autojump = autojump
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"<ManualClock at {self.time():.6f} s>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: what waits by it would follow one of two")

    def time_ns(self) -> int:
        """Return its time in nanoseconds."""
        return self._now

    def wall(self) -> int:
        """Return the wall clock in whole milliseconds since 1970."""
        return (self._wall + self._now) // 1_000_000

    def until(self, wall: int) -> float:
        """Return the seconds until the wall clock shows this time; negative if it is past."""
        return (wall * 1_000_000 - self._wall - self._now) / 1e9

    def step(self, seconds: Seconds) -> None:
        """Step the wall clock, forward or, with a negative number, back. No time passes: timers do not notice.

        Raises:
            TypeError, ValueError: seconds is not a number, or not finite.
        """
        with self._lock:
            self._wall += signed_ns(seconds, "seconds")
        self._move_to(self._now, False)

    def advance(self, seconds: Seconds) -> None:
        """Let time pass: go from deadline to deadline, and run all that is due there, each at its own time.

        Timers driven by hand and those of a thread have run when this returns, unless a callback of their driver moves
        the clock meanwhile; a loop's run when it gets its turn. Of several drivers with timers due at one time, the one
        made first runs first. If another thread just runs a driver, this does not wait for it, and what is due by the
        new time may run only when the clock moves next.

        Raises:
            TypeError, ValueError: seconds is not a duration, is negative, or leads beyond 146 years.
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
        """Go forward at once, like a machine that was suspended: all that was due in between is then late.

        Raises:
            TypeError, ValueError: seconds is not a duration, or is negative.
        """
        self._move_to(self._now + self._distance(seconds), False)

    def _move_to(self, now: int, run: bool) -> None:
        with self._lock:
            self._now = max(self._now, now)
        attached = iter(self._attached())
        try:
            for driven in attached:
                driven._clock_moved(run)
        except BaseException:  # from a callback: those who sleep wake nevertheless
            for driven in attached:
                with suppress(Exception):
                    driven._clock_moved(False)
            raise

    def _distance(self, seconds: Seconds) -> int:
        nanoseconds = signed_ns(seconds, "seconds")
        if nanoseconds < 0:
            raise ValueError("a clock does not go back: seconds must not be negative")
        if self._now + nanoseconds > LONGEST:
            raise too_far("the time")
        return nanoseconds

    def attach(self, driven: Driven) -> None:
        """Have the clock tell `driven` when it moves, for as long as `driven` lives."""
        with self._lock:
            self._driven[id(driven)] = driven

    def _attached(self) -> list[Driven]:
        with self._lock:
            return list(self._driven.values())

    def _after_fork(self) -> None:
        self._lock = threading.RLock()


def monotonic_or(clock: Clock | None) -> Clock:
    """Return `clock`, or the system's monotonic one. TypeError if it is not a Clock."""
    if clock is None:
        return MonotonicClock()
    if not callable(getattr(clock, "time_ns", None)):
        raise TypeError(f"clock must have a method time_ns(), as pywheel.Clock has, not {type(clock).__name__}")
    return clock
