"""Timers driven by hand: for a main loop, a game, a simulation, a test."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self

from .._forks import renew_after_fork
from ..clock import Clock, ManualClock
from ..core import _arguments
from ._arguments import describe_driver
from ._driver import Driver, Timer

if TYPE_CHECKING:
    from .._seconds import Seconds


class Timers(Driver):
    """Timers that a program runs itself: by ``run_due()`` in its own loop, which may sleep until `next_deadline`.

    With a ManualClock they also run when it advances. Timers may be added, reset and cancelled from any thread; one
    thread at a time may run them.

    Args:
        clock: the source of the time; None for the system's monotonic clock.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for an error in a callback; None to log it to "pywheel".
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.

    Leaving a ``with`` block stops it.
    """

    __repr__ = describe_driver

    def __init__(
        self,
        clock: Clock | None = None,
        tick: Seconds = 0.001,
        *,
        on_error: Callable[[Timer, BaseException], Any] | None = None,
        max_pending: int | None = None,
    ) -> None:
        super().__init__(clock, tick, on_error=on_error, max_pending=max_pending)
        if isinstance(clock, ManualClock):
            clock.attach(self)
        renew_after_fork(self)

    def run_due(self, limit: int | None = None) -> int:
        """Run every timer that is due, by deadline; return how many ran.

        Timers that a callback schedules run in the next call, even if they are due at once.

        Args:
            limit: how many callbacks may run; None for all. The next call begins with the rest. A tick is collected as
                a whole, however many timers it has.

        Raises:
            RuntimeError: the call comes from a callback, or while another thread runs the timers.
            ValueError, TypeError: limit is negative or not an int.
            KeyboardInterrupt, SystemExit: from a callback; the others run in the next call.
        """
        return self._run() if limit is None else self._run(_arguments.limit(limit))

    def stop(self) -> list[Timer]:
        """Refuse new timers from now on; return the pending ones, by deadline. They keep their callbacks."""
        return self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _next_ns(self) -> int | None:
        return None if self._running else next_stop(self)  # a callback that moves the clock need not stop for these

    def _clock_moved(self, run: bool) -> None:
        if run and not self._running:
            self._run_for_clock()

    def _after_fork(self) -> None:
        if self._running != get_ident():  # the thread in whose turn the child was forked is not here
            self._running = 0


def next_stop(driver: Driver) -> int | None:
    """Run the driver; return when to run it next, in nanoseconds on its clock, or None if no timer is pending."""
    tick = driver._next_tick()
    if tick is None:
        return None
    return max(tick, driver._now_ns() // driver._length + 1) * driver._length
