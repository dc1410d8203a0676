"""The pure-Python twin of `_loop`: the handles, the scheduling and the turns of an asyncio loop, on a TimingWheel."""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from itertools import chain
from math import inf, isnan, ldexp, nextafter
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .._seconds import LONGEST
from ..clock import monotonic_or
from ..core._pure import TimingWheel
from ._arguments import turn_limit

if TYPE_CHECKING:
    from typing import TypeVarTuple

    from ..clock import Clock

    _Ts = TypeVarTuple("_Ts")

    class _Loop(asyncio.BaseEventLoop):
        """The parts of asyncio's loop that are used here and are not public."""

        _closed: bool
        _current_handle: asyncio.Handle | None
        _debug: bool
        _ready: deque[asyncio.Handle]
        _selector: Any
        _stopping: bool
        _check_callback: Callable[[object, str], None]
        _check_closed: Callable[[], None]
        _check_thread: Callable[[], None]
        _process_events: Callable[[Any], None]
else:
    _Loop = object

TICK_BITS: Final = 20
LAST: Final = 2.0**42  # seconds; every later deadline, including infinity, is on this tick
QUOTA: Final = 4096  # timers that a turn collects although their time has not come
LONGEST_WAIT: Final = 86_400.0  # seconds, as in asyncio
FOREVER: Final = LONGEST / 1e9  # seconds; no clock goes so far, so the timer counts as infinite

_internals: Final[Any] = base_events


class TimerHandle(asyncio.TimerHandle):
    """The asyncio.TimerHandle of a timer on the wheel."""

    __slots__ = ("_due", "_timer")

    _due: float
    _loop: WheelScheduling
    _scheduled: bool
    _source_traceback: list[Any] | None
    _timer: int

    def cancel(self) -> None:
        """Take the timer out of the loop, and release callback and arguments before returning. O(1)."""
        if not self._cancelled:
            self._loop._remove_timer(self)
        super().cancel()


class WheelScheduling(_Loop):
    """Asyncio's scheduling on a timing wheel: a base class before BaseEventLoop or a loop derived from it.

    Args:
        clock: the source of `time`, a Clock; None for the system's monotonic clock.
        limit: how many timers a turn of the loop runs at most.

    All other arguments go to the next class.

    Raises:
        TypeError: limit is not an int, or clock not a Clock.
        ValueError: limit is less than 1.
    """

    def __init__(self, *args: Any, clock: Clock | None = None, limit: int = 1_000, **kwargs: Any) -> None:
        self._closed = True  # until there is something to close
        self.__limit = turn_limit(limit)
        self.__clock = None if clock is None else monotonic_or(clock)
        self.__shown: list[TimerHandle] | None = None  # the last `_scheduled`, until the next turn,
        self.__pending: tuple[TimerHandle, ...] = ()  # and its content
        self.__early = inf  # the earliest `when` on a tick that the wheel has reached
        plain = type(self).time is WheelScheduling.time
        self.__wheel: TimingWheel[TimerHandle] = TimingWheel(_tick_of(self.time()) if plain else 0)
        self.__due: deque[TimerHandle] = deque()  # left by a turn that was interrupted as it moved them to `_ready`
        super().__init__(*args, **kwargs)

    @property
    def _scheduled(self) -> list[TimerHandle]:
        """The handles of the pending timers by time, as a new list. O(n log n).

        Tools with turns of their own pop due timers from asyncio's heap. A timer that is popped from this list is taken
        off the wheel when the list is next asked for, or at the next turn.
        """
        self.__take_popped()
        due = (handle for handle in self.__due if handle._scheduled)
        handles = sorted(chain(due, self.__wheel._in_order()), key=attrgetter("_when"))
        self.__shown, self.__pending = handles, tuple(handles)
        return handles

    @_scheduled.setter
    def _scheduled(self, handles: Iterable[asyncio.TimerHandle]) -> None:
        if handles:  # BaseEventLoop sets an empty list
            raise AttributeError("the timers of this loop are on a wheel: use call_at")

    def __take_popped(self) -> None:
        """Take the timers off the wheel that were popped from `_scheduled`."""
        shown, self.__shown = self.__shown, None
        pending, self.__pending = self.__pending, ()
        if shown is not None and len(shown) < len(pending):
            left = set(map(id, shown))
            for handle in pending:
                if id(handle) not in left:
                    self._remove_timer(handle)

    def time(self) -> float:
        """Return the time in seconds by the loop's clock."""
        return monotonic() if self.__clock is None else self.__clock.time_ns() / 1e9

    def close(self) -> None:
        """Close the loop, and release pending timers."""
        if not self.is_running():
            self.__clear()  # otherwise the next call would sort them all for `_scheduled`
        super().close()
        self.__shown, self.__pending = None, ()
        self.__clear()

    def __clear(self) -> None:
        due, self.__due = self.__due, deque()
        self.__wheel.clear()
        del due

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a callback when `time` has reached `when`, in seconds; at the next turn if it has already.

        The callback runs in `context`, or in a copy of the present one. An infinite `when` is never reached.

        Returns:
            A TimerHandle.

        Raises:
            TypeError: when is not a number.
            ValueError: when is NaN.
            OverflowError: when is too large for a float.
            RuntimeError: the loop is closed.

        O(1).
        """
        due = _as_due(when)
        self._check_closed()
        if self._debug:
            self._check_thread()
            self._check_callback(callback, "call_at")
        handle = TimerHandle(when, callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        handle._due = due
        self.__place(handle)
        handle._scheduled = True
        return handle

    def __place(self, handle: TimerHandle) -> None:
        tick = _tick_of(handle._due)
        handle._timer = self.__wheel.schedule(tick, handle)
        if tick <= self.__wheel.now:
            self.__early = min(self.__early, handle._due)

    def _remove_timer(self, handle: TimerHandle) -> None:
        self.__wheel.cancel(handle._timer)
        handle._scheduled = False

    def __collect(self) -> None:
        """Move due timers from the wheel to `_ready`, at most `limit` of them. Finding them may take several turns."""
        wheel, now, left = self.__wheel, self.time(), self.__limit
        too_soon = 0  # timers that go back onto the wheel and wait for the next turn
        if not self.__due:
            stay = wheel._is_behind()  # then timers whose time has come stay where they are
            wheel._collect_some(max(_tick_of(now), wheel.now), left)
            if not stay:
                self.__early = inf  # not earlier: an interrupt would leave them there, and no turn would look for them
        while left and too_soon < QUOTA:
            if not self.__due:
                self.__due = wheel._pop(left, deque)
            due = self.__due
            if not due:
                break
            while due:
                handle = due[0]
                if handle._scheduled and handle._due <= now:
                    handle._scheduled = False  # first: after an interrupt it would be appended again
                    try:
                        self._ready.append(handle)
                    except MemoryError:
                        handle._scheduled = True
                        raise
                    left -= 1
                elif handle._scheduled:
                    self.__place(handle)
                    too_soon += 1
                due.popleft()

    def __timeout(self) -> float | None:
        """Return the seconds to wait if no callback is ready; None without limit."""
        tick = self.__wheel.next_deadline()
        if self.__due or self.__wheel._is_behind():
            return 0
        if tick is None:
            return None
        left = (self.__early if tick <= self.__wheel.now else ldexp(tick, -TICK_BITS)) - self.time()
        return None if left > FOREVER else min(max(left, 0), LONGEST_WAIT)

    @property
    def _touched(self) -> int:
        """The number of timers that were taken out of slots of the wheel so far. For tests."""
        return self.__wheel._touched

    def _check(self) -> None:
        """Recompute every invariant of the wheel slowly; RuntimeError names a broken one. For tests. O(n)."""
        self.__wheel._check()

    def _run_once(self) -> None:
        """Run one turn: wait for files and timers, then run the callbacks that are ready by then."""
        ready = self._ready
        if self.__shown is not None:
            self.__take_popped()
        events = self._selector.select(0 if ready or self._stopping else self.__timeout())
        self._process_events(events)
        del events
        self.__collect()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if self._debug:
                self.__run_slowly(handle)
            else:
                handle._run()
            del handle

    def __run_slowly(self, handle: asyncio.Handle) -> None:
        """Run a handle in debug mode, and log it if it takes long."""
        try:
            self._current_handle = handle
            start = self.time()
            handle._run()
            took = self.time() - start
            if took >= self.slow_callback_duration:
                what = _internals._format_handle(handle)
                _internals.logger.warning("Executing %s took %.3f seconds", what, took)
        finally:
            self._current_handle = None
            del handle  # avoids a cycle: the traceback of an exception holds this frame


def _tick_of(seconds: float) -> int:
    return int(ldexp(min(seconds, LAST), TICK_BITS)) if seconds > 0 else 0


def _as_due(when: Any) -> float:
    """Return `when` as a float that is not smaller."""
    if when is None:
        raise TypeError("when cannot be None")
    due = ldexp(when, 0)
    if isnan(due):
        raise ValueError("the time of a call must not be NaN")
    return nextafter(due, inf) if due < when else due
