"""Timers driven by hand: for a main loop, a game, a simulation, a test."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..clock import Clock, ManualClock
from ..core import _arguments
from ._driver import Driver, Timer

if TYPE_CHECKING:
    from .._seconds import Seconds


class Timers(Driver):
    """Timers that run when you say so: ``run_due()`` in a loop of your own, which may sleep until `next_deadline`.

    With a ManualClock they also run when that advances. Timers may be added, reset and cancelled from any thread; one
    thread at a time may run them.

    Args:
        clock: where the time comes from; None for the system's monotonic clock.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for what a callback raises; None to log it to "pywheel".
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.

    Leaving a ``with`` block stops it.
    """

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

    def run_due(self, limit: int | None = None) -> int:
        """Call back every timer that is due, by deadline, and return how many.

        Timers that a callback schedules come with the next call, even if they are due at once.

        Args:
            limit: how many callbacks may run; None for all. The rest comes first the next time. A tick is collected as
                a whole, however many timers it has.

        Raises:
            RuntimeError: it is called from a callback, or while another thread runs it.
            ValueError, TypeError: limit is negative or no int.
            KeyboardInterrupt, SystemExit: from a callback; the others run the next time.
        """
        return self._run() if limit is None else self._run(_arguments.limit(limit))

    def stop(self) -> list[Timer]:
        """Refuse new timers from now on, and return those that were pending, by deadline; they keep their callbacks."""
        return self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _next_ns(self) -> int | None:
        return None if self._running else next_stop(self)  # a callback that moves the clock need not stop for us

    def _clock_moved(self, run: bool) -> None:
        if run and not self._running:
            self._run_for_clock()


def next_stop(driver: Driver) -> int | None:
    """Return when to run the driver next, having run it now, in nanoseconds on its clock; None if nothing pends."""
    tick = driver._next_tick()
    if tick is None:
        return None
    return max(tick, driver._now_ns() // driver._length + 1) * driver._length
