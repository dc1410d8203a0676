"""The pure-Python twin of `_timers`, its timers: a callback and a deadline."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from random import random
from typing import TYPE_CHECKING, Any, Final

from . import _arguments
from ._arguments import DELAY, SKIP
from ._seconds import unsigned_ns

if TYPE_CHECKING:
    from ._pure_driver import Driver

PENDING: Final = 0  # in the wheel
DUE: Final = 1  # taken out of it, not called yet
RUNNING: Final = 2  # its callback has not returned
FIRED, CANCELLED, STOPPED = 3, 4, 5


class Timer:
    """A callback and its deadline; a driver's methods make it.

    Attributes:
        callback: what is called; None once it is released, after it ran or was cancelled.
        args: the arguments it is called with; empty once released.
    """

    __slots__ = ("_context", "_delay", "_driver", "_handle", "_state", "args", "callback")
    callback: Callable[..., Any] | None
    args: tuple[Any, ...]

    def __init__(
        self, driver: Driver, delay: int, context: Context | None, callback: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self._driver = driver
        self._delay = delay
        self._context = context
        self._handle = 0
        self._state = PENDING
        self.callback = callback
        self.args = args

    def __repr__(self) -> str:
        return _arguments.describe(self)

    def cancel(self) -> bool:
        """Stop the timer, and release the callback and its arguments before returning.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        O(1).
        """
        with self._driver._lock:
            if not self._take_out():
                return False
            self._state = CANCELLED
            callback, args = self.callback, self.args
            self._release()
        del callback, args
        return True

    def reset(self, delay: Any = None, /) -> bool:
        """Start the timer anew: it is due `delay` seconds from now. For keep-alives, heartbeats, idle timeouts.

        Its own callback may do so too, once for one more call.

        Args:
            delay: seconds or timedelta; None for the delay it was made with, or the interval of a periodic timer.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        Raises:
            TypeError, ValueError: delay is no finite number of seconds. TimersStopped. Nothing has changed.

        O(1).
        """
        nanoseconds = self._delay if delay is None else unsigned_ns(delay, "delay")
        return self._rearm(self._driver._now_ns() + nanoseconds)

    def reschedule(self, when: Any, /) -> bool:
        """Move the timer to a time on its driver's clock, in seconds. As `reset` otherwise; a past time is due now."""
        return self._rearm(unsigned_ns(when, "when"))

    def when(self) -> float | None:
        """Return when it is due, in seconds on its driver's clock, rounded up to the tick; None unless it is active."""
        with self._driver._lock:
            tick = self._driver._deadline(self)
            return None if tick is None else tick * self._driver._length / 1e9

    def remaining(self) -> float | None:
        """Return the seconds until it is due, 0 if it is late, rounded up to the tick; None unless it is active."""
        with self._driver._lock:
            tick = self._driver._deadline(self)
            return None if tick is None else max(0, tick * self._driver._length - self._driver._now_ns()) / 1e9

    def active(self) -> bool:
        """Return whether it is going to be called."""
        return self._state <= DUE

    def cancelled(self) -> bool:
        """Return whether `cancel` stopped it."""
        return self._state == CANCELLED

    def _plan(self, ns: int) -> None:
        """A periodic timer goes on from there."""

    def _take_out(self) -> bool:
        if self._state == PENDING:
            return self._driver._wheel.cancel(self._handle)
        return self._state == DUE

    def _rearm(self, ns: int) -> bool:
        driver = self._driver
        tick = driver._ceil(ns)
        with driver._lock:
            if self._state == PENDING:
                if not driver._wheel.reschedule(self._handle, tick):
                    return False
            elif self._state <= RUNNING:
                driver._add(self, tick)
            elif self._state == STOPPED:
                raise _arguments.stopped(driver)
            else:
                return False
            self._plan(ns)
        driver._armed(tick)
        return True

    def _release(self) -> None:
        self._context = self.callback = None
        self.args = ()


class PeriodicTimer(Timer):
    """A timer that goes on until it is cancelled."""

    __slots__ = ("_jitter", "_missed", "_planned")

    def __init__(
        self, driver: Driver, interval: int, context: Any, callback: Any, args: Any, jitter: int, missed: int
    ) -> None:
        super().__init__(driver, interval, context, callback, args)
        self._jitter = jitter
        self._missed = missed
        self._planned = 0

    def _plan(self, ns: int) -> None:
        self._planned = ns

    def _next(self, now: int) -> int:
        """Plan the call after this one and return when, in nanoseconds, jitter included."""
        if self._missed == DELAY:
            self._planned = now + self._delay
        elif self._missed == SKIP and now > self._planned:
            self._planned += self._delay * (1 + (now - self._planned) // self._delay)
        else:
            self._planned += self._delay
        return self._planned + self._late()

    def _late(self) -> int:
        return int(random() * self._jitter) if self._jitter else 0
