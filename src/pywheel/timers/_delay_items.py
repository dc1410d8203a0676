"""The common part of both delay queues: the items and their due times, without the waiting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Final, Generic, NoReturn, SupportsIndex, TypeVar

from .._seconds import unsigned_ns
from ..core import TimingWheel
from ..core._arguments import integer

if TYPE_CHECKING:
    from .._seconds import Seconds

T = TypeVar("T")

NEVER: Final = 2**63
TICK: Final = 100_000
"""The resolution of due times, in nanoseconds. With finer deadlines a waiter would wake more often for nothing."""


class DelayItems(ABC, Generic[T]):
    """A queue in which no call waits. A subclass waits, and gets a call for each event worth waiting for."""

    _Empty: ClassVar[type[Exception]]
    _Full: ClassVar[type[Exception]]
    _ShutDown: ClassVar[type[Exception]]

    def __init__(self, maxsize: int, time_ns: Callable[[], int]) -> None:
        self._maxsize = integer(maxsize, "maxsize")
        self._time_ns = time_ns
        self._wheel: TimingWheel[T] = TimingWheel()
        self._out = 0  # items that came out and are not done; negative if some were done before they came out
        self._is_shut = False
        self._lock = RLock()  # reentrant: the collector may run a finaliser that uses the queue

    def __repr__(self) -> str:
        shut = ", shut down" if self._is_shut else ""
        return f"<{type(self).__name__} of {self.qsize()} items, maxsize {self._maxsize}{shut}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: two would take from one wheel")

    # ---- what there is ---------------------------------------------------------------------------------------------

    @property
    def maxsize(self) -> int:
        """How many items there may be, due or not; 0 or less for no limit."""
        return self._maxsize

    def qsize(self) -> int:
        """Return how many items there are, due or not. O(1)."""
        return len(self._wheel)

    def ready(self) -> int:
        """Return how many items are due. O(n), for monitoring; other calls are not delayed."""
        wheel, now = self._wheel, max(self._time_ns() // TICK, self._wheel.now)
        deadlines = (wheel.deadline(handle) for handle in wheel)
        return sum(deadline is not None and deadline <= now for deadline in deadlines)

    def empty(self) -> bool:
        """Return whether there is no item, due or not. O(1)."""
        return not len(self._wheel)

    def full(self) -> bool:
        """Return whether the queue has `maxsize` items. O(1)."""
        return 0 < self._maxsize <= len(self._wheel)

    # ---- what changes it -------------------------------------------------------------------------------------------

    def put_nowait(self, item: T, delay: Seconds = 0) -> int:
        """Put an item that is due `delay` seconds from now; return its handle. 0 or less: it is due at once. O(1).

        Raises:
            Full, QueueFull: there is no room.
            ShutDown, QueueShutDown: the queue was shut down.
            TypeError, ValueError: delay is not a finite number of seconds.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        with self._lock:
            return self._add(item, nanoseconds)

    def get_nowait(self) -> T:
        """Remove the item that was due first, and return it. O(1).

        Raises:
            Empty, QueueEmpty: none is due.
            ShutDown, QueueShutDown: the queue was shut down and has no items left, due or not.
        """
        with self._lock:
            try:
                items = self._take()
                if items:
                    self._out += 1
                    return items[0]
            except BaseException:
                self._interrupted()
                raise
            raise self._ShutDown if self._is_over() else self._Empty

    def remove(self, handle: SupportsIndex) -> bool:
        """Remove an item, due or not. `join` treats it as never put. O(1).

        Returns:
            False if the item is not in the queue any more.

        Raises:
            TypeError: the handle is not an int.
        """
        with self._lock:
            try:
                item = self._wheel.get(handle)  # keeps the item until the lock is free: its finaliser may do anything
                if not self._wheel.cancel(handle):
                    return False
                self._settle()
                self._gone()
            except BaseException:
                self._interrupted()
                raise
        del item
        return True

    def reschedule(self, handle: SupportsIndex, delay: Seconds) -> bool:
        """Make an item, due or not, due `delay` seconds from now. O(1).

        Returns:
            False if the item is not in the queue any more.

        Raises:
            TypeError, ValueError: the handle is not an int; delay is not a finite number of seconds.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        with self._lock:
            try:
                tick = self._tick_in(nanoseconds)
                if not self._wheel.reschedule(handle, tick):
                    return False
                self._came(tick)
            except BaseException:
                self._interrupted()
                raise
        return True

    def task_done(self) -> None:
        """Mark one item that came out as done. ValueError if all of them are done already. O(1)."""
        with self._lock:
            if self._unfinished <= 0:
                raise ValueError("task_done() called too many times")
            self._out -= 1
            try:
                self._settle()
            except BaseException:
                self._interrupted()
                raise

    def shutdown(self, immediate: bool = False) -> None:
        """Refuse new items from now on.

        The items in the queue still come out, each once it is due. Only an empty queue makes `get` raise ShutDown, even
        in calls that already wait. With `immediate` the items are dropped, due or not, in O(n).
        """
        dropped = None
        with self._lock:
            self._is_shut = True
            try:
                if immediate:
                    dropped, self._wheel = self._wheel, TimingWheel()  # releases its items when the lock is free
                    self._settle()
                self._wake_all()
            except BaseException:
                self._interrupted()
                raise
        del dropped

    # ---- for subclasses, which hold the lock -----------------------------------------------------------------------

    # An exception, such as from a signal handler, may come after any step. Then all waiters look again: the wheel shows
    # every change, because a change is one step in it, and a needless wake-up does no harm.

    def _interrupted(self) -> None:
        self._settle()
        self._all_done()
        self._wake_all()

    def _add(self, item: T, nanoseconds: int) -> int:
        """Put an item; return its handle. Raises the errors of `put_nowait`."""
        if self._is_shut:
            raise self._ShutDown
        if self.full():
            raise self._Full
        try:
            tick = self._tick_in(nanoseconds)
            handle = self._wheel.schedule(tick, item)
            self._came(tick)
        except BaseException:
            self._interrupted()
            raise
        return handle

    def _take(self) -> list[T]:
        """Remove the item that was due first; return a list with it, or an empty list if none is due.

        The caller counts it as out as its last step: an item that an interrupt loses counts as removed.
        """
        items = self._advance(self._time_ns() // TICK)
        if items:
            self._gone()
        return items

    def _advance(self, tick: int) -> list[T]:
        while True:
            try:
                return self._wheel.advance(max(tick, self._wheel.now), 1)
            except ValueError:  # a signal handler used the queue just now, and its time is later
                continue

    def _is_over(self) -> bool:
        return self._is_shut and not len(self._wheel)

    def _next_due(self) -> int:
        """Return a time in nanoseconds before which no item is due; not later than now if one is due.

        The time may be too early, less so after `_take`.
        """
        tick = self._wheel.next_deadline()
        return NEVER if tick is None else tick * TICK

    def _tick_in(self, nanoseconds: int) -> int:
        """Return the first tick that begins at or after this delay, so no item is early; the present tick for 0."""
        now = self._time_ns()
        return -((now + nanoseconds) // -TICK) if nanoseconds else now // TICK

    def _gone(self) -> None:
        if self._maxsize > 0:
            self._room_came()
        if self._is_over():
            self._wake_all()

    def _next_ns(self) -> int | None:
        return None  # no turn of a ManualClock: waiting threads wake by themselves, tasks in their loop's turn

    @property
    def _unfinished(self) -> int:
        """The number of items that `join` waits for. Those on the wheel count there: no interrupt comes between."""
        return len(self._wheel) + self._out

    def _settle(self) -> None:
        """Check whether all items are done, after one is."""
        least = -len(self._wheel)
        if self._out < least:
            self._out = least
        if not self._unfinished:
            self._all_done()

    @abstractmethod
    def _came(self, tick: int) -> None:
        """Handle a new item, or an item's new due time, at a tick."""

    @abstractmethod
    def _room_came(self) -> None:
        """Handle room for one more item."""

    @abstractmethod
    def _all_done(self) -> None:
        """Handle that no item is unfinished."""

    @abstractmethod
    def _wake_all(self) -> None:
        """Wake all calls that wait for an item or for room, to look again."""
