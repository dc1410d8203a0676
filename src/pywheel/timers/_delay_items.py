"""What both delay queues are, but for the waiting: items, and when each is due."""

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
"""Nanoseconds. On its way to a finer deadline, whoever sleeps would wake more often for nothing."""


class DelayItems(ABC, Generic[T]):
    """A queue of which nobody waits for anything. A subclass waits, and hears what may be worth waiting for."""

    _Empty: ClassVar[type[Exception]]
    _Full: ClassVar[type[Exception]]
    _ShutDown: ClassVar[type[Exception]]

    def __init__(self, maxsize: int, time_ns: Callable[[], int]) -> None:
        self._maxsize = integer(maxsize, "maxsize")
        self._time_ns = time_ns
        self._wheel: TimingWheel[T] = TimingWheel()
        self._out = 0  # items that came out and are not done; below 0 if some were done before they came out
        self._is_shut = False
        self._lock = RLock()  # so that a finaliser, which the collector may run in the midst of it all, may use us too

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
        """Return how many items are due. O(n), for those who watch; nobody is held up meanwhile."""
        wheel, now = self._wheel, max(self._time_ns() // TICK, self._wheel.now)
        deadlines = (wheel.deadline(handle) for handle in wheel)
        return sum(deadline is not None and deadline <= now for deadline in deadlines)

    def empty(self) -> bool:
        """Return whether there is no item, due or not. O(1)."""
        return not len(self._wheel)

    def full(self) -> bool:
        """Return whether there are as many items as there may be. O(1)."""
        return 0 < self._maxsize <= len(self._wheel)

    # ---- what changes it -------------------------------------------------------------------------------------------

    def put_nowait(self, item: T, delay: Seconds = 0) -> int:
        """Put an item that is due `delay` seconds from now, and return its handle; up to 0, it is due at once. O(1).

        Raises:
            Full, QueueFull: there is no room.
            ShutDown, QueueShutDown: the queue was shut down.
            TypeError, ValueError: delay is no finite number of seconds.
        """
        nanoseconds = unsigned_ns(delay, "delay")
        with self._lock:
            return self._add(item, nanoseconds)

    def get_nowait(self) -> T:
        """Remove the item that was due first, and return it. O(1).

        Raises:
            Empty, QueueEmpty: none is due.
            ShutDown, QueueShutDown: the queue was shut down and holds nothing more, due or not.
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
        """Remove an item, due or not: for `join`, it was never put. O(1).

        Returns:
            False if it is not here any more.

        Raises:
            TypeError: the handle is no int.
        """
        with self._lock:
            try:
                item = self._wheel.get(handle)  # keeps it until the lock is free: its finaliser may do anything
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
        """Have an item, due or not, due `delay` seconds from now. O(1).

        Returns:
            False if it is not here any more.

        Raises:
            TypeError, ValueError: the handle is no int; delay is no finite number of seconds.
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
        """Say that an item that came out is dealt with. ValueError if no more of them came out. O(1)."""
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
        """Refuse what is put from now on.

        What is here can still be got, each item once it is due: only an empty queue makes `get` raise ShutDown, which
        those who wait for an item then find out, too. With `immediate` the items are dropped, due or not. O(n) then.
        """
        dropped = None
        with self._lock:
            self._is_shut = True
            try:
                if immediate:
                    dropped, self._wheel = self._wheel, TimingWheel()  # its items are released when the lock is free
                    self._settle()
                self._wake_all()
            except BaseException:
                self._interrupted()
                raise
        del dropped

    # ---- for subclasses, which hold the lock -----------------------------------------------------------------------

    # An exception, from a signal's handler say, may come after any step. Then everybody who waits looks again: what has
    # changed can be read from the wheel, in which a change is one step, and to be woken for nothing does no harm.

    def _interrupted(self) -> None:
        self._settle()
        self._all_done()
        self._wake_all()

    def _add(self, item: T, nanoseconds: int) -> int:
        """Put an item and return its handle. Raises as `put_nowait`."""
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
        """Remove the item that was due first: a list of it, or an empty one if none is due.

        Whoever gets it counts it as out, at the very end: one that an interrupt loses was removed.
        """
        items = self._advance(self._time_ns() // TICK)
        if items:
            self._gone()
        return items

    def _advance(self, tick: int) -> list[T]:
        while True:
            try:
                return self._wheel.advance(max(tick, self._wheel.now), 1)
            except ValueError:  # a signal's handler used the queue in this very moment, and its time is later
                continue

    def _is_over(self) -> bool:
        return self._is_shut and not len(self._wheel)

    def _next_due(self) -> int:
        """Return up to when, in nanoseconds, nothing will be due; not later than now if something is.

        It may be too early, less so after `_take`.
        """
        tick = self._wheel.next_deadline()
        return NEVER if tick is None else tick * TICK

    def _tick_in(self, nanoseconds: int) -> int:
        """Return the tick that begins so late or, so that nothing is early, a little later; the present one for 0."""
        now = self._time_ns()
        return -((now + nanoseconds) // -TICK) if nanoseconds else now // TICK

    def _gone(self) -> None:
        if self._maxsize > 0:
            self._room_came()
        if self._is_over():
            self._wake_all()

    @property
    def _unfinished(self) -> int:
        """Items that `join` waits for. Those on the wheel are counted there: an interrupt cannot come in between."""
        return len(self._wheel) + self._out

    def _settle(self) -> None:
        """See whether all are finished, as one is."""
        least = -len(self._wheel)
        if self._out < least:
            self._out = least
        if not self._unfinished:
            self._all_done()

    @abstractmethod
    def _came(self, tick: int) -> None:
        """An item is there, or due, at a new tick."""

    @abstractmethod
    def _room_came(self) -> None:
        """There is room for one item."""

    @abstractmethod
    def _all_done(self) -> None:
        """No task is unfinished."""

    @abstractmethod
    def _wake_all(self) -> None:
        """Whoever waits for an item, or for room, should look again."""
