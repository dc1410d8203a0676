"""The pure-Python twin of the native wheels: the same classes, for platforms without the extension.

Only `_timers` decides which timers there are. `_levels` lets time find them, and can be rebuilt from `_timers`.

Finalisers, signal handlers, which may raise, and other threads run wherever CPython checks for them: at calls, at
backward jumps and (3.11) where an object is made that the collector tracks. All of them may use the wheel. Two rules
keep it sound:

- A quick method uses statements without such a point between them, if the levels are there. Without a GIL, or on
  another interpreter, these methods hold the lock.
- A longer method holds the lock, takes the levels away, leaves a mark, and prepares everything. If its mark is still
  there, no other call has come in between: the method changes `_timers`, in one call of C code, and puts the levels
  back. Otherwise it begins again. While another such call is under way, or was interrupted, there are no levels: the
  next method that has the lock makes new ones.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from heapq import heappop, heappush
from itertools import count, islice, repeat
from threading import RLock
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_KEY, MAX_TICK
from ._pure_levels import DEADLINE, HANDLE, HINT, ITEM, NEVER, Hint, Levels, Timer, Timers, must, slot_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_F = TypeVar("_F", bound=Callable[..., Any])
_Pack: TypeAlias = Callable[[list[Any]], Any]  # makes a method's result from a list
_Plan: TypeAlias = tuple[Any, Iterable[Any]]  # a method's result, and the iterable that changes `_timers`
_T = TypeVar("_T")

_NO_ITEM: Final[Any] = None
_QUOTA: Final = 2048  # hints that one `_collect_some` sifts
_SPARE: Final = 1024  # stale hints that are kept, besides one for each timer

_numbers: Final = count(2**40)  # one count for the process: no wheel knows a handle of another one
_consume: Final = deque[Any](maxlen=0).extend  # runs an iterator to its end, in C

_wheels: Final[WeakValueDictionary[int, _Wheel[Any]]] = WeakValueDictionary()


def _after_fork() -> None:
    """Give every wheel a free lock: the thread that held it is not in this process."""
    for wheel in list(_wheels.values()):
        wheel._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def exclusive(method: _F) -> _F:
    """Hold the wheel's lock during `method`, unless a GIL makes the method indivisible."""
    if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return method

    @wraps(method)
    def locked(self: _Wheel[Any], /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_F", locked)


class _Wheel(Generic[_T]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1; the common part of both wheels.

    It has no clock: `advance` moves it and returns what expired. `start` is its first tick; at most `max_pending`
    timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = ("__weakref__", "_levels", "_lock", "_mark", "_max_pending", "_now", "_timers", "_touched", "_turn")
    _levels: Levels | None
    _lock: Any
    _timers: Timers  # in the order in which they were scheduled
    _touched: int  # number of sifted hints, for tests

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """Return an empty wheel at tick 0: a subclass may omit our ``__init__``."""
        self = super().__new__(cls)
        self._lock = RLock()
        self._touched = 0
        self._timers = {}
        self._reset(0, None)
        _wheels[id(self)] = self
        return self

    def __init__(self, start: SupportsIndex = 0, *, max_pending: SupportsIndex | None = None) -> None:
        now, most = _arguments.tick(start, "start"), _arguments.max_pending(max_pending)
        with self._lock:
            gone = self._reset(now, most)
        del gone  # without the lock: finalisers may wait for other threads

    def _reset(self, now: int, max_pending: int | None) -> Timers:
        """Begin without timers at the tick `now`; return the old timers."""
        timers: Timers = {}
        levels = Levels(timers, now, 1)
        timers, self._timers, self._levels = self._timers, timers, levels
        self._mark = 0  # of the last call that took the levels away
        self._now, self._turn, self._max_pending = now, 1, max_pending  # a turn begins with each collection
        return timers

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

    # ---- changes ----------------------------------------------------------------------------------------------------

    def _change(self, prepare: Callable[..., _Plan], *arguments: Any) -> Any:
        """Prepare a change until no other call has come in between, and make it; return its result.

        `prepare` gets the levels, and returns the result and an iterable. Iterating over it in C code makes the change.
        """
        with self._lock:
            while True:
                mark = next(_numbers)
                levels, self._levels, self._mark = self._levels, None, mark
                try:
                    if levels is None:
                        levels = Levels(self._timers, self._now, self._turn)
                    elif levels.stale > _SPARE + len(self._timers):
                        levels.drop_stale(self._timers)
                    result, change = prepare(levels, *arguments)
                except WheelFull:  # before any change
                    if mark == self._mark:
                        self._levels = levels
                    raise
                if mark == self._mark:
                    _consume(change)
                    if mark == self._mark:
                        self._levels = levels
                    return result

    def _put(self, tick: int, hints: list[Hint], handle: int, timer: Timer, *, new: bool) -> bool:
        """Attempt to add or move a live timer, with a hint in the slot of a future tick."""
        levels = self._levels
        if levels is None or tick <= self._now or not (new or handle in self._timers):
            return False
        if tick in levels.slots:
            levels.slots[tick] += hints
        else:
            levels.fresh[tick] = None
            levels.slots[tick] = hints
        levels.stale += not new
        self._timers[handle] = timer
        return True

    def _hint(self, deadline: int, number: int, handle: int) -> Hint:
        """Return a hint. A deadline up to now counts as due now, after the timers that this turn has found."""
        if deadline > self._now:
            return deadline, 0, deadline, number, handle
        return self._now, self._turn, deadline, number, handle

    def _add_many(self, ticks: list[int], items: list[Any], pack: _Pack) -> Any:
        """Schedule timers, all or none, and return their handles, packed."""
        handles = list(islice(_numbers, len(ticks)))
        with self._lock:
            undo = map(self._timers.pop, handles, repeat(None))
            try:
                return self._change(self._added, handles, ticks, items, pack)
            except MemoryError:  # perhaps after some of them were added
                _consume(undo)  # needs no memory
                raise

    def _added(self, levels: Levels, handles: list[int], ticks: list[int], items: list[Any], pack: _Pack) -> _Plan:
        if self._max_pending is not None and len(self._timers) + len(handles) > self._max_pending:
            raise WheelFull(
                "there would be more than max_pending timers, so none of them was scheduled: "
                "cancel some, advance, or make a wheel with a higher limit"
            )
        timers = {}
        for handle, tick, item in zip(handles, ticks, items, strict=True):
            hint = self._hint(tick, handle, handle)
            levels.place(hint, self._now)
            timers[handle] = hint, item
        return pack(handles), map(self._timers.update, (timers,))

    def _moved(self, levels: Levels, handles: list[int], ticks: list[int], pack: _Pack) -> _Plan:
        timers: Timers = {}
        for handle, tick, number in zip(handles, ticks, islice(_numbers, len(handles)), strict=True):
            timer = timers.get(handle) or self._timers.get(handle)
            if timer is not None:
                hint = self._hint(tick, number, handle)
                levels.place(hint, self._now)
                timers[handle] = hint, timer[ITEM]
                levels.stale += 1
        return pack([handle in timers for handle in handles]), map(self._timers.update, (timers,))

    def _cancelled(self, levels: Levels, handles: list[int], pack: _Pack) -> _Plan:
        # The timers are returned as well, so that their items are released without the lock.
        timers = {handle: timer for handle in handles if (timer := self._timers.get(handle))}
        left = dict(timers)
        found = [left.pop(handle, None) is not None for handle in handles]
        levels.stale += len(timers)
        return (pack(found), timers), map(self._timers.pop, timers)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _advance(self, now: SupportsIndex, limit: SupportsIndex | None, pack: _Pack) -> Any:
        tick, most = _arguments.tick(now, "now"), _arguments.limit(limit)
        with self._lock:
            if tick < self._now:
                raise _arguments.backwards()
            return self._change(self._advanced, tick, most, pack)

    def _advanced(self, levels: Levels, now: int, limit: int, pack: _Pack) -> _Plan:
        self._begin(levels, now)
        self._touched += levels.sift(self._timers, self._now, NEVER, levels.due.append)
        if limit < len(levels.due):
            levels.due.sort()
        return self._popped(levels, limit, pack)

    def _begin(self, levels: Levels, now: int) -> None:
        self._now, self._turn = max(now, self._now), self._turn + 1
        levels.begin()

    def _popped(self, levels: Levels, limit: int, pack: _Pack) -> _Plan:
        timers: Timers = {}
        while levels.due and not levels.collecting and len(timers) < limit:
            for hint in levels.pop(limit - len(timers)):
                timer = self._timers.get(hint[HANDLE])
                if timer is not None and timer[HINT] is hint:
                    timers[hint[HANDLE]] = timer
        return pack([timer[ITEM] for timer in timers.values()]), map(self._timers.pop, timers)

    # ---- for drivers, whose turns must not be long ------------------------------------------------------------------

    def _collect_some(self, now: int, most: int) -> None:
        """Go to the tick `now` and collect due timers, but sift only about `_QUOTA` hints.

        If more remain, `_is_behind` is true, nothing can be popped, and the next call goes on, as long as it takes at
        this `now`. Nothing is collected while `most` timers are due: those come first.
        """
        self._change(self._collected, now, most)

    def _collected(self, levels: Levels, now: int, most: int) -> _Plan:
        if not levels.collecting and len(levels.due) < most:
            self._begin(levels, now)
        self._touched += levels.sift(self._timers, self._now, _QUOTA, partial(heappush, levels.due))
        return None, ()

    def _pop(self, limit: int, pack: _Pack = list) -> Any:
        """Remove the first `limit` collected timers; return their items, packed."""
        return self._change(self._popped, limit, pack)

    def _first(self) -> _T | None:
        """Return the item of the first collected timer, which stays; None if there is none."""
        return cast("_T | None", self._change(self._looked))

    def _looked(self, levels: Levels) -> _Plan:
        while levels.due and not levels.collecting:
            timer = self._timers.get(levels.due[0][HANDLE])
            if timer is not None and timer[HINT] is levels.due[0]:
                return timer[ITEM], ()
            heappop(levels.due)
        return None, ()

    def _is_behind(self) -> bool:
        """Whether due timers were collected and not popped, or this collection still has to find some."""
        return bool(self._change(lambda levels: (levels.due or levels.collecting, ())))

    def _in_order(self) -> list[_T]:
        """Return the items of all timers, by deadline. O(n log n)."""
        return [timer[ITEM] for timer in sorted(self._timers.values(), key=lambda timer: timer[HINT][DEADLINE:HANDLE])]

    # ---- public -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The tick last advanced to."""
        return self._now

    @property
    def max_pending(self) -> int | None:
        """How many timers may be live; None for no limit."""
        return self._max_pending

    @exclusive
    def reschedule(self, handle: SupportsIndex, deadline: SupportsIndex, /) -> bool:
        """Move a live timer to another absolute tick. The handle stays valid, and `max_pending` does not apply.

        The timer becomes the last of those with this deadline. False, and nothing changes, if the handle is unknown or
        stale. O(1). TypeError or OverflowError for a bad argument, even with a stale handle.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        number, timer = next(_numbers), self._timers.get(handle)
        if timer is None:
            return False
        tick, hint = slot_of(deadline, self._now), (deadline, 0, deadline, number, handle)
        if self._put(tick, [hint], handle, (hint, timer[ITEM]), new=False):
            return True
        return bool(self._change(self._moved, [handle], [deadline], list)[0])

    @exclusive
    def cancel(self, handle: SupportsIndex, /) -> bool:
        """Remove a live timer; its item is released before this returns.

        False, and nothing changes, if the handle is unknown or stale. O(1). TypeError if it is not an int.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        levels = self._levels
        if levels is None:
            return bool(self._change(self._cancelled, [handle], list)[0][0])
        found = self._timers.pop(handle, None) is not None
        levels.stale += found
        return found

    @exclusive
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[_T]:
        """Move to the tick `now` and return the items, or keys, of the timers that expired.

        They come by deadline; on one tick in the order of their last schedule or reschedule. At most `limit` are
        returned: the others stay live and come first the next time. O(timers that expire or cascade), however many
        ticks pass. ValueError if `now` lies before the last one or `limit` below 0, OverflowError if `now` is outside
        0 .. 2**63-1, TypeError if one is not an int.
        """
        if limit is None and type(now) is int:
            levels = self._levels
            busy = levels is None or levels.due or levels.overdue or levels.collecting or levels.fresh
            if not busy and levels and self._now <= now < levels.starts[0]:
                self._now = now
                return []
        return cast("list[_T]", self._advance(now, limit, list))

    def next_deadline(self) -> int | None:
        """Return a tick from `now` to the earliest deadline, `now` if one is due already; None if the wheel is empty.

        It is the deadline itself if that is less than 512 ticks away, sometimes more. Otherwise it is the tick at which
        the timer cascades: a loop of ``advance(next_deadline())`` wakes up at most seven times for nothing. O(levels).
        """
        tick: int = self._change(lambda levels: (levels.first(self._timers, self._now), ()))
        return tick if self._timers else None

    def deadline(self, handle: SupportsIndex, /) -> int | None:
        """Return the deadline of a live timer as it was given, else None. O(1). TypeError if `handle` is not an int."""
        timer = self._timers.get(_arguments.handle(handle))
        return None if timer is None else timer[HINT][DEADLINE]

    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the item, or key, of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        timer = self._timers.get(_arguments.handle(handle))
        return default if timer is None else timer[ITEM]

    def reserve(self, count: SupportsIndex, /) -> None:
        """Announce that `count` timers will be pending at once: the native wheel allocates their memory, this one none.

        O(1). WheelFull if more than `max_pending`, ValueError if negative, TypeError if it is not an int.
        """
        number = _arguments.room(count)
        if self._max_pending is not None and number > self._max_pending:
            raise WheelFull("more than max_pending timers can never be pending")

    def clear(self) -> None:
        """Remove every timer; `now` stays. The items are released after the wheel is empty. O(timers)."""
        with self._lock:
            gone = self._reset(self._now, self._max_pending)
        del gone

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, handle: SupportsIndex, /) -> bool:
        return _arguments.handle(handle) in self._timers

    def __iter__(self) -> Iterator[int]:
        """Iterate over the handles that are live now, in no particular order."""
        return iter(list(self._timers))

    def __sizeof__(self) -> int:
        """Return the bytes of the wheel and all its containers, without handles and items."""
        levels = self._change(lambda levels: (levels, ()))
        lists = [levels.starts, levels.overdue, levels.opened, levels.due, *list(levels.slots.values())]
        timer = sys.getsizeof(((), ())) + sys.getsizeof((0,) * 5)
        return object.__sizeof__(self) + sum(map(sys.getsizeof, [self._timers, *lists])) + len(self._timers) * timer

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: its handles are valid for itself alone")

    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if something differs. O(timers)."""
        self._change(lambda levels: (levels.check(self._timers, self._now), ()))
        must(self._max_pending is None or len(self._timers) <= self._max_pending, "there are too many timers")


class TimingWheel(_Wheel[_T]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1, with one Python object for each timer.

    It has no clock: `advance` moves it and returns what expired. `start` is its first tick; at most `max_pending`
    timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = ("_items",)  # never set: it keeps a class from inheriting from both wheels

    @exclusive
    def schedule(self, deadline: SupportsIndex, item: _T = _NO_ITEM, /) -> int:
        """Schedule `item` for an absolute tick and return the handle of the timer.

        A deadline up to `now` is allowed: it expires at the next advance. O(1). OverflowError outside 0 .. 2**63-1,
        TypeError if it is not an int, WheelFull if `max_pending` timers are live.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        handle = next(_numbers)
        tick, hint = slot_of(deadline, self._now), (deadline, 0, deadline, handle, handle)
        if self._max_pending is not None or not self._put(tick, [hint], handle, (hint, item), new=True):
            self._change(self._added, [handle], [deadline], [item], list)
        return handle

    def schedule_many(self, deadlines: Iterable[SupportsIndex], items: Iterable[_T]) -> list[int]:
        """Schedule items for absolute ticks, pair by pair, all or none, and return a list of their handles. O(n).

        TypeError unless the deadlines are ints, ValueError unless there are as many items, OverflowError for a number
        out of range, WheelFull unless there is room for all.
        """
        when, what = list(deadlines), list(items)
        _arguments.same_length(when, what, "deadlines and items")
        return cast("list[int]", self._add_many([_arguments.tick(tick, "deadline") for tick in when], what, list))

    def cancel_many(self, handles: Iterable[SupportsIndex]) -> list[bool]:
        """Remove timers in this order; return for each whether it was live. O(n).

        TypeError unless all are ints; then no timer was removed.
        """
        return cast("list[bool]", self._change(self._cancelled, list(map(_arguments.handle, handles)), list)[0])


# A checked key is the item.
_schedule: Final[Callable[[_Wheel[Any], int, Any], int]] = cast("Any", TimingWheel.schedule)


class KeyWheel(_Wheel[int]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1, with an integer key, 0 .. 2**64-1, for each timer.

    As `TimingWheel`. The `*_many` methods also take and return arrays: they need NumPy, and accept any integer dtype,
    or a sequence of ints, of one dimension. A bad argument or a lack of memory leaves the wheel unchanged.
    """

    __slots__ = ("_keys",)  # as in the other wheel

    def schedule(self, deadline: SupportsIndex, key: SupportsIndex, /) -> int:
        """Schedule `key` for an absolute tick and return the handle of the timer; keys need not differ.

        As `TimingWheel.schedule`; OverflowError also for a key outside 0 .. 2**64-1.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        if type(key) is not int or not 0 <= key <= MAX_KEY:
            key = _arguments.key(key)
        return _schedule(self, deadline, key)

    def schedule_many(self, deadlines: ArrayLike, keys: ArrayLike) -> NDArray[np.uint64]:
        """Schedule keys for absolute ticks, pair by pair, all or none, and return their handles. O(n).

        TypeError unless both have an integer dtype, ValueError unless they have one dimension and one length,
        OverflowError for a number out of range, WheelFull unless there is room for all, ImportError without NumPy.
        """
        ticks, values = _arguments.deadlines(deadlines), _arguments.keys(keys)
        _arguments.same_length(ticks, values, "deadlines and keys")
        return cast("NDArray[np.uint64]", self._add_many(ticks.tolist(), values.tolist(), _unsigned))

    def reschedule_many(self, handles: ArrayLike, deadlines: ArrayLike) -> NDArray[np.bool_]:
        """Move timers to other absolute ticks, pair by pair in this order; return for each whether it was live. O(n).

        TypeError, ValueError, OverflowError and ImportError as for `schedule_many`.
        """
        which, ticks = _arguments.handles(handles), _arguments.deadlines(deadlines)
        _arguments.same_length(which, ticks, "handles and deadlines")
        return cast("NDArray[np.bool_]", self._change(self._moved, which.tolist(), ticks.tolist(), _bools))

    def cancel_many(self, handles: ArrayLike) -> NDArray[np.bool_]:
        """Remove timers in this order; return for each whether it was live. O(n).

        TypeError, ValueError and ImportError as for `schedule_many`.
        """
        which = _arguments.handles(handles)
        return cast("NDArray[np.bool_]", self._change(self._cancelled, which.tolist(), _bools)[0])

    def advance_many(self, now: SupportsIndex, limit: SupportsIndex | None = None) -> NDArray[np.uint64]:
        """Move to the tick `now`; return the keys of the expired timers. As `advance`; ImportError without NumPy."""
        _arguments.numpy()
        return cast("NDArray[np.uint64]", self._advance(now, limit, _unsigned))


def _unsigned(values: list[int]) -> Any:
    return _arguments.numpy().array(values, "u8")


def _bools(values: list[bool]) -> Any:
    return _arguments.numpy().array(values, "?")
