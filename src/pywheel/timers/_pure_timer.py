"""The pure-Python twin of `_timers`: a timer, which is a callback and a deadline."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from random import random
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from .._seconds import unsigned_ns
from . import _arguments
from ._arguments import DELAY, SKIP

if TYPE_CHECKING:
    from ._pure_driver import Driver

PENDING: Final = 0  # in the wheel; a periodic timer stays there while its callback runs
RUNNING: Final = 1  # taken out of the wheel, while its callback runs
FIRED, CANCELLED, STOPPED = 2, 3, 4


class Timer:
    """A callback and its deadline, made by a driver's methods.

    Attributes:
        callback: the function to call; None once it is released, after it ran or was cancelled.
        args: its arguments; empty once released.
    """

    __slots__ = ("_context", "_delay", "_driver", "_handle", "_state", "args", "callback")
    callback: Callable[..., Any] | None
    args: tuple[Any, ...]

    def __new__(cls, *args: Any, **_: Any) -> Self:
        """Raise TypeError: only drivers make timers."""
        if not args:
            raise TypeError("timers are made by a driver: use its call_later, call_at or call_every")
        return super().__new__(cls)

    def __init__(
        self, driver: Driver, delay: int, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self._driver = driver
        self._delay = delay
        self._context = context
        self._handle = 0
        self._state = STOPPED
        self.callback = callback
        self.args = args

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot copy or pickle a timer")

    def __repr__(self) -> str:
        return _arguments.describe(self)

    def cancel(self) -> bool:
        """Stop the timer, and release the callback and its arguments before returning.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        O(1).
        """
        with self._driver._lock:
            if self._state != PENDING or not self._driver._wheel.cancel(self._handle):
                return False
            self._state = CANCELLED
        self._release()
        return True

    def reset(self, delay: Any = None, /) -> bool:
        """Start the timer anew: it is due `delay` seconds from now. For keep-alives, heartbeats, idle timeouts.

        Its own callback may do so as well, once for one more call.

        Args:
            delay: seconds or timedelta; None for the delay it was made with, or the interval of a periodic timer.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        Raises:
            TypeError, ValueError: delay is not a finite number of seconds. TimersStopped. Nothing has changed.

        O(1).
        """
        nanoseconds = self._delay if delay is None else unsigned_ns(delay, "delay")
        ns = self._driver._now_ns() + nanoseconds
        return self._rearm(ns, ns)

    def reschedule(self, when: Any, /) -> bool:
        """Move the timer to a time on its driver's clock, in seconds; a past time is due now. Otherwise as `reset`."""
        ns = unsigned_ns(when, "when")
        return self._rearm(ns, max(ns, self._driver._now_ns()))

    def when(self) -> float | None:
        """Return when it is due, in seconds on its driver's clock, rounded up to the tick; None unless it is active."""
        tick = self._tick()
        return None if tick is None else tick * self._driver._length / 1e9

    def remaining(self) -> float | None:
        """Return the seconds until it is due, 0 if it is late, rounded up to the tick; None unless it is active."""
        tick = self._tick()
        return None if tick is None else max(0, tick * self._driver._length - self._driver._now_ns()) / 1e9

    def active(self) -> bool:
        """Return whether the timer will be called."""
        return self._tick() is not None

    def cancelled(self) -> bool:
        """Return whether `cancel` stopped it."""
        return self._state == CANCELLED

    def _plan(self, ns: int) -> None:
        """Set the planned time from which a periodic timer goes on."""

    def _tick(self) -> int | None:
        """Return its deadline in ticks; None unless it is active."""
        with self._driver._lock:
            return self._driver._wheel.deadline(self._handle) if self._state == PENDING else None

    def _rearm(self, ns: int, planned: int) -> bool:
        driver = self._driver
        tick = driver._ceil(ns)
        try:
            moved = self._move(tick, planned)
            if moved and tick < driver._wake_before:
                driver._sooner()
        except BaseException:  # an interrupt must not leave the driver asleep
            driver._sooner()
            raise
        return moved

    def _move(self, tick: int, planned: int) -> bool:
        """Move it in the wheel, or put it there again while its callback runs; return False if it has ended."""
        driver = self._driver
        with driver._lock:
            if self._state == PENDING:
                if not driver._wheel.reschedule(self._handle, tick):  # a cancel was interrupted
                    return False
            elif self._state == RUNNING:
                driver._admit(self, tick)
            elif self._state == STOPPED:
                raise _arguments.stopped(driver)
            else:
                return False
            self._plan(planned)
        return True

    def _release(self) -> None:
        """Drop callback and arguments, after the timer's own references are gone."""
        old = self._context, self.callback, self.args
        self._context, self.callback, self.args = None, None, ()
        del old


class PeriodicTimer(Timer):
    """A timer that repeats until it is cancelled."""

    __slots__ = ("_behind", "_jitter", "_lateness", "_missed", "_planned")

    def __init__(
        self, driver: Driver, interval: int, callback: Any, args: Any, context: Any, jitter: int, missed: int
    ) -> None:
        super().__init__(driver, interval, callback, args, context)
        self._jitter = jitter
        self._missed = missed
        self._planned = 0  # nanoseconds on the clock: of the next call, jitter aside
        self._behind = False  # the next call makes up for a missed one
        self._lateness = 0
        self._draw()

    def _plan(self, ns: int) -> None:
        self._planned = ns
        self._behind = False

    def _next(self, now: int) -> int:
        """Return the planned time of the call after this one, in nanoseconds, jitter aside."""
        if self._missed == DELAY:
            return now + self._delay
        if self._missed == SKIP and now > self._planned:
            return self._planned + self._delay * (1 + (now - self._planned) // self._delay)
        return self._planned + self._delay

    def _draw(self) -> int:
        """Return the delay of the next call by jitter. The native twin draws it one call ahead."""
        lateness = self._lateness
        if self._jitter:
            self._lateness = int(random() * self._jitter)
        return lateness
