"""The pure-Python twin of `_timers`, its driver: what every driver of timers shares."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from inspect import iscoroutine
from operator import itemgetter
from threading import RLock
from typing import Any, Final
from weakref import WeakSet

from ..core._pure import TimingWheel
from . import _arguments
from ._arguments import BURST, Missed
from ._clock import Clock, monotonic_or
from ._pure_timer import DUE, FIRED, PENDING, RUNNING, STOPPED, PeriodicTimer, Timer
from ._seconds import LONGEST, tick_ns, unsigned_ns

__all__ = ["Driver", "Timer"]

NEVER: Final = 2**63
_drivers: Final[WeakSet[Driver]] = WeakSet()


def _after_fork() -> None:
    """Give every driver a free lock: the thread that held it is not in this process."""
    for driver in _drivers:
        driver._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Driver:
    """What all drivers share: they schedule timers, and run those that are due when somebody says so.

    Args:
        clock: a Clock; None for the system's monotonic one.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for what a callback raises; None to log it.
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        tick: Any = 0.001,
        *,
        on_error: Callable[[Timer, BaseException], Any] | None = None,
        max_pending: int | None = None,
        contexts: bool = False,
    ) -> None:
        self._length = tick_ns(tick)
        self.clock = monotonic_or(clock)
        self.on_error = _arguments.callable_or_none(on_error, "on_error")
        self._read = self.clock.time_ns
        self._contexts = contexts
        self._lock = RLock()
        _drivers.add(self)
        self._wake_before = 0  # a deadline before this tick makes the driver wake earlier
        self._stopped = False
        self._running = False
        self._batch: deque[Timer] = deque()
        self._late = 0  # of these, still to run
        self._wheel: TimingWheel[Timer] = TimingWheel(self._floor(self._now_ns()), max_pending=max_pending)

    @property
    def tick(self) -> float:
        """The resolution of deadlines, in seconds."""
        return self._length / 1e9

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped

    def time(self) -> float:
        """Return the time of its clock, in seconds."""
        return self._now_ns() / 1e9

    def call_later(self, delay: Any, callback: Any, *args: Any, context: Context | None = None) -> Timer:
        """Call ``callback(*args)`` once, `delay` seconds from now, and never earlier.

        Args:
            delay: seconds or timedelta; 0 or less: as soon as possible.
            callback: a callable.
            args: its arguments.
            context: the contextvars.Context to call it in.

        Returns:
            The timer.

        Raises:
            TypeError: callback is not callable, delay is no number, context no Context.
            ValueError: delay is not finite, or beyond 146 years.
            TimersStopped: the driver was stopped.
            WheelFull: `max_pending` timers are pending.

        O(1). After an error nothing is scheduled.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        timer = Timer(self, nanoseconds, self._context(context), _arguments.callback(callback), args)
        return self._schedule(timer, self._now_ns() + nanoseconds)

    def call_at(self, when: Any, callback: Any, *args: Any, context: Context | None = None) -> Timer:
        """Call ``callback(*args)`` once, at `when` on the driver's clock, in seconds. As `call_later` otherwise."""
        ns = unsigned_ns(when, "when")
        timer = Timer(self, max(0, ns - self._now_ns()), self._context(context), _arguments.callback(callback), args)
        return self._schedule(timer, ns)

    def call_every(
        self,
        interval: Any,
        callback: Any,
        *args: Any,
        first: Any = None,
        jitter: Any = 0,
        missed: Missed = "skip",
        context: Context | None = None,
    ) -> Timer:
        """Call ``callback(*args)`` again and again. There is no drift: call k is planned at `first` + k intervals.

        Args:
            interval: seconds or timedelta, more than 0.
            first: seconds from now to the first call; None for one interval.
            jitter: each call comes up to so many seconds after its planned time, at random.
            missed: what happens to calls whose time has passed while the driver could not run: "skip" leaves them out
                and goes on with the next planned time, "burst" makes up for each, "delay" counts anew from now.

        Returns:
            The timer; it is active until it is cancelled.

        Raises:
            As `call_later`; ValueError also for an interval that is not more than 0, or another `missed`.

        O(1).
        """
        period = _arguments.interval(interval)
        head = period if first is None else unsigned_ns(first, "first")
        timer = PeriodicTimer(
            self,
            period,
            self._context(context),
            _arguments.callback(callback),
            args,
            unsigned_ns(jitter, "jitter"),
            _arguments.missed(missed),
        )
        timer._planned = self._now_ns() + head
        return self._schedule(timer, timer._planned + timer._late())

    def pending(self) -> list[Timer]:
        """Return the timers that are to be called, by deadline. O(n log n)."""
        with self._lock:
            late = [timer for timer in self._batch if timer._state == DUE]
            entries = [entry for handle in self._wheel if (entry := self._wheel._entry(handle)) is not None]
            return late + [timer for _, _, timer in sorted(entries, key=itemgetter(0, 1))]

    def next_deadline(self) -> float | None:
        """Return when to look again, in seconds on the clock: no later than the first deadline. None if none pends.

        It may lie before the first deadline; a loop that runs what is due then makes progress. O(1).
        """
        tick = self._next_tick()
        return None if tick is None else tick * self._length / 1e9

    def __len__(self) -> int:
        """Timers that are to be called. O(1)."""
        with self._lock:
            return len(self._wheel) + self._late

    # ---- for the drivers -------------------------------------------------------------------------------------------

    def _armed(self, tick: int) -> None:
        if tick < self._wake_before:
            self._sooner()

    def _sooner(self) -> None:
        """Wake up: a deadline lies before `_wake_before`. Called in the thread that schedules."""

    def _spawn(self, timer: Timer, coroutine: Any) -> None:  # noqa: ARG002
        """Do something with a coroutine that a callback returned."""
        coroutine.close()
        raise TypeError("a callback must not be a coroutine function here: only AsyncTimers can await what it returns")

    def _next_tick(self) -> int | None:
        """Return the tick by which to look again."""
        with self._lock:
            return self._wheel.now if self._late else self._wheel.next_deadline()

    def _run(self, limit: int = NEVER) -> int:
        """Run what is due now, at most `limit` callbacks; return how many ran.

        Timers that a callback schedules come in a later turn, even if they are due at once.
        """
        with self._lock:
            if self._running:
                raise _arguments.reentered()
            self._running = True
        try:
            return self._turn(limit)
        finally:
            self._running = False

    def _turn(self, limit: int) -> int:
        now = self._now_ns()
        done = self._drain(now, limit)
        while done < limit:
            with self._lock:
                tick = max(self._floor(now), self._wheel.now)
                self._batch.extend(self._wheel.advance(tick))
                self._late = len(self._batch)
                for timer in self._batch:
                    timer._state = DUE
            burst = any(isinstance(timer, PeriodicTimer) and timer._missed == BURST for timer in self._batch)
            ran = self._drain(now, limit - done)
            done += ran
            if not (ran and burst):
                break
        return done

    def _drain(self, now: int, limit: int) -> int:
        done = 0
        while self._batch and done < limit:
            with self._lock:
                timer = self._batch.popleft()
                if timer._state != DUE or self._stopped:
                    continue
                self._late -= 1
                timer._state = RUNNING
                if isinstance(timer, PeriodicTimer):
                    self._add(timer, self._ceil(timer._next(now)))
            done += 1
            self._call(timer)
        return done

    def _call(self, timer: Timer) -> None:
        callback, args, context = timer.callback, timer.args, timer._context
        try:
            if callback is not None:
                result = callback(*args) if context is None else context.run(callback, *args)
                if result is not None and iscoroutine(result):
                    self._spawn(timer, result)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # whatever it is, the others go on
            self._report(timer, error)
        finally:
            with self._lock:
                if timer._state == RUNNING:
                    timer._state = FIRED
                    timer._release()

    def _report(self, timer: Timer, error: BaseException) -> None:
        _arguments.report(self.on_error, timer, error)

    def _stop(self) -> list[Timer]:
        """Refuse new timers from now on, and return those that were pending, by deadline."""
        with self._lock:
            self._stopped = True
            left = self.pending()
            for timer in left:
                timer._state = STOPPED
            self._forget()
        return left

    def _forget(self) -> None:
        """Drop all timers, as a forked child must."""
        self._batch.clear()
        self._late = 0
        self._wheel.clear()

    # ---- time ------------------------------------------------------------------------------------------------------

    def _now_ns(self) -> int:
        now = self._read()
        if not 0 <= now <= LONGEST:
            raise _arguments.bad_clock(self.clock)
        return now

    def _floor(self, ns: int) -> int:
        return ns // self._length

    def _ceil(self, ns: int) -> int:
        return -(-ns // self._length)

    def _deadline(self, timer: Timer) -> int | None:
        if timer._state == PENDING:
            return self._wheel.deadline(timer._handle)
        return self._wheel.now if timer._state == DUE else None

    def _context(self, context: Context | None) -> Context | None:
        if context is None:
            return copy_context() if self._contexts else None
        return _arguments.context(context)

    def _schedule(self, timer: Timer, ns: int) -> Timer:
        tick = self._ceil(ns)
        with self._lock:
            self._add(timer, tick)
        self._armed(tick)
        return timer

    def _add(self, timer: Timer, tick: int) -> None:
        if self._stopped:
            raise _arguments.stopped(self)
        timer._handle = self._wheel.schedule(tick, timer)
        self._late -= timer._state == DUE
        timer._state = PENDING
