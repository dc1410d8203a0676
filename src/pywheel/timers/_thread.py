"""Timers driven by a thread: one for all of them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet, ref

from ..clock import Clock, ManualClock
from ._arguments import logger, stopped
from ._driver import Driver, Timer
from ._manual import next_stop

if TYPE_CHECKING:
    from .._seconds import Seconds

AWAKE: Final = 0  # no deadline lies before it: the thread looks by itself before it sleeps
ASLEEP: Final = 2**63 - 1
TURN: Final = 1_000  # callbacks before the thread looks whether it was stopped
LONGEST_SLEEP: Final = 60.0  # seconds, then it looks whether its timers were cancelled and nobody else knows the driver
PAUSE: Final = 1.0  # seconds, before it tries again what failed

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
        self._starting = threading.RLock()
        self._bell = Bell()
        self._answer = threading.Condition()  # with a ManualClock: that moves on when what is due has run
        self._asked = self._answered = 0
        self._again = 0  # turns at the same time of that clock
        self._ended = False  # at the exit of the interpreter
        self._alone = False  # nobody but the thread is left in this process
        self._wake_before = ASLEEP
        if isinstance(clock, ManualClock):
            clock.attach(self)
        _drivers.add(self)

    def stop(self, timeout: float | None = None) -> list[Timer]:
        """Refuse new timers from now on, and return those that were pending, by deadline; they keep their callbacks.

        It waits until the callback that is running has returned, unless that calls this; at most `timeout` seconds.
        """
        left = self._stop()
        self._join(timeout)
        return left

    def _join(self, timeout: float | None) -> None:
        self._bell.ring()
        self._let_go()
        with self._starting:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join(timeout)

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._ended or super().stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # ---- in the thread that schedules ------------------------------------------------------------------------------

    def _sooner(self) -> None:
        if self._ended:
            raise stopped(self)
        self._ring()

    def _ring(self) -> None:
        """Wake the thread; start one if there is none, or what ended it came before it could take leave."""
        pending = len(self) > 0
        if pending and not self._is_served():
            self._start()
        self._bell.ring(self if pending else None)

    def _is_served(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _start(self) -> None:
        with self._starting:
            if not self._is_served() and not self.stopped:
                bell = self._bell
                me = ref(self, lambda _: bell.ring())
                thread = threading.Thread(target=_serve, args=(me, bell), name=self._name, daemon=True)
                thread.start()  # it waits for the lock; it ends if this is interrupted, and the next timer tries again
                if not self._is_served():  # a signal's handler may have been faster
                    self._thread = thread

    def _is_known(self) -> bool:
        """Whether the present thread is the driver's, and not one whose start was interrupted."""
        with self._starting:
            return self._thread is threading.current_thread()

    def _next_ns(self) -> int | None:
        return None if self._thread is threading.current_thread() else next_stop(self)

    def _clock_moved(self, run: bool) -> None:
        with self._answer:
            self._asked = asked = self._asked + 1
        self._ring()
        if run and self._thread is not threading.current_thread():
            with self._answer:
                self._answer.wait_for(lambda: self._answered >= asked or self.stopped or self._idle())

    def _idle(self) -> bool:
        return not self._is_served() and not len(self)

    def _let_go(self) -> None:
        """Have whoever waits for an answer look whether there will be one."""
        with self._answer:
            self._answer.notify_all()

    # ---- in its own ------------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Run what is due; return for how many seconds to sleep, or None for ever."""
        asked = self._asked
        self._wake_before = AWAKE
        while self._run_some(TURN) and not self.stopped and self._thread is threading.current_thread():
            pass
        self._wake_before = ASLEEP  # from here on whoever adds a timer rings; what came before is seen below
        now, tick = self._now_ns(), self._next_tick()
        if isinstance(self.clock, ManualClock):
            return self._rest(self.clock, asked, tick is not None and tick * self._length <= now)
        if tick is None:
            return None
        self._wake_before = tick
        return min(max(0, tick * self._length - now) / 1e9, LONGEST_SLEEP)

    def _rest(self, clock: ManualClock, asked: int, due: bool) -> float | None:
        """The same for a clock that is moved by others, or by whoever would sleep."""
        if due and not clock.autojump and self._again < TURN:  # no further: time itself must go on some day
            self._again += 1
            return 0
        self._again = 0
        with self._answer:
            self._answered = asked
            self._answer.notify_all()
        stop = next_stop(self) if clock.autojump else None
        if stop is None:
            return None
        clock._move_to(stop, False)
        return 0

    def _after_fork(self) -> None:
        """Begin anew in a forked child, with another thread, also if a callback forked it and this is the old one."""
        self._starting, self._answer = threading.RLock(), threading.Condition()
        self._bell.renew()
        self._thread, self._running, self._wake_before = None, False, ASLEEP
        self._forget()


class Bell:
    """Wakes one sleeper. A ring while nobody sleeps wakes the next at once; several count as one.

    It keeps the driver that rang until its thread is awake: nobody else may know it by then.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Be new, with nobody asleep."""
        self.kept: ThreadTimers | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self, driver: ThreadTimers | None = None) -> None:
        """Wake the sleeper, and keep the driver for it."""
        if driver is not None:
            self.kept = driver
        try:
            self._lock.release()  # no call comes before it, so no interrupt either: whatever is kept is taken
        except RuntimeError:  # somebody was faster
            return

    def sleep(self, seconds: float | None) -> None:
        """Sleep until it rings, at most so long."""
        self._lock.acquire(timeout=-1 if seconds is None else seconds)


def _serve(driver: ref[ThreadTimers], bell: Bell) -> None:
    """Run a driver's timers until it is stopped, or nobody but this thread knows it and nothing is pending."""
    try:
        _take_turns(driver, bell)
    except BaseException:  # of a callback, or from outside, wherever it came
        if (timers := driver()) is not None:
            _leave(timers)
        raise


def _take_turns(driver: ref[ThreadTimers], bell: Bell) -> None:
    timers: ThreadTimers | None
    seconds: float | None
    if (timers := driver()) is None or not timers._is_known():
        return
    while (timers := driver()) is not None:
        bell.kept = None  # it is known here now, and what is pending seen below
        if timers.stopped:
            return
        try:
            seconds = timers._work()
        except Exception:  # noqa: BLE001  (of no callback: there is no memory, or the clock is broken)
            logger().exception("the thread of %r could not run its timers; it goes on in %s s", timers, PAUSE)
            seconds = PAUSE
        if timers._thread is not threading.current_thread() or (timers._alone and len(timers) == 0):
            _leave(timers)
            return
        if len(timers) == 0:
            timers._wake_before = ASLEEP  # also if a timer was waited for, and cancelled: the next one rings
            if len(timers) == 0:
                timers = None  # so that it can go
        bell.sleep(seconds)


def _leave(timers: ThreadTimers) -> None:
    """Take leave of a driver; another thread goes on with the timers that are left, unless it is stopped."""
    if not timers._is_known():  # its callback forked this child, which now ends
        timers._alone = True
        timers._bell.ring()
        return
    timers._wake_before = ASLEEP  # first of all: if this is interrupted, the next timer starts a thread
    timers._thread = None
    try:
        if len(timers) and not timers.stopped:
            timers._sooner()
    finally:
        timers._let_go()


def _stop_all() -> None:
    """End every thread, at the exit of the interpreter; those whose callbacks block are given a second together."""
    drivers = list(_drivers)
    for driver in drivers:
        driver._ended = True  # and no more: to collect what is pending, as stop() does, takes a million timers seconds
        driver._join(0)
    end = time.monotonic() + 1
    for driver in drivers:
        driver._join(max(0, end - time.monotonic()))
        driver._wake_before = ASLEEP  # new timers are refused


def _after_fork() -> None:
    for driver in list(_drivers):
        driver._after_fork()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
