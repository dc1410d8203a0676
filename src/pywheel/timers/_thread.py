"""Timers driven by a thread: one for all of them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet, ref

from .._forks import renew_all
from .._seconds import LONGEST, unsigned_ns
from ..clock import Clock, ManualClock
from ._arguments import describe_driver, logger, stopped
from ._driver import Driver, Timer
from ._manual import next_stop

if TYPE_CHECKING:
    from .._seconds import Seconds

AWAKE: Final = 0  # no deadline is earlier: the thread checks by itself before it sleeps
ASLEEP: Final = 2**63 - 1
TURN: Final = 1_000  # callbacks before the thread checks whether it was stopped
LONGEST_SLEEP: Final = 60.0  # seconds; then it checks whether timers were cancelled and the driver was dropped
PAUSE: Final = 1.0  # seconds before it tries again after an error

_drivers: Final[WeakSet[ThreadTimers]] = WeakSet()


class Serving(threading.local):
    """The driver whose thread this is."""

    driver: Callable[[], ThreadTimers | None] = staticmethod(lambda: None)


_serving: Final = Serving()


class ThreadTimers(Driver):
    """Timers that run in a daemon thread, one for all of them. It starts with the first timer.

    Every method may be called from any thread, and from callbacks. A callback that blocks delays the others. A forked
    child begins without timers, and gets a thread of its own with its first timer; the parent's timers go on in the
    parent alone. When the interpreter exits, pending timers are dropped.

    Args:
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        clock: the source of the time; None for the system's monotonic clock.
        on_error: called as ``on_error(timer, exception)`` for an error in a callback; None to log it to "pywheel".
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
        name: the thread's name.

    Leaving a ``with`` block stops it.
    """

    __repr__ = describe_driver

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
        self._answer = threading.Condition()  # with a ManualClock, which moves on when the due timers have run
        self._asked = self._answered = 0
        self._waits = False  # a callback waits for the answer of another driver
        self._again = 0  # turns at the same time of a ManualClock
        self._ended = False  # the interpreter exits
        self._alone = False  # no other thread of this process is left
        self._wake_before = ASLEEP
        if isinstance(clock, ManualClock):
            clock.attach(self)
        _drivers.add(self)

    def stop(self, timeout: Seconds | None = None) -> list[Timer]:
        """Refuse new timers from now on; return the pending ones, by deadline. They keep their callbacks.

        Waits until the running callback has returned, unless the call comes from it; at most `timeout` seconds.

        Raises:
            TypeError, ValueError: timeout is not a finite number of seconds, or beyond 146 years. Nothing was stopped.
        """
        longest = None if timeout is None else min(unsigned_ns(timeout, "timeout") / 1e9, threading.TIMEOUT_MAX)
        left = self._stop()
        self._join(longest)
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
        """Whether the driver was stopped."""
        return self._ended or super().stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- in the thread that schedules ------------------------------------------------------------------------------

    def _sooner(self) -> None:
        if self._ended:
            raise stopped(self)
        self._ring()

    def _ring(self) -> None:
        """Wake the thread; start one if there is none, or if the last one ended without taking leave."""
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
                thread.start()  # it waits for the lock, and ends if this is interrupted; the next timer tries again
                if not self._is_served():  # a signal handler may have started one
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
            self._await_answer(asked, _serving.driver())

    def _await_answer(self, asked: int, caller: ThreadTimers | None) -> None:
        """Wait until the thread has run what is due.

        A callback of `caller`, another driver, does not wait for a callback that waits: that one may wait for it.
        """
        try:
            if caller is not None:
                caller._waits = True
                caller._let_go()
            with self._answer:
                self._answer.wait_for(
                    lambda: (
                        self._answered >= asked or self.stopped or self._idle() or (caller is not None and self._waits)
                    )
                )
        finally:
            if caller is not None:
                caller._waits = False

    def _idle(self) -> bool:
        return not self._is_served() and not len(self)

    def _let_go(self) -> None:
        """Wake the threads that wait for an answer, to check whether one will come."""
        with self._answer:
            self._answer.notify_all()

    # ---- in its own ------------------------------------------------------------------------------------------------

    def _work(self) -> float | None:
        """Run the due timers; return the seconds to sleep, or None without limit."""
        asked = self._asked
        self._wake_before = AWAKE
        while self._run_some(TURN) and not self.stopped and self._thread is threading.current_thread():
            pass
        if self._thread is not threading.current_thread():  # a callback has forked this child
            return None
        self._wake_before = ASLEEP  # from here on a new timer rings; earlier ones are seen below
        now, tick = self._now_ns(), self._next_tick()
        if isinstance(self.clock, ManualClock):
            return self._rest(self.clock, asked, tick is not None and tick * self._length <= now)
        if tick is None:
            return None
        self._wake_before = tick
        return min(max(0, tick * self._length - now) / 1e9, LONGEST_SLEEP)

    def _rest(self, clock: ManualClock, asked: int, due: bool) -> float | None:
        """Return the sleep by a ManualClock, which others move, or with autojump the sleeper."""
        if due and not clock.autojump and self._again < TURN:  # no longer: time itself must go on some day
            self._again += 1
            return 0
        self._again = 0
        with self._answer:
            self._answered = asked
            self._answer.notify_all()
        stop = next_stop(self) if clock.autojump else None
        if stop is None or stop > LONGEST:
            return None
        clock._move_to(stop, False)
        return 0

    def _after_fork(self) -> None:
        """Begin anew in a forked child, with another thread, even if a callback forked it and this is the old one."""
        self._starting, self._answer = threading.RLock(), threading.Condition()
        self._bell.renew()
        self._thread, self._running, self._waits, self._wake_before = None, 0, False, ASLEEP
        self._forget()


class Bell:
    """Wakes one sleeper. A ring without a sleeper wakes the next one at once; several count as one.

    The bell keeps the driver that rang until its thread is awake, when no other reference may be left.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset the bell to one without a sleeper."""
        self.kept: ThreadTimers | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self, driver: ThreadTimers | None = None) -> None:
        """Wake the sleeper, and keep the driver for it."""
        if driver is not None:
            self.kept = driver
        try:
            self._lock.release()  # no call comes before it, so no interrupt either: a kept driver is taken
        except RuntimeError:  # another ring was faster
            return

    def sleep(self, seconds: float | None) -> None:
        """Sleep until the bell rings, at most `seconds`."""
        self._lock.acquire(timeout=-1 if seconds is None else seconds)


def _serve(driver: ref[ThreadTimers], bell: Bell) -> None:
    """Run a driver's timers until it is stopped, or until nothing is pending and only this thread has the driver."""
    _serving.driver = driver
    try:
        _take_turns(driver, bell)
    except BaseException:  # from a callback, or from outside
        if (timers := driver()) is not None:
            _leave(timers)
        raise


def _take_turns(driver: ref[ThreadTimers], bell: Bell) -> None:
    timers: ThreadTimers | None
    seconds: float | None
    if (timers := driver()) is None or not timers._is_known():
        return
    while (timers := driver()) is not None:
        bell.kept = None  # this thread has the driver now, and sees pending timers below
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
            timers._wake_before = ASLEEP  # even if the thread waited for a timer that was cancelled: the next one rings
            if len(timers) == 0:
                timers = None  # so that the driver can be freed
        bell.sleep(seconds)


def _leave(timers: ThreadTimers) -> None:
    """Take leave of a driver. Another thread goes on with the remaining timers, unless the driver is stopped."""
    if not timers._is_known():  # a callback forked this child, and this thread ends
        timers._alone = True
        timers._bell.ring()
        return
    timers._wake_before = ASLEEP  # first: if this is interrupted, the next timer starts a thread
    timers._thread = None
    try:
        if len(timers) and not timers.stopped:
            timers._sooner()
    finally:
        timers._let_go()


def _stop_all() -> None:
    """End every thread when the interpreter exits. Threads whose callbacks block get a second together."""
    drivers = list(_drivers)
    for driver in drivers:
        driver._ended = True  # no more: collecting pending timers, like stop(), takes seconds for a million
        driver._join(0)
    end = time.monotonic() + 1
    for driver in drivers:
        driver._join(max(0, end - time.monotonic()))
        driver._wake_before = ASLEEP  # new timers are refused


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: renew_all(_drivers))  # once the locks that they use are free
