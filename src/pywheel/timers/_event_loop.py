"""An asyncio event loop whose timers are on a wheel."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .._seconds import LONGEST, first_ns
from ..clock import Clock, ManualClock
from ..core import takes_native

if TYPE_CHECKING:
    from collections.abc import Callable
    from selectors import BaseSelector

if TYPE_CHECKING or takes_native("._loop", __package__):
    from ._loop import WheelScheduling
else:
    from ._pure_loop import WheelScheduling

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as StockLoop
else:
    from asyncio import SelectorEventLoop as StockLoop


class EventLoop(WheelScheduling, StockLoop):
    """Asyncio's default event loop, with its timers on a wheel. Programs need no other change.

        asyncio.run(main(), loop_factory=pywheel.EventLoop)

    `call_later`, `call_at` and the functions built on them, `asyncio.sleep`, `timeout` and `wait_for`, are O(1),
    however many timers there are. A cancelled timer is gone at once, with its callback and arguments. No callback runs
    before ``loop.time()`` has reached the ``when()`` of its handle. Due callbacks run by time; within one tick, in the
    order of scheduling. A tick is 2**-20 s, finer than a loop can wait. The cost hardly depends on it, so there is no
    option.

    Args:
        selector: as for asyncio's loop; on Windows a proactor.
        clock: the source of the time; None for the system's monotonic clock, as in asyncio. With a ManualClock the loop
            sleeps until the clock is moved; with autojump it moves the clock to the next timer instead of sleeping.
        limit: how many timers one turn of the loop runs at most. Files and other callbacks get their turn in between.
            If more timers are due together, or late, a turn collects some thousand of them, and may run none.

    An infinite delay is legal, as in asyncio: that timer never runs. NaN is a ValueError.

    Raises:
        TypeError: limit is not an int, or clock not a Clock.
        ValueError: limit is less than 1.
    """

    _write_to_self: Callable[[], None]

    def __init__(self, selector: Any = None, *, clock: Clock | None = None, limit: int = 1_000) -> None:
        super().__init__(selector, clock=clock, limit=limit)
        if isinstance(clock, ManualClock):
            self._selector = ClockSelector(self._selector, clock)
            clock.attach(self)

    def _next_ns(self) -> int | None:
        return None  # its callbacks run in its turn

    def _clock_moved(self, run: bool) -> None:  # noqa: ARG002
        self._write_to_self()


class ClockSelector:
    """A selector, or a proactor, that waits by a ManualClock.

    The wait is for files alone: the loop is woken when the clock moves. With autojump the wait moves the clock instead.
    """

    def __init__(self, selector: BaseSelector, clock: ManualClock) -> None:
        self._selector = selector
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def select(self, timeout: float | None = None) -> Any:
        """Return the files that are ready; wait up to `timeout` seconds of the clock for one."""
        if timeout is None or timeout <= 0:
            return self._selector.select(timeout)
        end = first_ns(self._clock.time() + timeout)
        if not self._clock.autojump or end > LONGEST:
            return self._selector.select(None)
        events = self._selector.select(0)
        if not events:
            self._clock._move_to(end, False)
        return events
