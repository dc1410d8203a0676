"""The pure-Python twin of the native wheels: the same classes, for wherever the extension was not built."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, Self, SupportsIndex, TypeVar, cast

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_KEY, MAX_TICK
from ._pure_levels import DEADLINE, ITEM, KEY, NEVER, START, Levels, Timer, consume, exclusive, numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["KeyWheel", "TimingWheel"]

_T = TypeVar("_T")
_R = TypeVar("_R")

_NO_ITEM: Final[Any] = None


class _Wheel(Levels, Generic[_T]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1; what both wheels share.

    It has no clock: `advance` moves it and returns what expired. `start` is the tick it stands at first; at most
    `max_pending` timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = ()

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """Return an empty wheel at tick 0: a subclass may leave out our ``__init__``."""
        self = super().__new__(cls)
        Levels.__init__(self)
        return self

    @exclusive
    def __init__(self, start: SupportsIndex = 0, *, max_pending: SupportsIndex | None = None) -> None:
        self._reset(_arguments.tick(start, "start"), _arguments.max_pending(max_pending))

    __class_getitem__: ClassVar[Any] = classmethod(GenericAlias)

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
        """Move a live timer to another absolute tick: the handle stays valid, and `max_pending` has no say.

        From now on it is the last of the timers with this deadline. False, and nothing changes, if the handle is
        unknown or stale. O(1). TypeError or OverflowError for a bad argument, a stale handle or not.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        number = next(numbers)
        while True:
            mark = self._mark or self._interrupt()
            timer = self._timers.get(handle)
            if timer is None:
                return False
            moved = self._moved(handle, timer, deadline, number)
            if mark == self._mark:
                old, slots = timer[KEY], self._slots
                self._timers[handle] = moved
                self._mark = number
                if moved[KEY] != old and old in slots and handle in slots[old]:
                    del slots[old][handle]
                return True

    def _moved(self, handle: int, timer: Timer, deadline: int, number: int) -> Timer:
        """Return a timer with another deadline, for which there is a hint."""
        previous, _, item, key = timer
        if not deadline >= previous > self._now:
            key = self._place(handle, deadline)
        return deadline, number, item, key

    @exclusive
    def cancel(self, handle: SupportsIndex, /) -> bool:
        """Remove a live timer; its item is released before this returns.

        False, and nothing changes, if the handle is unknown or stale. O(1). TypeError if it is not an int.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        while not self._mark:
            self._interrupt()
        timers, slots = self._timers, self._slots
        try:
            timer = timers[handle]  # released when this returns: the finaliser of the item may call back
        except KeyError:
            return False
        self._mark = -handle
        del timers[handle]
        try:  # noqa: SIM105  # that would be a call
            del slots[timer[KEY]][handle]
        except KeyError:  # its slot was taken
            pass
        return True

    def _add_many(self, deadlines: list[int], items: list[Any], pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to schedule timers, and return their handles, packed."""
        if self._max_pending is not None and len(self._timers) + len(deadlines) > self._max_pending:
            raise WheelFull("they would be more than max_pending timers: none of them was scheduled")
        handles = list(islice(numbers, len(deadlines)))
        timers = {
            handle: (deadline, handle, item, self._place(handle, deadline))
            for handle, deadline, item in zip(handles, deadlines, items, strict=True)
        }
        result = pack(handles)
        undo = map(self._timers.pop, handles, repeat(None))
        if self._mark:
            return None
        failed = None
        try:
            self._timers.update(timers)
        except MemoryError as error:  # in its midst; handled below, as in here another one may have no end
            failed = error
        if failed is not None:
            consume(undo)
            raise failed
        return result

    def _cancel_many(self, handles: list[int], pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to cancel timers, and return which were live, packed."""
        timers = self._timers
        live: dict[int, Timer] = {}
        found = []
        for handle in handles:
            found.append(handle in timers and handle not in live)
            if found[-1]:
                live[handle] = timers[handle]
        result = pack(found)
        changes = chain(map(timers.pop, live), self._hints_leaving(live))
        if self._mark:
            return None
        consume(changes)
        return result

    def _hints_leaving(self, timers: dict[int, Timer]) -> Iterator[Any]:
        """Return what removes the hints of timers when it is consumed."""
        slots = [self._slots.get(timer[KEY], {}) for timer in timers.values()]
        return map(dict.pop, slots, timers, repeat(None))

    @exclusive
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[_T]:
        """Move to the tick `now` and return the items, or keys, of the timers that expired.

        They come by deadline; on one tick in the order of their last schedule or reschedule. At most `limit` come back:
        the others are held back, live, and come first the next time. O(timers that expire or cascade), however many
        ticks pass. ValueError if `now` lies before the last one or `limit` below 0, OverflowError if `now` is outside
        0 .. 2**63-1, TypeError if one is not an int.
        """
        if (
            limit is None
            and type(now) is int
            and self._now <= now < self._starts[0] >> START
            and not (self._ready or self._staged or self._taken or self._slots[self._overdue])
            and self._mark
        ):
            self._now = now
            return []
        expired: list[_T] = self._advance(now, limit, list)
        return expired

    def _advance(self, now: SupportsIndex, limit: SupportsIndex | None, pack: Callable[[list[Any]], Any]) -> Any:
        tick = _arguments.tick(now, "now")
        most = _arguments.limit(limit)
        if tick < self._now:
            raise _arguments.backwards()
        return self._planned(self._expire, tick, NEVER, NEVER, most, pack)

    @exclusive
    def next_deadline(self) -> int | None:
        """Return a tick from `now` to the earliest deadline, `now` if one is due already; None if the wheel is empty.

        It is the deadline itself if that is less than 512 ticks away, at times more. Otherwise the timer cascades
        there, and a loop of ``advance(next_deadline())`` wakes up at most seven times for nothing. O(levels).
        """
        if not self._timers:
            return None
        return self._now if self._is_behind() or self._slots[self._overdue] else self._first()

    @exclusive
    def deadline(self, handle: SupportsIndex, /) -> int | None:
        """Return the deadline of a live timer as it was given, else None. O(1). TypeError if `handle` is not an int."""
        timer = self._timers.get(_arguments.handle(handle))
        return None if timer is None else timer[DEADLINE]

    @exclusive
    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the item, or key, of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        timer = self._timers.get(_arguments.handle(handle))
        return default if timer is None else timer[ITEM]

    @exclusive
    def reserve(self, count: SupportsIndex, /) -> None:
        """Say that `count` timers will be pending at once: the native wheel takes their memory now, this one none.

        O(1). WheelFull if more than `max_pending`, ValueError if negative, TypeError if it is not an int.
        """
        number = _arguments.room(count)
        if self._max_pending is not None and number > self._max_pending:
            raise WheelFull("more than max_pending timers can never be pending")

    @exclusive
    def clear(self) -> None:
        """Remove every timer; `now` stays. The items are released when the wheel is already empty. O(timers)."""
        self._reset(None, self._max_pending)

    @exclusive
    def __len__(self) -> int:
        return len(self._timers)

    @exclusive
    def __contains__(self, handle: SupportsIndex, /) -> bool:
        return _arguments.handle(handle) in self._timers

    @exclusive
    def __iter__(self) -> Iterator[int]:
        """Iterate over the handles that are live now, in no particular order."""
        return iter(list(self._timers))

    @exclusive
    def __sizeof__(self) -> int:
        """Return the bytes of the wheel and all its containers, without handles and items."""
        owned = [self._timers, self._slots, self._starts, self._taken, self._staged, self._ready]
        owned += [*self._slots.values(), *self._taken.values(), *self._staged]
        hints = len(self._ready) + sum(map(len, self._staged))
        timer, hint = map(sys.getsizeof, ((0, 0, None, 0), (0, 0, 0)))
        return object.__sizeof__(self) + sum(map(sys.getsizeof, owned)) + len(self._timers) * timer + hints * hint

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: its handles are valid for itself alone")

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        self.__reduce__()

    @exclusive
    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if something differs. O(timers)."""
        self._planned(self._compare)


class TimingWheel(_Wheel[_T]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1, with one Python object for each timer.

    It has no clock: `advance` moves it and returns what expired. `start` is the tick it stands at first; at most
    `max_pending` timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = ("_items",)  # never set: it keeps a class from being both wheels

    @exclusive
    def schedule(self, deadline: SupportsIndex, item: _T = _NO_ITEM, /) -> int:
        """Schedule `item` for an absolute tick and return the handle of the timer.

        A deadline up to `now` is legal: it expires at the next advance. O(1). OverflowError outside 0 .. 2**63-1,
        TypeError if it is not an int, WheelFull if `max_pending` timers are live.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        handle = next(numbers)
        while True:
            mark = self._mark or self._interrupt()
            if self._max_pending is not None and len(self._timers) >= self._max_pending:
                raise WheelFull(
                    "max_pending timers are pending: cancel some, advance, or make a wheel with a higher limit"
                )
            distance = deadline - self._now
            if 0 < distance < 512:  # what `_key` says, without a call
                key = deadline << START | 56
            elif 0 < distance < 131_072:
                key = deadline >> 8 << 8 + START | 48
            else:
                key = self._key(deadline)
            timer = deadline, handle, item, key
            if mark == self._mark:
                slots = self._slots
                if key in slots:
                    slots[key][handle] = None
                    self._timers[handle] = timer
                    self._mark = handle
                    return handle
                self._open(key)

    @exclusive
    def schedule_many(self, deadlines: Iterable[SupportsIndex], items: Iterable[_T]) -> list[int]:
        """Schedule items for absolute ticks, pair by pair, all or none, and return a list of their handles. O(n).

        TypeError unless the deadlines are ints, ValueError unless there are as many items, OverflowError for a number
        out of range, WheelFull unless there is room for all.
        """
        when, what = list(deadlines), list(items)
        _arguments.same_length(when, what, "deadlines and items")
        ticks = [_arguments.tick(deadline, "deadline") for deadline in when]
        return self._planned(self._add_many, ticks, what, list)

    @exclusive
    def cancel_many(self, handles: Iterable[SupportsIndex]) -> list[bool]:
        """Remove timers in this order, and return a list of bools: which were live. O(n).

        TypeError unless all are ints: no timer was removed.
        """
        return self._planned(self._cancel_many, [_arguments.handle(handle) for handle in handles], list)


_add: Final[Callable[[_Wheel[Any], int, Any], int]] = cast(
    "Any", TimingWheel.schedule
)  # a key is an item, once checked


class KeyWheel(_Wheel[int]):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1, with an integer key, 0 .. 2**64-1, for each timer.

    As `TimingWheel`. Besides, the `*_many` methods take and return arrays: they need NumPy, and accept any integer
    dtype, or a sequence of ints, of one dimension. A bad argument or a lack of memory leaves the wheel unchanged.
    """

    __slots__ = ("_keys",)  # as in the other wheel

    @exclusive
    def schedule(self, deadline: SupportsIndex, key: SupportsIndex, /) -> int:
        """Schedule `key` for an absolute tick and return the handle of the timer; keys need not differ.

        As `TimingWheel.schedule`; OverflowError also for a key outside 0 .. 2**64-1.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        if type(key) is not int or not 0 <= key <= MAX_KEY:
            key = _arguments.key(key)
        return _add(self, deadline, key)

    @exclusive
    def schedule_many(self, deadlines: ArrayLike, keys: ArrayLike) -> NDArray[np.uint64]:
        """Schedule keys for absolute ticks, pair by pair, all or none, and return their handles. O(n).

        TypeError unless both have an integer dtype, ValueError unless they have one dimension and one length,
        OverflowError for a number out of range, WheelFull unless there is room for all, ImportError without NumPy.
        """
        ticks, values = _arguments.deadlines(deadlines), _arguments.keys(keys)
        _arguments.same_length(ticks, values, "deadlines and keys")
        return cast("NDArray[np.uint64]", self._planned(self._add_many, ticks.tolist(), values.tolist(), _unsigned))

    @exclusive
    def reschedule_many(self, handles: ArrayLike, deadlines: ArrayLike) -> NDArray[np.bool_]:
        """Move timers to other absolute ticks, pair by pair in this order, and return which were live. O(n).

        TypeError, ValueError, OverflowError and ImportError as `schedule_many`.
        """
        which, ticks = _arguments.handles(handles), _arguments.deadlines(deadlines)
        _arguments.same_length(which, ticks, "handles and deadlines")
        return cast("NDArray[np.bool_]", self._planned(self._move_many, which.tolist(), ticks.tolist()))

    def _move_many(self, handles: list[int], deadlines: list[int]) -> Any:
        """Attempt to reschedule timers, and return an array of bools."""
        timers = self._timers
        moved: dict[int, Timer] = {}
        for handle, deadline, number in zip(handles, deadlines, islice(numbers, len(handles)), strict=False):
            timer = moved.get(handle) or timers.get(handle)
            if timer is not None:
                moved[handle] = self._moved(handle, timer, deadline, number)
        result = _bools([handle in moved for handle in handles])
        left = [handle for handle, timer in moved.items() if timer[KEY] != timers[handle][KEY]]
        changes = chain(map(timers.update, (moved,)), self._hints_leaving({handle: timers[handle] for handle in left}))
        if self._mark:
            return None
        consume(changes)
        return result

    @exclusive
    def cancel_many(self, handles: ArrayLike) -> NDArray[np.bool_]:
        """Remove timers in this order and return which were live. O(n).

        TypeError, ValueError and ImportError as `schedule_many`.
        """
        which = _arguments.handles(handles)
        return cast("NDArray[np.bool_]", self._planned(self._cancel_many, which.tolist(), _bools))

    @exclusive
    def advance_many(self, now: SupportsIndex, limit: SupportsIndex | None = None) -> NDArray[np.uint64]:
        """Move to the tick `now` and return the keys of the timers that expired. As `advance`; ImportError as above."""
        _arguments.numpy()
        return cast("NDArray[np.uint64]", self._advance(now, limit, _unsigned))


def _unsigned(values: list[int]) -> Any:
    return _arguments.numpy().array(values, "u8")


def _bools(values: list[bool]) -> Any:
    return _arguments.numpy().array(values, "?")
