"""The pure-Python twin of the native wheels: the same classes, for wherever the extension was not built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, compress, islice, repeat
from operator import delitem, is_not, itemgetter, setitem
from typing import TYPE_CHECKING, Any, Final, Generic, SupportsIndex, TypeVar, cast, overload

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_KEY, MAX_TICK
from ._pure_base import _Wheel, numbers
from ._pure_commit import exclusive
from ._pure_levels import DIGIT_SHIFT, EMPTY, place_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["KeyWheel", "TimingWheel"]

_T = TypeVar("_T")
_D = TypeVar("_D")

_NO_ITEM: Final[Any] = None


def _as_list(items: list[Any]) -> list[Any]:
    return items


if TYPE_CHECKING:

    class _ItemWheel(_Wheel, Generic[_T]):
        __slots__ = ()
else:
    _ItemWheel = _Wheel


class TimingWheel(_ItemWheel[_T]):
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
        number = next(numbers)
        while True:
            now = self._now
            if deadline <= now | 255:  # what `place_of` says, without a call
                place = (deadline if deadline > now else now) & 255
            elif deadline <= now | 65535:
                place = 256 | deadline >> 8 & 255
            else:
                place = place_of(deadline, now)
            handle = number | ((deadline & 255) << DIGIT_SHIFT | place)
            entry = deadline, handle, item
            # From here to the return nothing is called and nothing made that the collector tracks.
            count = self._count
            if count == self._max_pending:
                raise WheelFull(
                    "max_pending timers are pending: cancel some, advance, or make a wheel with a higher limit"
                )
            slot = self._slots[place]
            if slot is EMPTY or self._planning or now != self._now:
                self._open(place, now)
                continue
            count += 1
            slot[handle] = entry
            self._count = count
            return handle

    @exclusive
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[_T]:
        """Move to the tick `now` and return the items of the timers that expired.

        They come by deadline; on one tick in the order of their last schedule or reschedule. At most `limit` come back:
        the others are held back, live, and come first the next time. O(timers that expire or cascade), however many
        ticks pass. ValueError if `now` lies before the last one or `limit` below 0, OverflowError if `now` is outside
        0 .. 2**63-1, TypeError if one is not an int.
        """
        if (
            type(now) is int
            and limit is None
            and not self._held
            and self._now <= now < self._first_tick
            and not self._planning
        ):
            self._now = now
            return []
        return self._advance(now, limit, _as_list)

    @overload
    def get(self, handle: SupportsIndex, /) -> _T | None: ...
    @overload
    def get(self, handle: SupportsIndex, default: _D, /) -> _T | _D: ...
    @exclusive
    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the item of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        entry = self._entry(_arguments.handle(handle))
        return default if entry is None else entry[2]


_add: Final[Callable[[_Wheel, int, Any], int]] = cast("Any", TimingWheel.schedule)  # a key is an item, once checked


class KeyWheel(_Wheel):
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
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[int]:
        """Move to the tick `now` and return the keys of the timers that expired. As `TimingWheel.advance`."""
        if (
            type(now) is int
            and limit is None
            and not self._held
            and self._now <= now < self._first_tick
            and not self._planning
        ):
            self._now = now
            return []
        return self._advance(now, limit, _as_list)

    @overload
    def get(self, handle: SupportsIndex, /) -> int | None: ...
    @overload
    def get(self, handle: SupportsIndex, default: _D, /) -> int | _D: ...
    @exclusive
    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the key of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        entry = self._entry(_arguments.handle(handle))
        return default if entry is None else entry[2]

    @exclusive
    def schedule_many(self, deadlines: ArrayLike, keys: ArrayLike) -> NDArray[np.uint64]:
        """Schedule keys for absolute ticks, pair by pair, all or none, and return their handles. O(n).

        TypeError unless both have an integer dtype, ValueError unless they have one dimension and one length,
        OverflowError for a number out of range, WheelFull unless there is room for all, ImportError without NumPy.
        """
        ticks, values = _arguments.deadlines(deadlines), _arguments.keys(keys)
        _arguments.same_length(ticks, values, "deadlines and keys")
        return cast("NDArray[np.uint64]", self._plan(self._add_many, ticks.tolist(), values.tolist()))

    @exclusive
    def reschedule_many(self, handles: ArrayLike, deadlines: ArrayLike) -> NDArray[np.bool_]:
        """Move timers to other absolute ticks, pair by pair in this order, and return which were live. O(n).

        TypeError, ValueError, OverflowError and ImportError as `schedule_many`.
        """
        which, ticks = _arguments.handles(handles), _arguments.deadlines(deadlines)
        _arguments.same_length(which, ticks, "handles and deadlines")
        return cast("NDArray[np.bool_]", self._plan(self._move_many, which.tolist(), ticks.tolist()))

    @exclusive
    def cancel_many(self, handles: ArrayLike) -> NDArray[np.bool_]:
        """Remove timers in this order and return which were live. O(n).

        TypeError, ValueError and ImportError as `schedule_many`.
        """
        which = _arguments.handles(handles)
        return cast("NDArray[np.bool_]", self._plan(self._cancel_many, which.tolist()))

    @exclusive
    def advance_many(self, now: SupportsIndex, limit: SupportsIndex | None = None) -> NDArray[np.uint64]:
        """Move to the tick `now` and return the keys of the timers that expired. As `advance`; ImportError as above."""
        array = _arguments.numpy().array
        return self._advance(now, limit, lambda keys: cast("NDArray[np.uint64]", array(keys, "u8")))

    def _open_all(self, deadlines: list[int]) -> list[int] | None:
        """Return the places of deadlines, all of them open, or None if one was closed until now."""
        now = self._now
        places = [place_of(deadline, now) for deadline in deadlines]
        closed = [place for place in set(places) if self._slots[place] is EMPTY]
        if not closed:
            return places if now == self._now else None
        self._planning = False
        for place in closed:
            self._open(place, now)
        return None

    def _emptied(self, places: Iterable[int]) -> list[int]:
        """Return the batches that will be empty when from each of the places one timer is gone."""
        leaving = Counter(place for place in places if place < 0)
        return [number for number, count in leaving.items() if count == len(self._slot(number))]

    def _add_many(self, deadlines: list[int], keys: list[int]) -> Any:
        """Attempt to schedule timers, and return an array of handles."""
        count = self._count + len(deadlines)
        if self._max_pending is not None and count > self._max_pending:
            raise WheelFull("they would be more than max_pending timers: none of them was scheduled")
        places = self._open_all(deadlines)
        if places is None:
            return None
        handles = [
            number | (deadline & 255) << DIGIT_SHIFT | place
            for deadline, place, number in zip(deadlines, places, islice(numbers, len(deadlines)), strict=False)
        ]
        entries = list(zip(deadlines, handles, keys, strict=True))
        slots = list(map(self._slots.__getitem__, places))
        result = _arguments.numpy().array(handles, "u8")
        changes = chain(map(setitem, slots, handles, entries), map(setattr, (self,), ("_count",), (count,)))
        return result if self._commit(changes, map(dict.pop, slots, handles, repeat(None))) else None

    def _move_many(self, handles: list[int], deadlines: list[int]) -> Any:
        """Attempt to reschedule timers, and return an array of bools."""
        places = self._open_all(deadlines)
        if places is None:
            return None
        result = _arguments.numpy().array([self._find(handle) is not None for handle in handles], "?")
        moves = {move[0]: move for move in zip(handles, places, deadlines, islice(numbers, len(handles)), strict=False)}
        moved, slots = self._moved, self._slots
        live: list[int] = []
        old_places, old_slots, old_entries, new_slots, entries = [], [], [], [], []
        for handle, place, deadline, number in moves.values():
            old_place = self._find(handle)
            slot = EMPTY if old_place is None else self._slot(old_place)
            entry = slot.get(handle)
            if entry is not None and old_place is not None:
                live.append(handle)
                old_places.append(old_place)
                old_slots.append(slot)
                old_entries.append(entry)
                new_slots.append(slots[place])
                entries.append((deadline, number, entry[2]))
        known = {handle: moved.get(handle, entry[0]) for handle, entry in zip(live, old_entries, strict=True)}
        if self._planning:
            moved.update(known)  # true already
        leaving = list(map(is_not, old_slots, new_slots))
        changes = chain(
            map(setitem, new_slots, live, entries),
            map(setitem, repeat(moved), live, map(itemgetter(0), entries)),  # from here on no memory is needed
            map(delitem, compress(old_slots, leaving), compress(live, leaving)),
            map(self._held.pop, self._emptied(old_places)),
        )
        undoing = chain(
            map(setitem, old_slots, live, old_entries),
            map(dict.pop, compress(new_slots, leaving), compress(live, leaving), repeat(None)),
        )
        return result if self._commit(changes, undoing) else None

    def _cancel_many(self, handles: list[int]) -> Any:
        """Attempt to cancel timers, and return an array of bools."""
        places: dict[int, int] = {}
        done = []
        for handle in handles:
            place = None if handle in places else self._find(handle)
            done.append(place is not None)
            if place is not None:
                places[handle] = place
        result = _arguments.numpy().array(done, "?")
        slots = list(map(self._slot, places.values()))
        changes = chain(
            map(delitem, slots, places),
            map(self._moved.pop, places, repeat(None)),
            map(self._held.pop, self._emptied(places.values())),
            map(setattr, (self,), ("_count",), (self._count - len(places),)),
        )
        return result if self._commit(changes, iter(())) else None
