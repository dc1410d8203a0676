"""A queue for asyncio whose items come out when they are due."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from .._seconds import unsigned_ns
from ..clock import Clock, ManualClock, monotonic_or
from ._aio import _clock_of
from ._alarm import Alarm
from ._delay_items import NEVER, DelayItems

if TYPE_CHECKING:
    from .._seconds import Seconds

FAR: Final = 86_400.0  # seconds; some loops cannot count much further

if sys.version_info >= (3, 13):
    from asyncio import QueueShutDown
else:

    class QueueShutDown(Exception):
        """The queue was shut down. From Python 3.13 on, this is `asyncio.QueueShutDown`."""


T = TypeVar("T")
Waiting: TypeAlias = deque[asyncio.Future[None]]


class AsyncDelayQueue(DelayItems[T]):
    """A queue for asyncio, with the methods of `asyncio.Queue`, whose items come out when due, and never before.

    The item that is due first comes first; of those due within a tenth of a millisecond, the one that was put first.
    Deadlines are rounded up to that, and an item without a delay is due at once. An item that was removed before
    it came out counts for `join` as if it had never been put.

    Each item wakes one waiting task. If a waiting task is cancelled, its item goes to the next one.

    The queue belongs to the thread of one loop, of any kind, which it finds on first use: items can only be put while a
    loop runs, unless a clock is given.

    Args:
        maxsize: how many items there may be, due or not; 0 or less for no limit.
        clock: the source of the time; None for that of the loop. When a ManualClock moves, in any thread, waiting tasks
            look at it; its autojump has no effect here.

    Raises:
        TypeError: maxsize is not an int; clock is not a Clock.
    """

    _Empty = asyncio.QueueEmpty
    _Full = asyncio.QueueFull
    _ShutDown = QueueShutDown

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        super().__init__(maxsize, self._first_time_ns if clock is None else monotonic_or(clock).time_ns)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._getters: Waiting = deque()
        self._woken: asyncio.Future[None] | None = None  # a getter that was woken and has not run yet
        self._putters: Waiting = deque()
        self._joiners: Waiting = deque()
        self._alarm: Alarm | None = None  # of the loop
        self._alarm_at = NEVER
        self._is_manual = isinstance(clock, ManualClock)
        if isinstance(clock, ManualClock):
            clock.attach(self)

    async def put(self, item: T, delay: Seconds = 0) -> int:
        """Wait for room, and put an item that is due `delay` seconds later; 0 or less: it is due at once. O(1).

        Returns:
            A handle, for `remove` and `reschedule`.

        Raises:
            QueueShutDown: the queue was shut down.
            TypeError, ValueError: delay is not a finite number of seconds.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        while self.full() and not self._is_shut:
            try:
                await self._turn_in(self._putters)
            except BaseException:
                if not self.full():  # this task may have been the one that was notified
                    _wake_one(self._putters)
                raise
        return self._add(item, nanoseconds)

    async def get(self) -> T:
        """Wait until an item is due, remove the one that was due first, and return it. O(1).

        Raises:
            QueueShutDown: the queue was shut down and has no items left, due or not.
        """
        try:
            items = self._take() or await self._wait_for_item()
            self._out += 1
            return items[0]
        except (asyncio.CancelledError, QueueShutDown):
            raise
        except BaseException:
            self._interrupted()
            raise

    async def join(self) -> None:
        """Wait until `task_done` was called for each item that was put, except removed and dropped ones."""
        while self._unfinished:
            await self._turn_in(self._joiners)

    # ---- waiting ---------------------------------------------------------------------------------------------------

    async def _wait_for_item(self) -> list[T]:
        items: list[T] = []
        was_next = False
        while not items:
            if self._is_over():
                raise QueueShutDown
            getter: asyncio.Future[None] = self._running_loop().create_future()
            try:
                self._getters.append(getter)
                if was_next:  # woken in vain: nothing was due yet, or another task took it
                    self._getters.rotate()
                self._look()
                await getter
                items = self._take()
            finally:
                was_next = self._woken is getter
                if was_next:
                    self._woken = None
                _leave(getter, self._getters)
                self._look()
        return items

    async def _turn_in(self, waiting: Waiting) -> None:
        """Wait in a line until woken."""
        future: asyncio.Future[None] = self._running_loop().create_future()
        try:
            waiting.append(future)
            await future
        finally:
            _leave(future, waiting)

    def _look(self) -> None:
        """Make sure that one getter is woken for the next item: now if it is due, otherwise when it will be."""
        if self._woken is not None:
            return  # that getter looks again when it runs
        due = self._next_due() if _first(self._getters) else NEVER
        wait = due - self._time_ns() if due != NEVER else NEVER
        if wait <= 0:
            self._woken = _wake_one(self._getters)
        elif due < self._alarm_at or due == NEVER:
            self._set_alarm(due, wait)

    def _set_alarm(self, due: int, wait: int) -> None:
        self._alarm_at = NEVER
        if self._alarm is None or self._is_manual:  # no task has waited yet, or the clock's moves ring
            return
        if due == NEVER:
            self._alarm.cancel()
        else:
            assert self._loop is not None  # the alarm is its own
            milliseconds = -(wait // -1_000_000)  # a loop's unit: for less, some loops would not sleep at all
            self._alarm.ask(self._loop.call_later, min(milliseconds / 1e3, FAR))
            self._alarm_at = due

    def _ring(self) -> None:
        """Look again. A loop that rang too early is asked again."""
        self._alarm_at = NEVER
        self._look()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop. RuntimeError if there is none, or another one than before."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._alarm = Alarm(loop, self._ring, self._ring)
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError(f"{self!r} belongs to another event loop")
        return loop

    def _first_time_ns(self) -> int:
        self._time_ns = _clock_of(self._running_loop()).time_ns
        return self._time_ns()

    # ---- what others may be waiting for ----------------------------------------------------------------------------

    def _came(self, tick: int) -> None:  # noqa: ARG002
        self._look()

    def _room_came(self) -> None:
        _wake_one(self._putters)

    def _all_done(self) -> None:
        _wake_every(self._joiners)

    def _wake_all(self) -> None:
        _wake_every(self._getters)
        _wake_every(self._putters)

    def _clock_moved(self, run: bool) -> None:  # noqa: ARG002
        if self._alarm is not None:
            self._alarm.ask_soon()


def _leave(future: asyncio.Future[None], waiting: Waiting) -> None:
    """Remove a future from its line, unless it was woken."""
    future.cancel()
    if future.cancelled():
        with suppress(ValueError):
            waiting.remove(future)


def _first(waiting: Waiting) -> asyncio.Future[None] | None:
    """Return the first future that still waits."""
    while waiting and waiting[0].done():
        waiting.popleft()
    return waiting[0] if waiting else None


def _wake_one(waiting: Waiting) -> asyncio.Future[None] | None:
    """Wake the first future that still waits, and return it."""
    first = _first(waiting)
    if first is not None:
        first.set_result(None)  # this first: done futures are skipped, wherever an interrupt comes
        waiting.popleft()
    return first


def _wake_every(waiting: Waiting) -> None:
    while _wake_one(waiting) is not None:
        pass
