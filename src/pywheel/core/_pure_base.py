"""The wheel itself in pure Python: what `TimingWheel` and `KeyWheel` share.

Nobody sees half a change. A finaliser, a signal handler or another thread can run wherever CPython may switch: at
calls, at backward jumps and (3.11) where an object that the collector tracks is made. So a change is prepared first
and then committed by statements with none of these, the last of which may be one call of C code. In these what can
raise MemoryError comes first, or leaves a state that is just as good. A longer change is prepared by `_plan`: whoever
changes the wheel meanwhile clears `_planning`, and the plan is made anew; other threads wait until it is carried out.
Without a GIL, or on another interpreter, every public method holds the lock from start to end.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from itertools import chain, count, islice, repeat
from operator import itemgetter, setitem
from threading import RLock
from types import GenericAlias
from typing import Any, ClassVar, Final, NoReturn, Self, SupportsIndex, TypeVar, cast

from . import _arguments
from ._arguments import MAX_TICK
from ._pure_check import check
from ._pure_levels import (
    DIGIT_SHIFT,
    EMPTY,
    HELD,
    HELD_BACK,
    LAST_PLACE,
    NEVER,
    NUMBER_SHIFT,
    PLACES,
    Entry,
    Plan,
    Slot,
    first_place,
    first_tick,
    place_of,
)

_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])

# One count for the process: the handle of another wheel is never known here.
numbers: Final = count(1 << NUMBER_SHIFT, 1 << NUMBER_SHIFT)
consume: Final = deque[Any](maxlen=0).extend  # runs an iterator to its end, in C
_HAS_GIL: Final = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


def exclusive(method: _F) -> _F:
    """Hold the wheel's lock during `method`, unless the GIL makes a commit indivisible."""
    if _HAS_GIL:
        return method

    @wraps(method)
    def locked(self: _Wheel, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_F", locked)


def release_in_order(slots: list[Slot]) -> None:
    """Empty slots that no wheel has any more; the item scheduled first goes first."""
    try:
        timers = sorted(chain.from_iterable(map(dict.items, slots)), reverse=True)
    except MemoryError:
        return  # without order, then
    for slot in slots:
        slot.clear()
    timers.clear()  # from the last element to the first


class _Wheel:
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1; what both wheels share.

    It has no clock: `advance` moves it and returns what expired. `start` is the tick it stands at first; at most
    `max_pending` timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = (
        "__weakref__", "_count", "_first", "_first_tick", "_held", "_lock",
        "_max_pending", "_moved", "_now", "_occupied", "_planning", "_slots",
    )  # fmt: skip
    _now: int
    _count: int  # live timers
    _max_pending: int | None
    _slots: list[Slot]  # by place
    _held: OrderedDict[int, Entry]  # the slot in place HELD
    _moved: dict[
        int, int
    ]  # deadline or HELD_BACK of all timers that are not where their handle tells, and of some others
    _occupied: int  # a bit for each place: set if it is open, that is if a slot of its own stands there
    _first: int  # the first open place ...
    _first_tick: int  # ... and the tick at which its slot begins
    _planning: bool
    _lock: AbstractContextManager[Any]

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """Return an empty wheel at tick 0: a subclass may leave out our ``__init__``."""
        self = super().__new__(cls)
        self._lock = RLock()
        self._planning = False
        self._now = 0
        self._slots = []
        self._reset(0, None)
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
        known = self._entry(handle)
        if known is None:
            return False
        entry = deadline, next(numbers), known[2]
        while True:
            now = self._now
            place = place_of(deadline, now)
            old_place = self._find(handle)
            if old_place < 0:
                return False
            if self._slots[place] is EMPTY:
                self._open(place, now)
            elif self._move(handle, entry, old_place, place, now):
                return True

    def _move(self, handle: int, entry: Entry, old_place: int, place: int, now: int) -> bool:
        """Put a timer in another place, or back into its own; False if one of the places is out of date."""
        if self._planning:
            self._interrupt()
            return False
        moved, slots = self._moved, self._slots
        old, slot = slots[old_place], slots[place]
        if handle not in old or slot is EMPTY or now != self._now:
            return False
        if handle not in moved:
            moved[handle] = old[handle][0]  # true already, and from here on no memory is needed to change it
        slot[handle] = entry
        moved[handle] = entry[0]
        if old is not slot:
            del old[handle]
        return True

    @exclusive
    def cancel(self, handle: SupportsIndex, /) -> bool:
        """Remove a live timer; its item is released before this returns.

        False, and nothing changes, if the handle is unknown or stale. O(1). TypeError if it is not an int.
        """
        if type(handle) is not int:
            handle = _arguments.handle(handle)
        while self._planning:
            self._interrupt()
        slot = self._slots[handle & LAST_PLACE]
        moved = self._moved
        if handle not in slot:
            slot = self._slots[handle >> DIGIT_SHIFT & 255]
            if handle not in slot:
                return handle in moved and self._cancel_moved(handle)
        count = self._count - 1
        if handle in moved:
            del moved[handle]
        self._count = count
        del slot[handle]  # last: the finaliser of the item may call back
        return True

    def _cancel_moved(self, handle: int) -> bool:
        while True:
            place = self._find(handle)
            if place < 0:
                return False
            while self._planning:
                self._interrupt()
            slot = self._slots[place]
            if handle in slot:
                count = self._count - 1
                del self._moved[handle]
                self._count = count
                del slot[handle]
                return True

    @exclusive
    def next_deadline(self) -> int | None:
        """Return a tick from `now` to the earliest deadline, `now` if one is due already; None if the wheel is empty.

        It is the deadline itself if that is less than 256 ticks away, at times more. Otherwise the timer cascades
        there, and a loop of ``advance(next_deadline())`` wakes up at most seven times for nothing. O(levels).
        """
        while self._count:
            if self._held:
                return self._now
            if self._slots[self._first]:
                return self._first_tick
            self._close()
        return None

    @exclusive
    def deadline(self, handle: SupportsIndex, /) -> int | None:
        """Return the deadline of a live timer as it was given, else None. O(1). TypeError if `handle` is not an int."""
        entry = self._entry(_arguments.handle(handle))
        return None if entry is None else entry[0]

    @exclusive
    def clear(self) -> None:
        """Remove every timer; `now` stays. The items are released when the wheel is already empty. O(timers)."""
        self._reset(None, self._max_pending)

    @exclusive
    def __len__(self) -> int:
        return self._count

    @exclusive
    def __contains__(self, handle: SupportsIndex, /) -> bool:
        return self._find(_arguments.handle(handle)) >= 0

    @exclusive
    def __iter__(self) -> Iterator[int]:
        """Iterate over the handles that are live now, in no particular order."""
        return iter(self._plan(self._look, lambda: list(chain.from_iterable(self._slots))))

    @exclusive
    def __sizeof__(self) -> int:
        """Return the bytes of the wheel and all its containers, without handles and items."""
        owned = [self._slots, self._moved, *(slot for slot in self._slots if slot is not EMPTY)]
        return object.__sizeof__(self) + sum(map(sys.getsizeof, owned)) + self._count * sys.getsizeof((0, 0, None))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: its handles are valid for itself alone")

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        self.__reduce__()

    def _advance(self, now: SupportsIndex, limit: SupportsIndex | None, pack: Callable[[list[Any]], _R]) -> _R:
        """Move to the tick `now` and return at most `limit` of the items that are due, packed."""
        if type(now) is not int or not 0 <= now <= MAX_TICK:
            now = _arguments.tick(now, "now")
        most = MAX_TICK if limit is None else _arguments.limit(limit)
        if now < self._now:
            raise _arguments.backwards()
        result: _R = self._plan(self._expire, now, most, pack)
        return result

    def _plan(self, attempt: Callable[..., _R | None], *arguments: Any) -> _R:
        """Repeat an attempt until nothing changes the wheel between its plan and its commit: until it is not None."""
        with self._lock:
            try:
                while True:
                    self._planning = True
                    result: _R | None = attempt(*arguments)
                    if result is not None:
                        return result
            finally:
                self._planning = False

    def _interrupt(self) -> None:
        """Wait for the plan of another thread; let this thread make its own anew."""
        with self._lock:
            self._planning = False

    def _look(self, look: Callable[[], _R]) -> _R | None:
        """Attempt to look at all the timers."""
        try:
            seen = look()
        except (KeyError, RuntimeError):
            if self._planning:
                raise
            return None
        return seen if self._planning else None

    def _expire(self, now: int, most: int, pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to move to the tick `now` and return what is due, packed."""
        now = max(now, self._now)
        plan = Plan(self._slots, self._occupied, self._now, now)
        first, tick = first_place(plan.occupied, now)
        if self._held or len(plan.entries) > most:
            return self._plan(self._release, most, pack) if self._hold(plan, now, first, tick) else None
        moved = self._moved
        if plan.cascaded and self._planning:
            moved.update(plan.cascaded)  # true already
        items = pack([entry[2] for entry in plan.entries])
        dropping = map(moved.pop, chain.from_iterable(plan.ripe) if moved else (), repeat(None))
        count = self._count - len(plan.entries)
        if not self._planning:
            return None
        self._slots[plan.window] = plan.fresh
        self._occupied = plan.occupied
        self._first = first
        self._first_tick = tick
        self._count = count
        self._now = now
        consume(dropping)
        return items

    def _hold(self, plan: Plan, now: int, first: int, tick: int) -> bool:
        """Move to the tick `now` and hold back what is due; False if the plan is out of date."""
        entries = list(chain.from_iterable(map(dict.values, plan.ripe)))
        timers = dict(sorted(zip(chain.from_iterable(plan.ripe), entries, strict=False), key=itemgetter(1)))
        moved, held = self._moved, self._held
        deadlines = plan.cascaded | {handle: entry[0] for handle, entry in timers.items()}
        if self._planning:
            moved.update(deadlines)
        values = {"_occupied": plan.occupied, "_first": first, "_first_tick": tick, "_now": now}
        changes = chain(
            map(setitem, repeat(held), timers, timers.values()),
            map(setitem, (self._slots,), (plan.window,), (plan.fresh,)),
            map(setattr, repeat(self), values, values.values()),  # from here on no memory is needed
            map(setitem, repeat(moved), timers, repeat(HELD_BACK)),
        )
        undoing = map(held.pop, timers, repeat(None))
        return self._commit(changes, undoing)

    def _release(self, most: int, pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to return the first of what is held back, packed."""
        moved, held = self._moved, self._held
        handles = list(islice(held, most))
        items = pack([entry[2] for entry in map(held.get, handles) if entry])
        dropping = chain(map(held.pop, handles), map(moved.pop, handles))
        count = self._count - len(handles)
        if not self._planning:
            return None
        self._count = count
        consume(dropping)
        return items

    def _commit(self, changes: Iterator[Any], undoing: Iterator[Any]) -> bool:
        """Make all changes of a plan; if one of the first, which `undoing` takes back, cannot be made: none."""
        if not self._planning:
            return False
        try:
            consume(changes)
        except BaseException:
            consume(undoing)
            raise
        return True

    def _open(self, place: int, now: int) -> None:
        """Give a closed place a slot of its own."""
        tick = first_tick(place, now)
        slot: Slot = {}
        if self._planning:
            self._interrupt()
        elif self._slots[place] is EMPTY and self._now == now:
            self._occupied |= 1 << place
            self._slots[place] = slot
            if place < self._first:
                self._first = place
                self._first_tick = tick

    def _close(self) -> None:
        """Close the first open place if nothing is left in it."""
        place, occupied = self._first, self._occupied
        rest = occupied & ~(1 << place)
        first, tick = first_place(rest, self._now)
        if self._planning:
            self._interrupt()
        elif self._occupied is occupied and not self._slots[place]:
            self._slots[place] = EMPTY
            self._occupied = rest
            self._first = first
            self._first_tick = tick

    def _find(self, handle: int) -> int:
        """Return the place of a live timer, or -1. Whoever goes there may find that it has gone on, and asks again."""
        if handle in self._moved:
            deadline = self._moved[handle]
            return HELD if deadline == HELD_BACK else place_of(deadline, self._now)
        place = handle & LAST_PLACE
        if handle in self._slots[place]:
            return place
        place = handle >> DIGIT_SHIFT & 255
        return place if handle in self._slots[place] else -1

    def _entry(self, handle: int) -> Entry | None:
        while True:
            place = self._find(handle)
            if place < 0:
                return None
            slot = self._slots[place]
            if handle in slot:
                return slot[handle]

    def _reset(self, now: int | None, max_pending: int | None) -> None:
        """Remove every timer; stay at the same tick if `now` is None."""
        moved: dict[int, int] = {}
        held: OrderedDict[int, Entry] = OrderedDict()
        slots: list[Slot] = [EMPTY] * PLACES
        slots.append(held)
        while self._planning:
            self._interrupt()
        self._moved = moved
        self._held = held
        self._slots, slots = slots, self._slots  # the items stay until the wheel is empty
        self._count = self._occupied = 0
        self._first = LAST_PLACE
        self._first_tick = NEVER
        self._max_pending = max_pending
        if now is not None:
            self._now = now
        release_in_order(slots)

    @exclusive
    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if something differs. O(timers)."""
        self._plan(self._look, lambda: check(self))
