"""Where a timer lies in the pure-Python wheel, and what an advance makes of it.

A deadline lies on the level of its highest digit (base 256) that differs from `now`, in the slot of that digit; one
that is past lies in the slot of `now`.

    level   0      1      2      ...  7            8 levels cover 63 bits
    place   0..    256..  512..       1792..       a level's slots stand in consecutive places
    slot    1      2**8   2**16       2**56 ticks

So every slot behind `now` is empty, the order of the places is the order of time, and all that is due lies in one
run of places, of which only the last may also hold timers that are not due: these cascade to lower levels.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeAlias

from ._arguments import MAX_TICK
from ._pure_commit import consume

Entry: TypeAlias = tuple[int, int, Any]  # deadline, sequence (the handle, until it is rescheduled), item
Slot: TypeAlias = dict[int, Entry]  # by handle

PLACES: Final = 8 * 256
LAST_PLACE: Final = PLACES - 1  # no deadline reaches it; as a mask, the bits of a place
NEVER: Final = MAX_TICK + 1
# A handle is made of a number, 41 bits; the last digit of the deadline, 8 bits; and the place where the timer was
# scheduled, 11 bits. So it tells where the timer is, unless it was rescheduled or comes from above level 1.
DIGIT_SHIFT: Final = 11
NUMBER_SHIFT: Final = 19

EMPTY: Final[Slot] = {}  # stands in every place that is not open; nothing is ever put into it

_deadline: Final = itemgetter(0)
_sequence: Final = itemgetter(1)


def place_of(deadline: int, now: int) -> int:
    """Return the place for a deadline."""
    tick = max(deadline, now)
    shift = ((tick ^ now).bit_length() or 1) - 1 & ~7
    return shift << 5 | tick >> shift & 255


def first_tick(place: int, now: int) -> int:
    """Return the tick at which the slot in a place begins."""
    shift = place >> 8 << 3
    return now >> shift + 8 << shift + 8 | (place & 255) << shift


def first_place(occupied: int, now: int) -> tuple[int, int]:
    """Return the first place whose bit is set, and the tick at which its slot begins."""
    if not occupied:
        return LAST_PLACE, NEVER
    place = (occupied & -occupied).bit_length() - 1
    return place, first_tick(place, now)


def window(now: int, target: int) -> tuple[int, int, int]:
    """Return the run of places that an advance from `now` to `target` looks at: a level's shift, start and stop."""
    shift = ((target ^ now).bit_length() or 1) - 1 & ~7  # of the highest level that changes its slot
    return shift, 0 if shift else now & 255, (shift << 5 | target >> shift & 255) + 1


def in_order(slot: Slot) -> list[Entry]:
    """Return the entries by deadline, then by sequence."""
    entries = list(slot.values())
    entries.sort(key=_sequence)  # nearly so already
    entries.sort(key=_deadline)
    return entries


def release_in_order(slots: list[Slot], held: dict[int, Slot]) -> None:
    """Empty containers that no wheel has any more; the item scheduled first goes first.

    Nothing is made here that the collector tracks: it would walk a million entries again and again.
    """
    entries: Slot = {}
    try:
        for slot in chain(filter(None, slots), held.values()):
            entries.update(slot)
        handles = sorted(entries)
    except MemoryError:
        return  # without order, then
    for slot in chain(filter(None, slots), held.values()):
        slot.clear()
    consume(map(entries.pop, handles))


class Plan:
    """What an advance to the tick `target` will change; making it changes nothing."""

    __slots__ = ("cascaded", "entries", "fresh", "occupied", "ripe", "window")

    def __init__(self, slots: list[Slot], occupied: int, now: int, target: int) -> None:
        shift, start, stop = window(now, target)
        old = slots[start:stop]
        self.window = slice(start, stop)  # the run of places
        self.fresh = [EMPTY] * len(old)  # what will stand there
        self.occupied = occupied >> stop << stop
        self.cascaded: dict[int, int] = {}  # the deadlines of timers that will go where their handle does not tell
        self.ripe: list[Slot] = []  # the slots, some of them new, of what is due
        self.entries: list[Entry] = []  # what is due, in order
        self._expire_near(old[: 256 - start])
        if shift:
            self._expire(old[256:-1])
            if old[-1]:
                self._cascade(old[-1], shift, target)

    def _expire_near(self, slots: list[Slot]) -> None:
        """Take slots of level 0: many and small, and together nearly in order as they stand."""
        ripe = list(filter(None, slots))
        entries = list(chain.from_iterable(map(dict.values, ripe)))
        entries.sort()  # no sequence number comes twice: items are never compared
        self.ripe += ripe
        self.entries += entries

    def _expire(self, slots: list[Slot]) -> None:
        """Take slots of a higher level: each is in disorder, and comes after the one before."""
        for slot in filter(None, slots):
            self.ripe.append(slot)
            self.entries += in_order(slot)

    def _cascade(self, slot: Slot, shift: int, target: int) -> None:
        """Distribute the slot that `target` lies in over the slots of lower levels."""
        if shift > 8:  # from level 1 to 0 a handle tells the way
            self.cascaded = dict(zip(slot, map(_deadline, slot.values()), strict=False))
        while shift and slot:
            shift -= 8
            groups: defaultdict[int, Slot] = defaultdict(dict)
            for handle, entry in zip(list(slot), list(slot.values()), strict=False):
                groups[entry[0] >> shift & 255][handle] = entry
            digit = target >> shift & 255
            slot = groups.pop(digit, EMPTY)
            due = [groups.pop(index) for index in sorted(groups) if index < digit]
            if shift:
                self._expire(due)
            else:
                self._expire_near([*due, slot])
            bits = 0
            for index, group in groups.items():
                self.fresh[shift << 5 | index] = group
                bits |= 1 << index
            self.occupied |= bits << (shift << 5)
