"""The slots of the pure-Python wheel: what it keeps, how its places open and close, where a timer is found."""

from __future__ import annotations

from ._pure_commit import Planned
from ._pure_levels import (
    DIGIT_SHIFT,
    EMPTY,
    LAST_PLACE,
    NEVER,
    PLACES,
    Entry,
    Slot,
    first_place,
    first_tick,
    place_of,
    release_in_order,
)


class Slots(Planned):
    """The timers of a wheel, in their slots."""

    __slots__ = (
        "__weakref__", "_count", "_first", "_first_tick", "_held",
        "_max_pending", "_moved", "_now", "_occupied", "_slots",
    )  # fmt: skip
    _now: int
    _count: int  # live timers
    _max_pending: int | None
    _slots: list[Slot]  # by place
    _held: dict[int, Slot]  # what a limit held back, in order, in batches, none empty, by numbers below 0
    # deadline or batch number of all timers that are not where their handle tells, and of some others
    _moved: dict[int, int]
    _occupied: int  # a bit for each place: set if it is open, that is if a slot of its own stands there
    _first: int  # the first open place ...
    _first_tick: int  # ... and the tick at which its slot begins

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
