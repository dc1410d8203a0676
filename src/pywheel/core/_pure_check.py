"""The invariants of the pure-Python wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arguments import MAX_TICK
from ._pure_levels import DIGIT_SHIFT, EMPTY, LAST_PLACE, first_place, place_of

if TYPE_CHECKING:
    from ._pure_base import _Wheel


def must(holds: bool, otherwise: str) -> None:
    """Raise RuntimeError unless an invariant holds."""
    if not holds:
        raise RuntimeError(otherwise)


def check(wheel: _Wheel) -> bool:
    """Recompute everything from the timers and compare; RuntimeError if something differs."""
    now, held, moved, slots = wheel._now, wheel._held, wheel._moved, wheel._slots
    places = [place for place, slot in enumerate(slots) if slot is not EMPTY]
    for place in places:
        for handle, entry in slots[place].items():
            must(place == place_of(entry[0], now), "a timer is not in its place")
            must(moved.get(handle, entry[0]) == entry[0], "a moved timer has another deadline")
            must(
                handle in moved or place in (handle & LAST_PLACE, handle >> DIGIT_SHIFT & 255),
                "a timer has moved unnoticed",
            )
    for number, batch in held.items():
        must(bool(batch), "a batch of what is held back is empty")
        must(all(moved[handle] == number for handle in batch), "a timer is held back unnoticed")
        must(all(entry[0] <= now for entry in batch.values()), "a timer is held back and not due")
    known = ((handle, wheel._find(handle)) for handle in moved)
    must(all(place is not None and handle in wheel._slot(place) for handle, place in known), "a dead timer has moved")
    must(not EMPTY, "a timer is in no slot")
    must(wheel._occupied == sum(1 << place for place in places), "other places are open than noted")
    must((wheel._first, wheel._first_tick) == first_place(wheel._occupied, now), "another place is the first one")
    must(0 <= now <= min(MAX_TICK, wheel._first_tick), "a slot lies behind now")
    must(wheel._count == sum(map(len, wheel._all_slots())), "the number of timers is another one")
    must(wheel._max_pending is None or wheel._count <= wheel._max_pending, "there are too many timers")
    return True
