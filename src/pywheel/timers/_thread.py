"""Timers driven by a thread: one for all of them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet, ref

from ._clock import Clock, ManualClock
from ._driver import Driver, Timer
from ._manual import next_stop

if TYPE_CHECKING:
    from ._seconds import Seconds

AWAKE: Final = 0  # no deadline lies before it: the thread looks by itself before it sleeps
ASLEEP: Final = 2**63 - 1
TURN: Final = 1_000  # callbacks before the thread looks whether it was stopped

_drivers: Final[WeakSet[ThreadTimers]] = WeakSet()


class ThreadTimers(Driver):
    """Timers that run in a daemon thread, one for all of them. It starts with the first timer.

    Every method may be called from any thread, and from callbacks. A callback that blocks delays the others.
    A forked child begins with no timers, and with a thread of its own as soon as it adds one; its parent's go on in
    the parent alone. At the exit of the interpreter pending timers are dropped.

    Args:
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        clock: where the time comes from; None for the system's monotonic clock.
        on_error: called as ``on_error(timer, exception)`` for what a callback raises; None to log it to "pywheel".
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
        name: of the thread.

    Leaving a ``with`` block stops it.
    """

    def __init__(
        self,
        tick: Seconds = 0.001,
        *,
        clock: Clock | None = None,
        on_error: Callable[[Timer, BaseException], Any] | None = None,
        max_pending: int | None = None,
        name: str = "pywheel-timers",
    ) -> None:
        super().__init__(clock, tick, on_error=on_error, max_pending=max_pending)
        self._name = name
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._bell = Bell()
        self._rested = threading.Condition()
        self._rested_at = -1  # the time of the clock when the thread last fell asleep
        self._wake_before = ASLEEP
        if isinstance(clock, ManualClock):
            clock.attach(self)
        _drivers.add(self)

    def stop(self, timeout: float | None = None) -> list[Timer]:
        """Refuse new timers from now on, and return those that were pending, by deadline; they keep their callbacks.

        It waits until the callback that is running has returned, unless that calls this; at most `timeout` seconds.
        """
        left = self._stop()
        self._bell.ring()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # ---- in the thread that schedules ------------------------------------------------------------------------------

    def _sooner(self) -> None:
        self._wake_before = AWAKE
        if self._thread is None:
            self._start()
        self._bell.ring()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self.stopped:
                bell = self._bell
                me = ref(self, lambda _: bell.ring())
                thread = threading.Thread(target=_serve, args=(me, bell), name=self._name, daemon=True)
                self._thread = thread
                try:
                    thread.start()
                except BaseException:  # no more threads: the next timer tries again
                    self._thread, self._wake_before = None, ASLEEP
                    raise

    def _next_ns(self) -> int | None:
        return next_stop(self)

    def _clock_moved(self, run: bool) -> None:
        thread = self._thread
        now = self._now_ns()
        self._bell.ring()
        if run and thread is not None and thread is not threading.current_thread():
            with self._rested:
                while self._rested_at < now and thread.is_alive():
                    self._rested.wait(0.1)

    # ---- in its own ------------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Run what is due; return for how many seconds to sleep, or None for ever."""
        self._wake_before = AWAKE
        while self._run(TURN) == TURN and not self.stopped:
            pass
        self._wake_before = ASLEEP  # from here on whoever adds a timer rings; what came before is seen below
        now, tick = self._now_ns(), self._next_tick()
        if isinstance(self.clock, ManualClock):
            return self._rest(self.clock, now, tick)
        if tick is None:
            return None
        self._wake_before = tick
        return max(0, tick * self._length - now) / 1e9

    def _rest(self, clock: ManualClock, now: int, tick: int | None) -> float | None:
        """The same for a clock that is moved by others, or by whoever would sleep."""
        if tick is not None and (clock.autojump or tick * self._length <= now):
            clock._move_to(tick * self._length, False)
            return 0
        with self._rested:
            self._rested_at = now
            self._rested.notify_all()
        return None

    def _after_fork(self) -> None:
        """Begin anew in a forked child, which has no such thread, unless it was forked by a callback."""
        self._starting, self._rested = threading.Lock(), threading.Condition()
        self._rested_at = -1
        self._bell.renew()
        if self._thread is not threading.current_thread():
            self._thread, self._running, self._wake_before = None, False, ASLEEP
        self._forget()


class Bell:
    """Wakes one sleeper. A ring while nobody sleeps wakes the next at once; several count as one."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Be new, with nobody asleep."""
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        """Wake the sleeper."""
        with suppress(RuntimeError):  # it rang already
            self._lock.release()

    def sleep(self, seconds: float | None) -> None:
        """Sleep until it rings, at most so long."""
        self._lock.acquire(timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX))


def _serve(driver: ref[ThreadTimers], bell: Bell) -> None:
    """Run a driver's timers until it is stopped, or nobody but this thread knows it and nothing is pending."""
    timers: ThreadTimers | None
    while (timers := driver()) is not None and not timers.stopped:
        try:
            seconds = timers._work()
        except BaseException:
            _leave(timers)
            raise
        if len(timers) == 0:
            timers = None  # so that it can go
        bell.sleep(seconds)


def _leave(timers: ThreadTimers) -> None:
    """End the thread with an error that is not to be kept; another goes on with the timers that are left."""
    timers._thread = None
    timers._wake_before = ASLEEP
    if len(timers) and not timers.stopped:
        timers._sooner()


def _stop_all() -> None:
    """End every thread, at the exit of the interpreter; those whose callbacks block are given a second together."""
    drivers = list(_drivers)
    for driver in drivers:
        driver.stop(0)
    end = time.monotonic() + 1
    for driver in drivers:
        driver.stop(max(0, end - time.monotonic()))


def _after_fork() -> None:
    for driver in list(_drivers):
        driver._after_fork()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
