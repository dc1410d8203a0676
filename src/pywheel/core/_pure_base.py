"""The wheel in pure Python: what `TimingWheel` and `KeyWheel` share. `_pure_commit` says how it changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import chain, count
from threading import RLock
from types import GenericAlias
from typing import Any, ClassVar, Final, NoReturn, Self, SupportsIndex
from weakref import WeakValueDictionary

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_TICK
from ._pure_advance import Advancing
from ._pure_check import check
from ._pure_commit import exclusive
from ._pure_levels import DIGIT_SHIFT, EMPTY, LAST_PLACE, NUMBER_SHIFT, Entry, place_of

# One count for the process: the handle of another wheel is never known here.
numbers: Final = count(1 << NUMBER_SHIFT, 1 << NUMBER_SHIFT)

_wheels: Final[WeakValueDictionary[int, _Wheel]] = WeakValueDictionary()


def _after_fork() -> None:
    """Give every wheel a free lock: the thread that held it is not in this process, and its plan is void."""
    for wheel in list(_wheels.values()):
        wheel._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Wheel(Advancing):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1; what both wheels share.

    It has no clock: `advance` moves it and returns what expired. `start` is the tick it stands at first; at most
    `max_pending` timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = ()

    def __new__(cls, *_args: Any, **_keywords: Any) -> Self:
        """Return an empty wheel at tick 0: a subclass may leave out our ``__init__``."""
        self = super().__new__(cls)
        self._lock = RLock()
        _wheels[id(self)] = self
        self._planning = False
        self._now = 0
        self._slots, self._held = [], {}
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
        number = next(numbers)
        while True:
            now = self._now
            if deadline <= now | 255:  # what `place_of` says, without a call
                place = (deadline if deadline > now else now) & 255
            elif deadline <= now | 65535:
                place = 256 | deadline >> 8 & 255
            else:
                place = place_of(deadline, now)
            old_place = handle & LAST_PLACE  # what `_find` says
            old = self._slots[old_place]
            if handle in self._moved or handle not in old:
                known, found = self._entry(handle), self._find(handle)
                if known is None or found is None:
                    return False
                old_place = found
            else:
                known = old[handle]
            entry = deadline, number, known[2]
            if self._slots[place] is EMPTY:
                self._open(place, now)
            elif self._move(handle, entry, old_place, place, now):
                return True

    def _move(self, handle: int, entry: Entry, old_place: int, place: int, now: int) -> bool:
        """Put a timer in another place, or back into its own; False if one of the places is out of date."""
        if self._planning:
            self._interrupt()
            return False
        moved, held, slot = self._moved, self._held, self._slots[place]
        old = self._slots[old_place] if old_place >= 0 else held[old_place] if old_place in held else EMPTY  # noqa: SIM401
        if handle not in old or slot is EMPTY or now != self._now:
            return False
        if handle not in moved:
            moved[handle] = old[handle][0]  # true already, and from here on no memory is needed to change it
        slot[handle] = entry
        moved[handle] = entry[0]
        if old is not slot:
            del old[handle]
            if old_place < 0 and not old:
                del held[old_place]
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
            if place is None:
                return False
            while self._planning:
                self._interrupt()
            held = self._held
            slot = self._slots[place] if place >= 0 else held[place] if place in held else EMPTY  # noqa: SIM401
            if handle in slot:
                count = self._count - 1
                entry = slot[handle]
                del self._moved[handle]
                del slot[handle]
                if place < 0 and not slot:
                    del held[place]
                self._count = count
                del entry  # last, as above
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
        return self._count

    @exclusive
    def __contains__(self, handle: SupportsIndex, /) -> bool:
        return self._find(_arguments.handle(handle)) is not None

    @exclusive
    def __iter__(self) -> Iterator[int]:
        """Iterate over the handles that are live now, in no particular order."""
        return iter(self._plan(self._look, lambda: list(chain.from_iterable(self._all_slots()))))

    @exclusive
    def __sizeof__(self) -> int:
        """Return the bytes of the wheel and all its containers, without handles and items."""
        owned = [self._slots, self._held, self._moved, *(slot for slot in self._all_slots() if slot is not EMPTY)]
        return object.__sizeof__(self) + sum(map(sys.getsizeof, owned)) + self._count * sys.getsizeof((0, 0, None))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"cannot copy or pickle a {type(self).__name__}: its handles are valid for itself alone")

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        self.__reduce__()

    @exclusive
    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if something differs. O(timers)."""
        self._plan(self._look, lambda: check(self))
