"""The wheel in pure Python: what `TimingWheel` and `KeyWheel` share. `_pure_commit` says how it changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import chain, count, islice, repeat
from operator import itemgetter, setitem
from threading import RLock
from types import GenericAlias
from typing import Any, ClassVar, Final, NoReturn, Self, SupportsIndex, TypeVar
from weakref import WeakValueDictionary

from .._errors import WheelFull
from . import _arguments
from ._arguments import MAX_TICK
from ._pure_check import check
from ._pure_commit import Planned, consume, exclusive
from ._pure_levels import (
    DIGIT_SHIFT,
    EMPTY,
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
    release_in_order,
)

_R = TypeVar("_R")

# One count for the process: the handle of another wheel is never known here.
numbers: Final = count(1 << NUMBER_SHIFT, 1 << NUMBER_SHIFT)
batches: Final = count(-1, -1)
BATCH: Final = 256


_wheels: Final[WeakValueDictionary[int, _Wheel]] = WeakValueDictionary()


def _after_fork() -> None:
    """Give every wheel a free lock: the thread that held it is not in this process, and its plan is void."""
    for wheel in list(_wheels.values()):
        wheel._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Wheel(Planned):
    """A hierarchical timing wheel over integer ticks, 0 .. 2**63-1; what both wheels share.

    It has no clock: `advance` moves it and returns what expired. `start` is the tick it stands at first; at most
    `max_pending` timers may be live, None for no limit. TypeError, OverflowError or ValueError for another argument.
    """

    __slots__ = (
        "__weakref__", "_count", "_first", "_first_tick", "_held",
        "_max_pending", "_moved", "_now", "_occupied", "_slots",
    )  # fmt: skip
    _now: int
    _count: int  # live timers
    _max_pending: int | None
    _slots: list[Slot]  # by place
    _held: dict[int, Slot]  # what a limit held back, in order, in batches, none empty, by numbers below 0
    _moved: dict[
        int, int
    ]  # deadline or HELD_BACK of all timers that are not where their handle tells, and of some others
    _occupied: int  # a bit for each place: set if it is open, that is if a slot of its own stands there
    _first: int  # the first open place ...
    _first_tick: int  # ... and the tick at which its slot begins

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

    def _advance(self, now: SupportsIndex, limit: SupportsIndex | None, pack: Callable[[list[Any]], _R]) -> _R:
        """Move to the tick `now` and return at most `limit` of the items that are due, packed."""
        if type(now) is not int or not 0 <= now <= MAX_TICK:
            now = _arguments.tick(now, "now")
        most = MAX_TICK if limit is None else _arguments.limit(limit)
        if now < self._now:
            raise _arguments.backwards()
        result: _R = self._plan(self._expire, now, most, pack)
        return result

    def _expire(self, now: int, most: int, pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to move to the tick `now` and return what is due, packed."""
        now = max(now, self._now)
        plan = Plan(self._slots, self._occupied, self._now, now)
        if self._held or len(plan.entries) > most:
            return self._expire_some(plan, now, most, pack)
        moved = self._moved
        if plan.cascaded and self._planning:
            moved.update(plan.cascaded)  # true already
        items = pack([entry[2] for entry in plan.entries])
        gone = list(chain.from_iterable(plan.ripe)) if moved else []
        dropping = map(moved.pop, gone, repeat(None))
        first, tick = first_place(plan.occupied, now)
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

    def _expire_some(self, plan: Plan, now: int, most: int, pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt the same where a limit holds timers back, or has done so."""
        moved, held = self._moved, self._held
        taken, dropping = self._first_held(most)
        entries = list(chain.from_iterable(map(dict.values, plan.ripe)))
        ripe = sorted(zip(chain.from_iterable(plan.ripe), entries, strict=False), key=itemgetter(1))
        rest = ripe[most - len(taken) :]
        taken += ripe[: most - len(taken)]
        items = pack([entry[2] for _, entry in taken])
        new = {next(batches): dict(rest[start : start + BATCH]) for start in range(0, len(rest), BATCH)}
        numbers_of = [number for number, batch in new.items() for _ in batch]
        first, tick = first_place(plan.occupied, now)
        values = {
            "_occupied": plan.occupied,
            "_first": first,
            "_first_tick": tick,
            "_now": now,
            "_count": self._count - len(taken),
        }
        changes = chain(
            map(setitem, repeat(held), new, new.values()),
            map(setitem, (self._slots,), (plan.window,), (plan.fresh,)),
            map(setattr, repeat(self), values, values.values()),  # from here on no memory is needed
            chain.from_iterable(dropping),
            map(moved.pop, [handle for handle, _ in taken], repeat(None)),
            map(setitem, repeat(moved), [handle for handle, _ in rest], numbers_of),
        )
        known = plan.cascaded | {handle: entry[0] for handle, entry in rest}
        if self._planning:
            moved.update(known)  # true already
        return items if self._commit(changes, map(held.pop, new, repeat(None))) else None

    def _first_held(self, most: int) -> tuple[list[tuple[int, Entry]], list[Iterator[Any]]]:
        """Return the first timers that are held back, and what removes them."""
        timers: list[tuple[int, Entry]] = []
        removing: list[Iterator[Any]] = []
        for number, batch in self._held.items():
            if len(timers) == most:
                break
            first = list(islice(batch.items(), most - len(timers)))
            timers += first
            whole = len(first) == len(batch)
            removing.append(map(self._held.pop, [number]) if whole else map(batch.pop, [handle for handle, _ in first]))
        return timers, removing

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

    def _find(self, handle: int) -> int | None:
        """Return the place, or the batch number, of a live timer: who goes there may find that it has gone on."""
        if handle in self._moved:
            deadline = self._moved[handle]
            return deadline if deadline < 0 else place_of(deadline, self._now)
        place = handle & LAST_PLACE
        if handle in self._slots[place]:
            return place
        place = handle >> DIGIT_SHIFT & 255
        return place if handle in self._slots[place] else None

    def _slot(self, place: int) -> Slot:
        return self._slots[place] if place >= 0 else self._held.get(place, EMPTY)

    def _all_slots(self) -> list[Slot]:
        return [*self._slots, *self._held.values()]

    def _entry(self, handle: int) -> Entry | None:
        while (place := self._find(handle)) is not None:
            entry = self._slot(place).get(handle)
            if entry is not None:
                return entry
        return None

    def _reset(self, now: int | None, max_pending: int | None) -> None:
        """Remove every timer; stay at the same tick if `now` is None."""
        slots: list[Slot] = [EMPTY] * PLACES
        held: dict[int, Slot] = {}
        moved: dict[int, int] = {}
        while self._planning:
            self._interrupt()
        # The items stay in the old containers until the wheel is empty.
        self._slots, slots = slots, self._slots
        self._held, held = held, self._held
        self._moved = moved
        self._count = self._occupied = 0
        self._first = LAST_PLACE
        self._first_tick = NEVER
        self._max_pending = max_pending
        if now is not None:
            self._now = now
        release_in_order(slots, held)

    @exclusive
    def _check(self) -> None:
        """Recompute everything from the timers and compare. RuntimeError if something differs. O(timers)."""
        self._plan(self._look, lambda: check(self))
