"""A dict whose keys expire."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, MutableMapping, ValuesView
from reprlib import recursive_repr
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias, TypeVar, overload

from .._forks import renew_after_fork
from .._seconds import unsigned_ns
from ..clock import Clock, MonotonicClock, monotonic_or
from ..core import TimingWheel
from ..core._arguments import integer
from ..core._arguments import limit as limit_of
from ._arguments import callable_or_none, logger

if TYPE_CHECKING:
    from .._seconds import Seconds

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
Entry: TypeAlias = tuple[V, int, int]  # value, handle of its timer, lifetime in nanoseconds

NEVER: Final = 2**63
PIECE: Final = 128  # keys that are dropped under one hold of the lock, and by an operation on one key
TORN: Final = -1  # an expiry was interrupted: there may be keys without timers
_MISSING: Final[Any] = object()


class TTLDict(MutableMapping[K, V]):
    """A dict whose keys expire: for sessions, tokens, caches, recently seen ids.

    A key is there while the clock is before its deadline, to the nanosecond, and gone for the first operation after it.
    No thread is needed: each operation drops expired keys. An operation on a single key drops some at most, one on all
    keys drops all, and `expire` up to its limit. Until then their values stay in memory. Reading does not prolong a
    key's life: `set` and `touch` do.

    Args:
        ttl: how long a key lives after it was set, in seconds or a timedelta; 0 or less: it is gone at once.
        maxsize: how many keys there may be. One more replaces the key that was set or touched longest ago. None for no
            limit.
        on_expire: called as ``on_expire(key, value)`` for each key that the dict drops by itself, because it expired or
            for lack of room; not for deleted or replaced keys. The operation that drops the key makes the call, without
            a lock; the function may use the dict. Its errors are logged to "pywheel" and go no further, except
            KeyboardInterrupt and SystemExit.
        clock: the source of the time; None for the system's monotonic clock.

    An iteration sees the keys that were there when it began, so the dict may change meanwhile. Keys come in the order
    in which they were first set; with `maxsize`, in the order of their last `set` or `touch`.

    Any thread may use the dict; reading takes no lock. Each method costs O(1), methods on all keys O(n); `len` and
    `popitem` also pay for the keys that they drop. The dict cannot be copied or pickled. ``dict(d.items())`` is its
    present content, while ``dict(d)`` may meet a key that expires meanwhile.

    Raises:
        TypeError, ValueError: ttl is not a finite number of seconds; maxsize is not an int, or below 1; on_expire
            cannot be called.
    """

    # Each key has an entry in _data and a timer in _wheel, which carries the key. A timer without an entry, which an
    # interrupt may leave behind, means nothing. A tick is a nanosecond: no conversion, and no thread sleeps for one.

    def __init__(
        self,
        ttl: Seconds,
        *,
        maxsize: int | None = None,
        on_expire: Callable[[K, V], object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._life = unsigned_ns(ttl, "ttl")
        self._bounded = maxsize is not None
        self._maxsize = sys.maxsize if maxsize is None else integer(maxsize, "maxsize")
        if self._maxsize < 1:
            raise ValueError("maxsize must be 1 or more, or None for no limit")
        self._on_expire = callable_or_none(on_expire, "on_expire")
        clock = monotonic_or(clock)
        self._time_ns = time.monotonic_ns if type(clock) is MonotonicClock else clock.time_ns
        self._lock = RLock()
        self._telling: dict[int, deque[tuple[K, V]]] = {}  # items still to be told to `on_expire`, by calling thread
        self._begin()
        renew_after_fork(self)

    def _begin(self) -> None:
        wheel: TimingWheel[K] = TimingWheel()
        order: OrderedDict[K, Entry[V]] | None = OrderedDict() if self._bounded else None
        # No call from here on, so no interrupt comes in between.
        self._wheel = wheel
        self._order = order  # the data itself if the oldest key must be found
        self._data: dict[K, Entry[V]] = {} if order is None else order
        self._soonest = NEVER  # no timer is due before this time

    # ---- time ------------------------------------------------------------------------------------------------------

    def set(self, key: K, value: V, ttl: Seconds | None = None) -> None:
        """Set a key for `ttl` seconds from now; None for the dict's own ttl.

        Raises:
            TypeError, ValueError: ttl is not a finite number of seconds; the key cannot be hashed. Nothing has changed.
        """
        life = self._life if ttl is None else unsigned_ns(ttl, "ttl")
        now = self._time_ns()
        if now >= self._soonest:
            now = self._swept(key)
        deadline = now + life
        with self._lock:
            entry = self._data.get(key)  # keeps the old value until the lock is free: its finaliser may do anything
            if entry is not None:
                self._data[key] = value, entry[1], life
                if self._move(key, entry[1], deadline):
                    return
            evicted = self._add(key, value, life, deadline)
        for one in evicted:
            self._tell_of(*one)

    # The lock is reentrant: a signal handler, or a finaliser, may use the dict between any two steps of the same
    # thread.

    def _move(self, key: K, handle: int, deadline: int) -> bool:
        """Give a key's timer another deadline; return False if it is gone. The lock is held."""
        if deadline < self._soonest:  # before the move, for a thread that reads meanwhile
            self._soonest = deadline
        if not self._wheel.reschedule(handle, deadline):
            return False
        if deadline < self._soonest:  # and after it, because an operation in between may have looked
            self._soonest = deadline
        if self._order is not None:
            try:  # noqa: SIM105 - what costs nothing if all is well
                self._order.move_to_end(key)
            except KeyError:  # expired by now
                pass
        return True

    def _add(self, key: K, value: V, life: int, deadline: int) -> list[tuple[K, V]]:
        """Set a new key; return the items that were dropped for it. The lock is held."""
        data, wheel, order = self._data, self._wheel, self._order
        handle = wheel.schedule(deadline, key)
        if deadline < self._soonest:
            self._soonest = deadline
        data[key] = value, handle, life
        evicted: list[tuple[K, V]] = []
        try:
            while order is not None and len(order) > self._maxsize:
                oldest, (old, old_handle, _) = order.popitem(last=False)
                wheel.cancel(old_handle)
                evicted.append((oldest, old))
        except KeyError:  # all expired by now
            pass
        return evicted

    def touch(self, key: K, ttl: Seconds | None = None) -> bool:
        """Start a key's time anew: for `ttl` seconds from now; None for as long as it was set for.

        Returns:
            False if the key is not there.

        Raises:
            TypeError, ValueError: ttl is not a finite number of seconds; the key cannot be hashed. Nothing has changed.
        """
        life = None if ttl is None else unsigned_ns(ttl, "ttl")
        now = self._swept(key)
        with self._lock:
            entry = self._data.get(key)
            if entry is None:
                return False
            return self._move(key, entry[1], now + (entry[2] if life is None else life))

    def ttl(self, key: K) -> float | None:
        """Return the seconds that the key has left; None if it is not there."""
        now = self._swept(key)
        with self._lock:
            entry = self._data.get(key)
            deadline = None if entry is None else self._wheel.deadline(entry[1])
        return None if deadline is None else max(0, deadline - now) / 1e9

    def expire(self, limit: int | None = None) -> int:
        """Drop expired keys, by deadline; return how many: at most `limit`, or all with None.

        After each hundred or so, the lock is free and `on_expire` is called.

        Raises:
            TypeError, ValueError: limit is not an int, or negative.
        """
        there = max(len(self._data), len(self._wheel))  # keys that `on_expire` sets for no time do not count
        left = min(limit_of(limit), there)
        count, more = 0, True
        while more:
            dropped, more = self._drop(min(left - count, PIECE))
            count += len(dropped)
            more = more and count < left
            self._tell(dropped)
        return count

    def _drop(self, most: int) -> tuple[list[tuple[K, V]], bool]:
        """Drop at most `most` expired keys; return them, and whether there may be more."""
        dropped: list[tuple[K, V]] = []
        with self._lock:
            data, wheel = self._data, self._wheel
            torn, self._soonest = self._soonest == TORN, TORN
            due = list(data) if torn else self._advance(wheel, self._time_ns(), most)
            for key in due:
                if len(dropped) == most:  # `_soonest` stays TORN
                    return dropped, True
                try:
                    entry = data[key]
                    if entry[1] in wheel or data[key] is not entry:
                        continue
                    del data[key]  # no call in between: this is the entry that was checked
                except KeyError:
                    continue
                dropped.append((key, entry[0]))
            soonest = wheel.next_deadline()
            if soonest is None:
                soonest = NEVER
            elif soonest <= wheel.now:  # of the remaining keys, which were due at any earlier time
                soonest = 0
            if self._soonest == TORN:  # otherwise a signal handler has done all of this
                self._soonest = soonest  # after the keys are gone: lookups rely on it
        return dropped, torn or len(due) == most

    def _advance(self, wheel: TimingWheel[K], now: int, most: int) -> list[K]:
        while True:
            try:
                return wheel.advance(max(now, wheel.now), most)
            except ValueError:  # a signal handler used the dict just now, and its time is later
                continue

    def _swept(self, key: K) -> int:
        """Drop some expired keys, and this key if it is expired; return the time."""
        now = self._time_ns()
        if now >= self._soonest:
            self._sweep_some()
            now = self._time_ns()
            if now >= self._soonest:
                self._drop_overdue(key, now)
        return now

    def _drop_overdue(self, key: K, now: int) -> None:
        """Drop an expired key ahead of those that expired before it."""
        with self._lock:
            data, wheel = self._data, self._wheel
            try:
                entry = data[key]
                deadline = wheel.deadline(entry[1])
                if deadline is None or deadline > now or data[key] is not entry:
                    return
                del data[key]  # no call in between
            except KeyError:
                return
            wheel.cancel(entry[1])
        self._tell([(key, entry[0])])

    def _sweep_some(self) -> None:
        """Drop some expired keys; within `on_expire` only for lack of room, or one operation would drop all."""
        if get_ident() not in self._telling or len(self._data) >= self._maxsize:
            self.expire(PIECE)

    def _sweep_all(self) -> None:
        """Drop all expired keys."""
        if self._time_ns() >= self._soonest:
            self.expire()

    def _tell(self, dropped: Iterable[tuple[K, V]]) -> None:
        """Call `on_expire` for dropped keys. The lock is free.

        Keys that `on_expire` itself drops come after the earlier ones, because nested calls would have no end.
        """
        if self._on_expire is None:
            return
        me = get_ident()
        if me in self._telling:
            self._telling[me].extend(dropped)
            return
        try:
            self._telling[me] = left = deque(dropped)
            while left:
                self._tell_of(*left.popleft())
        finally:
            self._telling.pop(me, None)

    def _tell_of(self, key: K, value: V) -> None:
        if self._on_expire is None:
            return
        try:
            self._on_expire(key, value)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001  (logged)
            logger().exception("on_expire raised for the key %r", key)

    # ---- what any dict has -----------------------------------------------------------------------------------------

    __setitem__ = set  # noqa: A003 - the method

    # A lookup takes no lock unless a key is due. It reads the next deadline first, then the entry, and the clock last.
    # So an entry that another thread sets or drops meanwhile was there, and not expired, at some moment of the call.

    def __getitem__(self, key: K) -> V:
        soonest, entry = self._soonest, self._data.get(key)
        if self._time_ns() >= soonest:
            entry = self._entry_now(key)
        if entry is None:
            raise KeyError(key)
        return entry[0]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | D, /) -> V | D: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        """Return the value of a key, else `default`."""
        soonest, entry = self._soonest, self._data.get(key)
        if self._time_ns() >= soonest:
            entry = self._entry_now(key)
        return default if entry is None else entry[0]

    def __contains__(self, key: Any) -> bool:
        soonest, entry = self._soonest, self._data.get(key)
        if self._time_ns() >= soonest:
            entry = self._entry_now(key)
        return entry is not None

    def _entry_now(self, key: K) -> Entry[V] | None:
        self._sweep_some()  # this may take its time, or set the key again
        with self._lock:
            entry = self._data.get(key)
            deadline = None if entry is None else self._wheel.deadline(entry[1])
        return None if deadline is None or deadline <= self._time_ns() else entry

    def __len__(self) -> int:
        self._sweep_all()
        return len(self._data)

    def setdefault(self, key: K, default: Any = None, /) -> V:
        """Return the value of a key; set it to `default` if it is not there, for the dict's own ttl. One step."""
        now = self._swept(key)
        with self._lock:
            entry = self._data.get(key)
            if entry is not None:
                return entry[0]
            value: V = default
            evicted = self._add(key, value, self._life, now + self._life)
        for one in evicted:
            self._tell_of(*one)
        return value

    def __delitem__(self, key: K) -> None:
        self.pop(key)

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, /, default: V | D) -> V | D: ...
    def pop(self, key: K, /, default: Any = _MISSING) -> Any:
        """Remove a key and return its value; `default`, or KeyError without one, if it is not there."""
        self._swept(key)
        with self._lock:
            entry = self._data.pop(key, None)
            if entry is not None:
                self._wheel.cancel(entry[1])
                return entry[0]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[K, V]:
        """Remove the last key, in the order of iterating, and return it with its value; KeyError if there is none."""
        self._sweep_all()
        with self._lock:
            key, (value, handle, _) = self._data.popitem()
            self._wheel.cancel(handle)
        return key, value

    def clear(self) -> None:
        """Remove every key. O(n)."""
        self._sweep_all()
        with self._lock:
            old = self._data, self._wheel  # their values are released when the lock is free
            self._begin()
        del old

    def update(self, other: Any = (), /, **more: Any) -> None:
        """Set each key of a mapping, or of pairs, and each of `more`, for the dict's own ttl. O(n)."""
        super().update(other.items() if isinstance(other, TTLDict) else other, **more)  # its keys may expire meanwhile

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    # ---- going over everything -------------------------------------------------------------------------------------

    def _snapshot(self) -> list[tuple[K, V]]:
        self._sweep_all()
        with self._lock:
            entries = list(self._data.items())  # in one step
        return [(key, entry[0]) for key, entry in entries]

    def __iter__(self) -> Iterator[K]:
        return iter([key for key, _ in self._snapshot()])

    def items(self) -> ItemsView[K, V]:
        """Return a view of the keys with their values."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values."""
        return _Values(self)

    @recursive_repr("TTLDict({...})")
    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._snapshot())!r}, ttl={self._life / 1e9:g})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: take dict(d.items())")

    def _after_fork(self) -> None:
        self._lock = RLock()
        me = get_ident()
        self._telling = {me: left} if (left := self._telling.get(me)) is not None else {}  # there are no other threads


# The views of MutableMapping look each key up when they come to it: by then its time may be up.


class _Items(ItemsView[K, V]):
    _mapping: TTLDict[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._mapping._snapshot())


class _Values(ValuesView[V]):
    _mapping: TTLDict[Any, V]

    def __iter__(self) -> Iterator[V]:
        return iter([value for _, value in self._mapping._snapshot()])

    def __contains__(self, value: object) -> bool:
        return any(mine is value or mine == value for mine in self)
