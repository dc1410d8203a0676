"""Timers driven by an asyncio loop: any loop, one `call_at` for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Final, Self

from .._seconds import first_ns
from ..clock import Clock, ManualClock, MonotonicClock
from ._alarm import Alarm
from ._arguments import describe_driver, turn_limit
from ._driver import Driver, Timer

if TYPE_CHECKING:
    from .._seconds import Seconds

AWAKE: Final = 0
ASLEEP: Final = 2**63 - 1
FAR: Final = 86_400 * 10**9  # nanoseconds; some loops cannot count much further
MILLISECOND: Final = 10**6


class AsyncTimers(Driver):
    """Timers that run in an asyncio loop, including uvloop. The loop itself sees one timer, for the earliest deadline.

    All methods must be called in the loop's thread, like the loop's own `call_later`. Callbacks run in a copy of the
    context in which they were scheduled. A callback may be a coroutine function: the driver then makes a task, and
    keeps it until it is done.

    Args:
        loop: None for the running loop.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        clock: the source of the time; None for the loop's own: `call_at` takes times of ``loop.time()``.
        on_error: called as ``on_error(timer, exception)`` for an error in a callback; None for the loop's exception
            handler.
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
        limit: how many callbacks may run before the loop gets its turn. The native driver also stops after 2 ms.

    Leaving an ``async with`` block stops it.

    Raises:
        RuntimeError: no loop is given, and none is running.
        ValueError: the clock is a ManualClock with autojump, which works with ``EventLoop(clock=clock)``.
    """

    __repr__ = describe_driver

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        tick: Seconds = 0.001,
        *,
        clock: Clock | None = None,
        on_error: Callable[[Timer, BaseException], Any] | None = None,
        max_pending: int | None = None,
        limit: int = 1_000,
    ) -> None:
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._limit = turn_limit(limit)
        if isinstance(clock, ManualClock) and clock.autojump:
            raise ValueError(
                "with autojump the loop itself must have the clock: use pywheel.EventLoop(clock=clock), "
                "and AsyncTimers() on it"
            )
        super().__init__(
            _clock_of(self._loop) if clock is None else clock,
            tick,
            on_error=on_error,
            max_pending=max_pending,
            contexts=True,
        )
        self._at = clock is None and not _is_uvloop(type(self._loop))  # whether `call_at` of the loop takes these times
        self._wake_before = ASLEEP
        self._alarm = Alarm(self._loop, self._wake, self._arm)
        self._move = Alarm(self._loop, self._wake, self._arm)  # moves of a ManualClock, from any thread
        self._tasks: set[asyncio.Task[Any]] = set()
        if isinstance(clock, ManualClock):
            clock.attach(self)

    def stop(self) -> list[Timer]:
        """Refuse new timers from now on; return the pending ones, by deadline. They keep their callbacks.

        Tasks that callbacks have begun go on.
        """
        left = self._stop()
        self._arm()
        return left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def _sooner(self) -> None:
        self._arm()

    def _arm(self) -> None:
        """Have the loop wake the driver for the earliest deadline."""
        self._wake_before = ASLEEP  # until the loop was asked, even if it refuses because it is closed
        tick = self._next_tick()
        if tick is None:
            self._alarm.cancel()
        else:
            self._ask(tick)
            self._wake_before = tick

    def _ask(self, tick: int) -> None:
        now = self._now_ns()
        delay = min(tick * self._length - now, FAR)
        if delay <= 0:
            self._alarm.ask(self._loop.call_soon)
        elif self._at:
            self._alarm.ask(self._loop.call_at, (now + delay) / 1e9)
        elif isinstance(self.clock, ManualClock):
            self._alarm.cancel()  # the clock's next move wakes the driver
        else:
            # At least uvloop's unit of time; otherwise it would spin.
            self._alarm.ask(self._loop.call_later, max(delay, MILLISECOND) / 1e9)

    def _wake(self) -> None:
        """Run due timers, a bounded number of callbacks. If the loop woke the driver too early, ask it again."""
        self._wake_before = AWAKE  # while callbacks run
        if not self.stopped and not self._running:
            self._run_some(self._limit)
        self._arm()

    def _next_ns(self) -> int | None:
        return None  # the loop runs the timers in its turn

    def _clock_moved(self, run: bool) -> None:  # noqa: ARG002
        self._move.ask_soon()

    def _spawn(self, timer: Timer, coroutine: Coroutine[Any, Any, Any], context: Context | None) -> None:
        assert context is not None  # all timers here have one
        task = context.run(self._loop.create_task, coroutine)
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._done(timer, task))

    def _done(self, timer: Timer, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):  # the loop raised those already
            self._report(timer, error)

    def _report(self, timer: Timer, error: BaseException) -> None:
        if self.on_error is not None:
            super()._report(timer, error)
        else:
            self._loop.call_exception_handler(
                {"message": f"a timer's callback raised: {timer!r}", "exception": error, "timer": timer}
            )


class LoopClock(Clock):
    """The clock of a loop that has a time of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        """Return the last nanosecond that, as a float, is not after ``loop.time()``."""
        return first_ns(nextafter(self._loop.time(), inf)) - 1


def _clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """Return the loop's clock. uvloop's is the system's, but it shows the time at which its turn began."""
    if "time" in getattr(loop, "__dict__", ()):  # a test or program gave this loop another `time`
        return LoopClock(loop)
    owner = next(kind for kind in type(loop).__mro__ if "time" in vars(kind))
    if owner is asyncio.BaseEventLoop or _is_uvloop(owner):
        return MonotonicClock()
    return LoopClock(loop)


def _is_uvloop(kind: type) -> bool:
    """Whether the loop counts in whole milliseconds, and may wake the driver up to one too early."""
    return any(base.__module__.partition(".")[0] == "uvloop" for base in kind.__mro__)
