"""The pure-Python twin of `_timers`: the common part of all drivers of timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from threading import get_ident
from types import CoroutineType
from typing import Any, Final, NoReturn

from .._errors import WheelFull
from .._seconds import LONGEST, tick_ns, unsigned_ns
from ..clock import Clock, monotonic_or
from ..core import _arguments as _core_arguments
from ..core._pure import TimingWheel
from . import _arguments
from ._arguments import Missed
from ._pure_timer import FIRED, PENDING, RUNNING, STOPPED, PeriodicTimer, Timer

NEVER: Final = 2**63


class Driver:
    """The common part of all drivers: it schedules timers, and runs the due ones when a subclass asks for it.

    Args:
        clock: a Clock; None for the system's monotonic one.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for an error in a callback; None to log it.
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
        self.clock = monotonic_or(clock)
        self._length = tick_ns(tick)
        self.on_error = _arguments.callable_or_none(on_error, "on_error")
        self._read = self.clock.time_ns
        self._contexts = contexts
        self._room = _core_arguments.max_pending(max_pending)
        if hasattr(self, "_wheel"):
            self._forget()
        self._wake_before = 0  # a deadline before this tick makes the driver wake earlier
        self._stopped = False
        self._running = 0  # the thread that runs a turn; 0 if none does
        self._wheel: TimingWheel[Timer] = TimingWheel(self._floor(self._now_ns()))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle {type(self).__name__!r}")

    @property
    def tick(self) -> float:
        """The resolution of deadlines, in seconds."""
        return self._length / 1e9

    @property
    def stopped(self) -> bool:
        """Whether the driver was stopped."""
        return self._stopped

    def time(self) -> float:
        """Return the time of the driver's clock, in seconds."""
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
            TypeError: callback is not callable, delay is not a number, context is not a Context.
            ValueError: delay is not finite, or beyond 146 years.
            TimersStopped: the driver was stopped.
            WheelFull: `max_pending` timers are pending.

        O(1). After an error nothing is scheduled.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        timer = Timer(self, nanoseconds, _arguments.callback(callback), args, self._context(context))
        return self._schedule(timer, self._now_ns() + nanoseconds)

    def call_at(self, when: Any, callback: Any, *args: Any, context: Context | None = None) -> Timer:
        """Call ``callback(*args)`` once, at `when` on the driver's clock, in seconds. As `call_later` otherwise."""
        ns = unsigned_ns(when, "when")
        timer = Timer(self, 0, _arguments.callback(callback), args, self._context(context))
        timer._delay = max(0, ns - self._now_ns())
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
            jitter: each call comes up to this many seconds after its planned time, at random.
            missed: what happens to calls whose time passed while the driver could not run: "skip" drops them and goes
                on with the next planned time, "burst" makes up for each, "delay" counts anew from now.

        Returns:
            The timer; it is active until it is cancelled.

        Raises:
            TypeError, TimersStopped: as for `call_later`.
            ValueError: as for `call_later`, and for an interval that is not more than 0, or another `missed`.

        O(1).
        """
        period = _arguments.interval(interval)
        callback = _arguments.callback(callback)
        head = period if first is None else unsigned_ns(first, "first")
        spread, policy = unsigned_ns(jitter, "jitter"), _arguments.missed(missed)
        timer = PeriodicTimer(self, period, callback, args, self._context(context), spread, policy)
        timer._planned = self._now_ns() + head
        return self._schedule(timer, timer._planned + timer._draw())

    def pending(self) -> list[Timer]:
        """Return the pending timers, by deadline. O(n log n)."""
        return self._wheel._in_order()

    def next_deadline(self) -> float | None:
        """Return when to run timers next, in seconds on the clock, or None if no timer is pending. O(1).

        The time is not later than the first deadline. It may be earlier; a loop that then runs the due timers makes
        progress.
        """
        tick = self._next_tick()
        return None if tick is None else tick * self._length / 1e9

    def __len__(self) -> int:
        """Return the number of pending timers. O(1)."""
        return len(self._wheel)

    # ---- for the drivers -------------------------------------------------------------------------------------------

    def _sooner(self) -> None:
        """Wake up for a deadline before `_wake_before`. Called in the thread that schedules."""

    def _spawn(self, timer: Timer, coroutine: Any, context: Context | None) -> None:  # noqa: ARG002
        """Handle a coroutine that a callback returned. The callback ran in this context, or in none."""
        coroutine.close()
        raise TypeError("a callback must not be a coroutine function here: only AsyncTimers can await what it returns")

    def _next_tick(self) -> int | None:
        """Return the tick at which to run timers next."""
        return self._wheel.next_deadline()

    def _run(self, limit: int = NEVER) -> int:
        """Run the due timers, at most `limit` callbacks; return how many ran.

        Timers that a callback schedules run in a later turn, even if they are due at once.
        """
        return self._in_turn(self._now_ns(), limit, True)

    def _run_some(self, limit: int) -> bool:
        """Run like `_run`, for drivers that must not pause; return whether more timers are due.

        One call collects some thousand timers at most, so it may have nothing to call yet.
        """
        now = self._now_ns()
        if self._in_turn(now, limit, False) == limit:
            return True
        with self._lock:  # if the clock went back, nothing is due
            return self._wheel._is_behind() and self._wheel.now <= self._floor(now)

    def _in_turn(self, now: int, limit: int, whole: bool, gives_way: bool = False) -> int:
        me, mine = get_ident(), False
        try:
            with self._lock:
                if self._running and gives_way:
                    return 0
                if self._running:
                    raise _arguments.reentered()
                self._running, mine = me, True
            return self._turn(now, limit, whole)
        finally:
            if mine and self._running == me:  # not in a child that a callback has forked
                self._running = 0  # no other thread writes to it while it is set

    def _run_for_clock(self) -> int:
        """`_run`, for a clock that has a weak reference to the driver. Nothing if another thread runs it by now."""
        return self._in_turn(self._now_ns(), NEVER, True, gives_way=True)

    def _turn(self, now: int, limit: int, whole: bool) -> int:
        tick, wheel = self._floor(now), self._wheel
        with self._lock:
            if tick < wheel.now:  # the clock went back: the timers due by its new time have run
                return 0
            if whole:
                wheel.advance(tick, 0)
            else:
                wheel._collect_some(tick, limit)
        behind: deque[PeriodicTimer] = deque()
        done = 0
        while done < limit and (timer := self._next_due(now, behind)) is not None:
            done += self._call(timer)
            if isinstance(timer, PeriodicTimer) and timer._behind:
                behind.append(timer)
        return done

    def _next_due(self, now: int, behind: deque[PeriodicTimer]) -> Timer | None:
        """Return the next timer to call; at the end those that make up for missed calls, one call each in turn."""
        wheel = self._wheel
        with self._lock:
            if self._running != get_ident():  # the callback has forked this child
                return None
            while (timer := wheel._first()) is not None:
                if isinstance(timer, PeriodicTimer):
                    if self._move_on(timer, now):
                        return timer
                elif wheel.cancel(timer._handle):
                    timer._state = RUNNING
                    return timer
            while behind and not wheel._is_behind():
                late = behind.popleft()
                if late._behind and self._move_on(late, now):
                    return late
            return None

    def _call(self, timer: Timer) -> bool:
        """Call the timer's callback; release it unless the timer is called again. Return False if it was cancelled."""
        with self._lock:
            callback, args, context = timer.callback, timer.args, timer._context
        if callback is None:  # cancelled in this moment by another thread
            return False
        try:
            result = callback(*args) if context is None else context.run(callback, *args)
            if isinstance(result, CoroutineType):
                self._spawn(timer, result, context)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  # whatever it is, the others go on
            self._report(timer, error)
        finally:
            with self._lock:
                over = timer._state == RUNNING
                if over:
                    timer._state = FIRED
            if over:
                timer._release()
        return True

    def _report(self, timer: Timer, error: BaseException) -> None:
        _arguments.report(self.on_error, timer, error)

    def _stop(self) -> list[Timer]:
        """Refuse new timers from now on; return the pending ones, by deadline."""
        with self._lock:
            self._stopped = True
            left = self.pending()
            for timer in left:
                timer._state = STOPPED
            self._wheel.clear()
        return left

    @property
    def _touched(self) -> int:
        """The number of timers that were taken out of slots of the wheel so far. For tests."""
        return self._wheel._touched

    def _check(self) -> None:
        """Recompute every invariant of the wheel slowly; RuntimeError names a broken one. For tests. O(n)."""
        self._wheel._check()

    def _forget(self) -> None:
        """Drop all timers, for a forked child."""
        for timer in self.pending():
            timer._state = FIRED
        self._wheel.clear()

    @property
    def _lock(self) -> Any:
        return self._wheel._lock

    # ---- time ------------------------------------------------------------------------------------------------------

    def _now_ns(self) -> int:
        now = self._read()
        return now if type(now) is int and 0 <= now <= LONGEST else _arguments.clock_ns(now, self.clock)

    def _floor(self, ns: int) -> int:
        return ns // self._length

    def _ceil(self, ns: int) -> int:
        return -(-ns // self._length)

    # ---- one timer -------------------------------------------------------------------------------------------------

    def _context(self, context: Context | None) -> Context | None:
        if context is None:
            return copy_context() if self._contexts else None
        return _arguments.context(context)

    def _schedule(self, timer: Timer, ns: int) -> Timer:
        tick = self._ceil(ns)
        try:
            with self._lock:
                self._admit(timer, tick)
            if tick < self._wake_before:
                self._sooner()
        except BaseException:  # including an interrupt: the caller will not have the timer
            timer.cancel()
            raise
        return timer

    def _admit(self, timer: Timer, tick: int) -> None:
        """Add one more timer, if the limit allows it."""
        if self._stopped:
            raise _arguments.stopped(self)
        if self._room is not None and len(self) >= self._room:
            raise WheelFull("max_pending timers are pending: cancel some, or make a driver with a higher limit")
        self._add(timer, tick)

    def _add(self, timer: Timer, tick: int) -> None:
        timer._handle = self._wheel.schedule(tick, timer)
        timer._state = PENDING

    def _move_on(self, timer: PeriodicTimer, now: int) -> bool:
        """Move a periodic timer to its next call; return False if it was cancelled meanwhile.

        It never leaves the wheel: after an interrupt it would not be called again.
        """
        planned = timer._next(now)
        tick = self._ceil(planned + timer._lateness)
        if not self._wheel.reschedule(timer._handle, tick):
            return False
        timer._planned, timer._behind = planned, tick <= self._wheel.now
        timer._draw()
        return True
