"""A queue for threads whose items come out when they are due."""

from __future__ import annotations

import queue
import sys
import threading
from threading import Condition
from typing import TYPE_CHECKING, TypeVar

from .._forks import renew_after_fork
from .._seconds import signed_ns
from ..clock import Clock, ManualClock, monotonic_or
from ._delay_items import NEVER, TICK, DelayItems

if TYPE_CHECKING:
    from .._seconds import Seconds

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):
        """The queue was shut down. From Python 3.13 on, this is `queue.ShutDown`."""


T = TypeVar("T")


class DelayQueue(DelayItems[T]):
    """A queue for threads, with the methods of `queue.Queue`, whose items come out when due, and never before.

    The item that is due first comes first; of those due within a tenth of a millisecond, the one that was put first.
    Deadlines are rounded up to that, and an item without a delay is due at once. An item that was removed before
    it came out counts for `join` as if it had never been put.

    Each item wakes one waiting thread. Of the threads in `get`, one waits for the next deadline, and the others wait
    for their turn.

    Args:
        maxsize: how many items there may be, due or not; 0 or less for no limit.
        clock: the source of the time, also for timeouts; None for the system's monotonic clock. When a ManualClock
            moves, waiting threads look at it; its autojump has no effect here.

    A forked child has its own copy of the queue, in which no thread waits.

    Raises:
        TypeError: maxsize is not an int; clock is not a Clock.
    """

    _Empty = queue.Empty
    _Full = queue.Full
    _ShutDown = ShutDown

    def __init__(self, maxsize: int = 0, *, clock: Clock | None = None) -> None:
        clock = monotonic_or(clock)
        super().__init__(maxsize, clock.time_ns)
        self._is_manual = isinstance(clock, ManualClock)
        self._begin()
        renew_after_fork(self)
        if isinstance(clock, ManualClock):
            clock.attach(self)

    def _begin(self) -> None:
        # Of the threads in `get`, one may be the leader: it sleeps until the next deadline. The others, the followers,
        # sleep until they are notified. A leader that stops notifies a follower if any item is left, and so does a put
        # while there is no leader. So no item waits for a thread while one sleeps.
        self._leader = Condition(self._lock)
        self._leads_until: int | None = None  # nanoseconds; None: there is no leader
        self._followers = Condition(self._lock)
        self._not_full = Condition(self._lock)
        self._joiners = Condition(self._lock)

    def put(self, item: T, delay: Seconds = 0, block: bool = True, timeout: Seconds | None = None) -> int:
        """Put an item that is due `delay` seconds after it got in; 0 or less: it is due at once. O(1).

        Args:
            block: whether to wait for room.
            timeout: how many seconds to wait at most; None for no limit.

        Returns:
            A handle, for `remove` and `reschedule`.

        Raises:
            queue.Full: there was no room.
            ShutDown: the queue was shut down.
            TypeError, ValueError: delay or timeout is not a finite number of seconds, or timeout is negative.
        """
        nanoseconds = signed_ns(delay, "delay")
        until = self._until(timeout) if block else 0
        with self._lock:
            if until and self.full():
                self._wait_for_room(until)
            return self._add(item, max(nanoseconds, 0))

    def get(self, block: bool = True, timeout: Seconds | None = None) -> T:
        """Remove the item that was due first and return it; wait until one is due. O(1).

        Args:
            block: whether to wait.
            timeout: how many seconds to wait at most; None for no limit.

        Raises:
            queue.Empty: none was due.
            ShutDown: the queue was shut down and has no items left, due or not.
            TypeError, ValueError: timeout is not a finite number of seconds, or negative.
        """
        if not block:
            return self.get_nowait()
        until = self._until(timeout)
        with self._lock:
            try:
                items = self._take() or self._wait_for_item(until)
                self._out += 1
                return items[0]
            except (queue.Empty, ShutDown):
                raise
            except BaseException:
                self._interrupted()
                raise

    def join(self) -> None:
        """Wait until `task_done` was called for each item that was put, except removed and dropped ones."""
        with self._lock:
            while self._unfinished:
                self._joiners.wait()

    # ---- waiting ---------------------------------------------------------------------------------------------------

    def _wait_for_item(self, until: int) -> list[T]:
        try:
            while not (items := self._take()):
                self._give_up(until)
                if self._leads_until is None:
                    self._lead(min(until, self._next_due()))
                else:
                    self._sleep(self._followers, until)
            self._pass_on()
        except BaseException:
            self._pass_on()
            raise
        return items

    def _give_up(self, until: int) -> None:
        if self._is_over():
            raise ShutDown
        if self._time_ns() >= until:
            raise queue.Empty

    def _pass_on(self) -> None:
        if self._leads_until is None and not self.empty():
            self._followers.notify()

    def _lead(self, until: int) -> None:
        self._leads_until = until
        try:
            self._sleep(self._leader, until)
        finally:
            self._leads_until = None

    def _wait_for_room(self, until: int) -> None:
        try:
            while self.full() and not self._is_shut and self._time_ns() < until:
                self._sleep(self._not_full, until)
        except BaseException:
            self._not_full.notify()  # this thread may have been the one that was notified
            raise

    def _until(self, timeout: Seconds | None) -> int:
        """Return the time to give up, in nanoseconds."""
        if timeout is None:
            return NEVER
        nanoseconds = signed_ns(timeout, "timeout")
        if nanoseconds < 0:
            raise ValueError("timeout must not be negative")
        return self._time_ns() + nanoseconds

    def _sleep(self, condition: Condition, until: int) -> None:
        """Sleep until notified, or until a time if the clock moves by itself. The sleep may be shorter."""
        if until == NEVER or self._is_manual:
            condition.wait()
        else:
            condition.wait(min((until - self._time_ns()) / 1e9, threading.TIMEOUT_MAX))

    # ---- what others may be waiting for ----------------------------------------------------------------------------

    def _came(self, tick: int) -> None:
        if self._leads_until is None:
            self._followers.notify()
        elif tick * TICK < self._leads_until:
            self._leader.notify()

    def _room_came(self) -> None:
        self._not_full.notify()

    def _all_done(self) -> None:
        self._joiners.notify_all()

    def _wake_all(self) -> None:
        for waiting in (self._leader, self._followers, self._not_full):
            waiting.notify_all()

    def _clock_moved(self, run: bool) -> None:  # noqa: ARG002
        with self._lock:
            self._wake_all()

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._begin()
