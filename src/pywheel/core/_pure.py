"""The pure-Python twin of the native wheel: the same classes, the same answers, for builds without a compiler.

A deadline lies on the level of its highest digit (base 256) that differs from `now`, in the slot of that digit. So
every slot behind `now` is empty, the slots in front are in order of time, and whatever is due lies in one run of
slots, of which only the last can also hold timers that are not due: these cascade to lower levels.

    level   0      1      2      ...  7            8 levels cover 63 bits
    place   0..    256..  512..       1792..2047   a level's slots are consecutive places
    slot    1      2**8   2**16       2**56 ticks

Consistency. A finaliser, a signal handler or another thread can run wherever CPython may switch: at calls, at
backward jumps and (3.11) where an object the collector tracks is made. So every change is prepared first and then
committed by statements with none of these, the last of which may be one call into C: nobody sees half a change, and
what can raise MemoryError comes before the first store. A longer plan is made with `_planning` set; whoever changes
the wheel meanwhile clears it, and the plan is made anew. Other threads wait on the lock while a plan is being made.
Without a GIL, or on another interpreter, every method holds that lock from start to end.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import wraps
from itertools import chain, count, islice, repeat
from operator import itemgetter, setitem
from threading import RLock
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, cast, overload

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_KEY, MAX_TICK

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["KeyWheel", "TimingWheel"]

_T = TypeVar("_T")
_D = TypeVar("_D")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])

_Entry: TypeAlias = tuple[int, int, Any]  # deadline, sequence, item
_Slot: TypeAlias = dict[int, _Entry]  # by handle

_PLACES: Final = 8 * 256
_PLACE: Final = _PLACES - 1  # the low bits of a handle: the place where its timer was scheduled
_PLACE_BITS: Final = 11
_NEVER: Final = MAX_TICK + 1
_EMPTY: Final[_Slot] = {}  # stands in every place that is not open; nothing is ever put into it
_NO_ITEM: Final[Any] = None

_deadline: Final = itemgetter(0)
_sequence: Final = itemgetter(1)
_numbers: Final = count(1)  # one for the process: a handle of another wheel is never known here
_consume: Final = deque[Any](maxlen=0).extend  # runs an iterator to its end, in C
_HAS_GIL: Final = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def _exclusive(method: _F) -> _F:
    """Hold the wheel's lock during `method`, unless the GIL makes every commit indivisible by itself."""
    if _HAS_GIL:
        return method

    @wraps(method)
    def exclusive(self: _Wheel, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_F", exclusive)


def _first_place(occupied: int, now: int) -> tuple[int, int]:
    """Return the first place whose bit is set in `occupied`, and the tick at which its slot starts."""
    if not occupied:
        return _PLACE, _NEVER
    place = (occupied & -occupied).bit_length() - 1
    shift = place >> 8 << 3
    return place, now >> shift + 8 << shift + 8 | (place & 255) << shift


def _in_order(slot: _Slot) -> list[_Entry]:
    """Return the slot's entries by deadline, then by sequence."""
    entries = list(slot.values())
    if len(entries) > 1:
        entries.sort(key=_sequence)
        entries.sort(key=_deadline)
    return entries


class _Plan:
    """What an advance to `target` will do to the wheel; making it changes nothing."""

    __slots__ = ("fresh", "moves", "occupied", "ripe", "slots", "window")

    def __init__(self, slots: list[_Slot], occupied: int, now: int, target: int) -> None:
        shift = ((target ^ now).bit_length() or 1) - 1 & ~7  # of the highest level that changes its slot
        start = 0 if shift else now & 255
        stop = (shift << 5 | target >> shift & 255) + 1
        self.window = slice(start, stop)
        self.slots = slots[start:stop]
        self.ripe: list[_Slot] = list(filter(None, self.slots))  # what is due, in order of time
        self.fresh = [_EMPTY] * (stop - start)  # what will stand in the window
        self.moves: _Slot | dict[int, _Slot] = {}  # timers that cascade, and their new slots
        self.occupied = occupied >> stop << stop
        if shift and self.slots[-1]:
            self._cascade(self.ripe.pop(), shift, target)

    def _cascade(self, slot: _Slot, shift: int, target: int) -> None:
        """Distribute the slot that `target` lies in: over the due ones and the slots of the lower levels."""
        while shift and slot:
            shift -= 8
            groups: defaultdict[int, _Slot] = defaultdict(dict)
            for handle, entry in zip(list(slot), list(slot.values())):
                groups[entry[0] >> shift & 255][handle] = entry
            digit = target >> shift & 255
            slot = groups.pop(digit, _EMPTY)
            for index in sorted(groups):
                group = groups[index]
                if index < digit:
                    self.ripe.append(group)
                else:
                    place = shift << 5 | index
                    self.fresh[place] = group
                    self.occupied |= 1 << place
                    self.moves.update(dict.fromkeys(group, group))
        if slot:
            self.ripe.append(slot)


class _Wheel:
    """What both wheels share: the timers, and everything that does not look at an item."""

    __slots__ = (
        "__weakref__",
        "_count",  # live timers, the held-back ones included
        "_first",  # the first open place ...
        "_first_tick",  # ... and the tick at which its slot starts
        "_held",  # timers that a limit held back: batches in order, each by handle and in order
        "_lock",
        "_max_pending",
        "_moved",  # the slot or batch of each timer that is not in the place its handle names
        "_now",
        "_occupied",  # one bit per place: set if it is open, that is if it has a slot of its own
        "_planning",
        "_slots",  # by place
    )

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """Make an empty wheel at tick 0, whatever a subclass does in its own ``__init__``."""
        self = super().__new__(cls)
        self._lock = RLock()
        self._planning = False
        self._now = 0
        self._slots, self._moved, self._held = [], {}, deque()
        self._reset(0, None)
        return self

    def __init__(self, start: SupportsIndex = 0, *, max_pending: SupportsIndex | None = None) -> None:
        now = _arguments.tick(start, "start")
        self._reset(now, _arguments.max_pending(max_pending))

    __class_getitem__ = classmethod(GenericAlias)

    @property
    def now(self) -> int:
        """The tick last advanced to."""
        return self._now

    @property
    def max_pending(self) -> int | None:
        """The most timers the wheel may hold; None means no limit."""
        return self._max_pending

    @_exclusive
    def reschedule(self, handle: SupportsIndex, deadline: SupportsIndex, /) -> bool:
        """Move a live timer to another absolute tick; its handle stays valid.

        Among timers with the same deadline it is the last from now on. False, and nothing changes, if the handle is
        unknown or stale. O(1). TypeError or OverflowError for a bad argument, whether or not the timer lives.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        while True:
            entry = self._entry(handle)
            if entry is None:
                return False
            entry = (deadline, next(_numbers), entry[2])
            now = self._now
            tick = deadline if deadline > now else now
            shift = ((tick ^ now).bit_length() or 1) - 1 & ~7
            place = shift << 5 | tick >> shift & 255
            slot = self._slots[place]
            if slot is _EMPTY:
                self._open(place, now)
                continue
            # The commit: from here to the return, nothing that could run other code.
            if self._planning or now != self._now or slot is not self._slots[place]:
                self._interrupt()
                continue
            moved = self._moved
            old = moved[handle] if handle in moved else self._slots[handle & _PLACE]
            if handle not in old:
                return False
            if old is slot:
                slot[handle] = entry
                return True
            slot[handle] = entry
            try:
                moved[handle] = slot
            except MemoryError:
                del slot[handle]
                raise
            del old[handle]
            return True

    @_exclusive
    def cancel(self, handle: SupportsIndex, /) -> bool:
        """Remove a live timer; its item is released before this returns.

        False, and nothing changes, if the handle is unknown or stale. O(1). TypeError if `handle` is not an int.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        while self._planning:
            self._interrupt()
        moved = self._moved
        if handle in moved:
            slot = moved[handle]
            count = self._count - 1
            del moved[handle]
        else:
            slot = self._slots[handle & _PLACE]
            if handle not in slot:
                return False
            count = self._count - 1
        self._count = count
        del slot[handle]  # last: the item's finaliser may call back
        return True

    @_exclusive
    def next_deadline(self) -> int | None:
        """Return a tick not before `now` and not after the earliest deadline that is not past; None if empty.

        Exact if the earliest timer is due or lies within 256 ticks; else the start of its slot: advancing to it
        cascades the slot, and at most seven such steps lead to the deadline. O(levels), amortised.
        """
        while self._count:
            if any(self._held):
                return self._now
            if self._slots[self._first]:
                return self._first_tick
            self._close()
        return None

    @_exclusive
    def deadline(self, handle: SupportsIndex, /) -> int | None:
        """Return the deadline of a live timer as it was given; None for any other handle. O(1).

        TypeError if `handle` is not an int.
        """
        entry = self._entry(_arguments.handle(handle))
        return None if entry is None else entry[0]

    @_exclusive
    def clear(self) -> None:
        """Remove every timer; `now` stays. The items are released once the wheel is empty. O(timers)."""
        self._reset(None, self._max_pending)

    @_exclusive
    def __len__(self) -> int:
        return self._count

    @_exclusive
    def __contains__(self, handle: SupportsIndex, /) -> bool:
        return self._entry(_arguments.handle(handle)) is not None

    @_exclusive
    def __iter__(self) -> Iterator[int]:
        """Iterate over the handles that are live now, in no particular order."""
        return iter(self._handles())

    @_exclusive
    def __sizeof__(self) -> int:
        """Return the bytes of the wheel and its containers, without items and handles."""
        owned: list[Any] = [self._slots, self._moved, self._held, *self._held, *filter(None, self._slots)]
        return object.__sizeof__(self) + sum(map(sys.getsizeof, owned)) + self._count * sys.getsizeof((0, 0, None))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: its timers and handles are its own")

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        self.__reduce__()

    def _add(self, deadline: int, item: Any) -> int:
        """Schedule a new timer and return its handle; WheelFull if there is no room."""
        while True:
            now = self._now
            tick = deadline if deadline > now else now
            shift = ((tick ^ now).bit_length() or 1) - 1 & ~7
            place = shift << 5 | tick >> shift & 255
            slot = self._slots[place]
            if slot is _EMPTY and self._count != self._max_pending:
                self._open(place, now)
                continue
            number = next(_numbers)
            handle = number << _PLACE_BITS | place
            entry = (deadline, number, item)
            # The commit: from here to the return, nothing that could run other code.
            if self._planning or now != self._now or slot is not self._slots[place]:
                self._interrupt()
                continue
            count = self._count
            if count == self._max_pending:
                raise WheelFull("the wheel holds max_pending timers")
            count += 1
            slot[handle] = entry
            self._count = count
            return handle

    def _advance(self, now: SupportsIndex, limit: SupportsIndex | None, pack: Callable[[list[Any]], _R]) -> _R:
        """Move to the tick `now` and return at most `limit` of the items that are due, packed."""
        if type(now) is not int or not 0 <= now <= MAX_TICK:
            now = _arguments.tick(now, "now")
        most = MAX_TICK if limit is None else _arguments.limit(limit)
        nothing = pack([])
        if self._now <= now < self._first_tick and not self._held and not self._planning:
            self._now = now
            return nothing
        with self._lock:
            if now < self._now:
                raise _arguments.backwards()
            try:
                return self._expire(now, most, pack)
            finally:
                self._planning = False

    def _expire(self, now: int, limit: int, pack: Callable[[list[Any]], _R]) -> _R:
        """Carry out an advance that meets open slots or held-back timers."""
        while True:
            self._planning = True
            held = self._held
            while held and not held[0]:
                held.popleft()
            now = max(now, self._now)
            plan = _Plan(self._slots, self._occupied, self._now, now)
            ready = sum(map(len, plan.ripe))
            if held or ready > limit:
                if self._hold(plan, now):
                    return self._release(limit, pack)
                continue
            if plan.moves:
                self._pin(plan.slots[-1:])
            items = pack([entry[2] for slot in plan.ripe for entry in _in_order(slot)])
            moved = self._moved
            gone = list(chain.from_iterable(plan.ripe)) if moved else []
            first, tick = _first_place(plan.occupied, now)
            changes = chain(
                map(setitem, repeat(moved), plan.moves, plan.moves.values()), map(moved.pop, gone, repeat(None))
            )
            count = self._count - ready
            if self._planning:
                self._slots[plan.window] = plan.fresh
                self._occupied = plan.occupied
                self._first = first
                self._first_tick = tick
                self._count = count
                self._now = now
                _consume(changes)
                return items

    def _hold(self, plan: _Plan, now: int) -> bool:
        """Move to the tick `now` and hold back all that is ripe; False if the plan is out of date."""
        batch: OrderedDict[int, _Entry] = OrderedDict()
        for slot in plan.ripe:
            batch.update(sorted(list(zip(list(slot), list(slot.values()))), key=lambda timer: timer[1][:2]))
        self._pin(plan.slots)
        moved, held = self._moved, self._held
        if not held or held[-1]:
            held.append(OrderedDict())  # the batch takes its place in the commit
        moves = plan.moves | dict.fromkeys(batch, batch)
        changes = map(setitem, repeat(moved), moves, moves.values())
        first, tick = _first_place(plan.occupied, now)
        if not self._planning:
            return False
        self._slots[plan.window] = plan.fresh
        self._occupied = plan.occupied
        self._first = first
        self._first_tick = tick
        self._now = now
        held[-1] = batch
        _consume(changes)
        return True

    def _release(self, limit: int, pack: Callable[[list[Any]], _R]) -> _R:
        """Take out the first timers that were held back and return their items, packed."""
        while True:
            self._planning = True
            entries: list[_Entry] = []
            changes: list[Iterator[Any]] = []
            moved = self._moved
            for batch in list(self._held):
                if len(entries) == limit:
                    break
                handles = list(islice(batch, limit - len(entries)))
                entries += filter(None, map(batch.get, handles))
                changes += map(batch.pop, handles), map(moved.pop, handles)
            items = pack([entry[2] for entry in entries])
            change = chain.from_iterable(changes)
            count = self._count - len(entries)
            if self._planning:
                self._count = count
                _consume(change)
                return items

    def _pin(self, slots: list[_Slot]) -> None:
        """Enter the timers of these slots in `_moved`, where a commit can then change their place and not fail."""
        for slot in filter(None, slots):
            where = dict.fromkeys(slot, slot)
            if self._planning:
                self._moved.update(where)

    def _interrupt(self) -> None:
        """Wait while another thread plans; make this thread plan anew if it is the one."""
        with self._lock:
            self._planning = False

    def _open(self, place: int, now: int) -> None:
        """Give a place in front of `now` a slot of its own."""
        shift = place >> 8 << 3
        tick = now >> shift + 8 << shift + 8 | (place & 255) << shift
        slot: _Slot = {}
        if self._planning:
            self._interrupt()
        elif self._now == now and self._slots[place] is _EMPTY:
            self._occupied |= 1 << place
            self._slots[place] = slot
            if place < self._first:
                self._first = place
                self._first_tick = tick

    def _close(self) -> None:
        """Take its slot from the first open place if there is nothing in it any more."""
        place, occupied = self._first, self._occupied
        rest = occupied & ~(1 << place)
        first, tick = _first_place(rest, self._now)
        if self._planning:
            self._interrupt()
        elif self._occupied is occupied and not self._slots[place]:
            self._slots[place] = _EMPTY
            self._occupied = rest
            self._first = first
            self._first_tick = tick

    def _entry(self, handle: int) -> _Entry | None:
        moved = self._moved
        if handle in moved:
            return moved[handle][handle]
        slot = self._slots[handle & _PLACE]
        return slot[handle] if handle in slot else None

    def _handles(self) -> list[int]:
        with self._lock:
            try:
                while True:
                    self._planning = True
                    handles = list(chain.from_iterable([*self._slots, *self._held]))
                    if self._planning:
                        return handles
            finally:
                self._planning = False

    def _reset(self, now: int | None, max_pending: int | None) -> None:
        slots: list[_Slot] = [_EMPTY] * _PLACES
        moved: dict[int, _Slot] = {}
        held: deque[OrderedDict[int, _Entry]] = deque()
        while self._planning:
            self._interrupt()
        # The old containers stay in these names until the return: the wheel is empty when their items go.
        self._slots, slots = slots, self._slots
        self._moved, moved = moved, self._moved
        self._held, held = held, self._held
        self._count = self._occupied = 0
        self._first, self._first_tick = _PLACE, _NEVER
        self._max_pending = max_pending
        if now is not None:
            self._now = now

    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if anything differs. O(timers)."""
        now, count = self._now, 0
        for place, slot in enumerate(self._slots):
            if slot is _EMPTY:
                _must(not self._occupied >> place & 1, "a closed place is marked occupied")
                continue
            _must(bool(self._occupied >> place & 1), "an open place is not marked occupied")
            for handle, (deadline, _, _) in slot.items():
                tick = max(deadline, now)
                shift = ((tick ^ now).bit_length() or 1) - 1 & ~7
                _must(place == shift << 5 | tick >> shift & 255, "a timer is in the wrong place")
                _must(handle & _PLACE == place or handle in self._moved, "a moved timer is unknown")
                _must(self._moved.get(handle, slot) is slot, "a timer is not where it should have moved to")
            count += len(slot)
        for batch in self._held:
            for handle, (deadline, _, _) in batch.items():
                _must(deadline <= now, "a timer is held back that is not due")
                _must(self._moved[handle] is batch, "a held-back timer is unknown")
            _must(list(batch.values()) == _in_order(batch), "timers held back are out of order")
            count += len(batch)
        _must(not _EMPTY, "a timer is in no slot")
        _must(count == self._count, "the number of timers is wrong")
        _must(count <= self._max_pending if self._max_pending else True, "there are more timers than there may be")
        _must(all(handle in slot for handle, slot in self._moved.items()), "a timer that left is still known")
        _must((self._first, self._first_tick) == _first_place(self._occupied, now), "the first open place is wrong")
        _must(now <= self._first_tick and 0 <= now <= MAX_TICK, "an open place lies behind now")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)


def _as_list(items: list[Any]) -> list[Any]:
    return items


class TimingWheel(_Wheel, Generic[_T]):
    """A hierarchical timing wheel with one Python object for each timer.

    Time is an integer tick, 0 .. 2**63-1; the wheel has no clock of its own. A timer expires at the first `advance`
    whose tick is not before its deadline. `start` is the first `now`; at most `max_pending` timers may be live, None
    means no limit. OverflowError or ValueError if they are out of range, TypeError if they are not ints.
    """

    __slots__ = ()

    @_exclusive
    def schedule(self, deadline: SupportsIndex, item: _T = _NO_ITEM, /) -> int:
        """Schedule `item` for the absolute tick `deadline` and return the timer's handle.

        A deadline that is not after `now` is legal: it expires at the next advance. O(1). OverflowError outside
        0 .. 2**63-1, TypeError if it is not an int, WheelFull if there is no room.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        return self._add(deadline, item)

    @_exclusive
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[_T]:
        """Move to the tick `now`; return the items of the timers that expired, by deadline and then by age.

        At most `limit` come back; the rest is held back and comes first the next time. O(timers that expire or
        cascade), however many ticks pass. ValueError if `now` or `limit` is too small, OverflowError if `now` is no
        tick, TypeError if one is not an int.
        """
        return self._advance(now, limit, _as_list)

    @overload
    def get(self, handle: SupportsIndex, /) -> _T | None: ...
    @overload
    def get(self, handle: SupportsIndex, default: _D, /) -> _T | _D: ...
    @_exclusive
    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the item of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        entry = self._entry(_arguments.handle(handle))
        return default if entry is None else entry[2]


class KeyWheel(_Wheel):
    """A hierarchical timing wheel with an integer key, 0 .. 2**64-1, for each timer.

    As `TimingWheel`, and with methods that take and return arrays; these need NumPy.
    """

    __slots__ = ()

    @_exclusive
    def schedule(self, deadline: SupportsIndex, key: SupportsIndex, /) -> int:
        """Schedule `key` for the absolute tick `deadline` and return the timer's handle.

        As `TimingWheel.schedule`; OverflowError also if the key is outside 0 .. 2**64-1.
        """
        if type(deadline) is not int or not 0 <= deadline <= MAX_TICK:
            deadline = _arguments.tick(deadline, "deadline")
        if type(key) is not int or not 0 <= key <= MAX_KEY:
            key = _arguments.key(key)
        return self._add(deadline, key)

    @_exclusive
    def advance(self, now: SupportsIndex, limit: SupportsIndex | None = None, /) -> list[int]:
        """Move to the tick `now`; return the keys of the timers that expired. As `TimingWheel.advance`."""
        return self._advance(now, limit, _as_list)

    @overload
    def get(self, handle: SupportsIndex, /) -> int | None: ...
    @overload
    def get(self, handle: SupportsIndex, default: _D, /) -> int | _D: ...
    @_exclusive
    def get(self, handle: SupportsIndex, default: Any = None, /) -> Any:
        """Return the key of a live timer, else `default`. O(1). TypeError if `handle` is not an int."""
        entry = self._entry(_arguments.handle(handle))
        return default if entry is None else entry[2]

    @_exclusive
    def schedule_many(self, deadlines: ArrayLike, keys: ArrayLike) -> NDArray[np.uint64]:
        """Schedule keys for absolute ticks, pair by pair, and return the handles: all of them or none.

        TypeError unless both have an integer dtype, ValueError unless they have one dimension and one length,
        OverflowError for a number out of range, WheelFull unless there is room for all. O(n).
        """
        ticks, numbers = _arguments.deadlines(deadlines), _arguments.keys(keys)
        _arguments.same_length(ticks, numbers, "deadlines and keys")
        if self._max_pending is not None and len(ticks) > self._max_pending - self._count:
            raise WheelFull("the wheel has no room for all of them")
        handles: list[int] = []
        try:
            handles += map(self._add, ticks.tolist(), numbers.tolist())
            return cast("NDArray[np.uint64]", _arguments.numpy().array(handles, "u8"))
        except BaseException:
            for handle in handles:
                KeyWheel.cancel(self, handle)
            raise

    @_exclusive
    def reschedule_many(self, handles: ArrayLike, deadlines: ArrayLike) -> NDArray[np.bool_]:
        """Move timers to other absolute ticks, pair by pair; return for each whether it was live. O(n).

        TypeError, ValueError and OverflowError as `schedule_many`.
        """
        numbers, ticks = _arguments.handles(handles), _arguments.deadlines(deadlines)
        _arguments.same_length(numbers, ticks, "handles and deadlines")
        done = [KeyWheel.reschedule(self, *pair) for pair in zip(numbers.tolist(), ticks.tolist(), strict=True)]
        return cast("NDArray[np.bool_]", _arguments.numpy().array(done, "?"))

    @_exclusive
    def cancel_many(self, handles: ArrayLike) -> NDArray[np.bool_]:
        """Remove timers in the order of `handles`; return for each whether it was live. O(n).

        TypeError and ValueError as `schedule_many`.
        """
        numbers = _arguments.handles(handles)
        done = [KeyWheel.cancel(self, handle) for handle in numbers.tolist()]
        return cast("NDArray[np.bool_]", _arguments.numpy().array(done, "?"))

    @_exclusive
    def advance_many(self, now: SupportsIndex, limit: SupportsIndex | None = None) -> NDArray[np.uint64]:
        """Move to the tick `now`; return the keys of the timers that expired. As `advance`, and its errors."""
        numpy = _arguments.numpy()
        return self._advance(now, limit, lambda keys: cast("NDArray[np.uint64]", numpy.array(keys, "u8")))
