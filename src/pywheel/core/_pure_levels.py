"""The hierarchical timing wheel in pure Python: where timers wait, and how time finds them. Read it before the native.

A timer waits in the slot of a tick, where time looks at it. On level l slots begin at multiples of 256**l. A timer
goes to the highest level on which its slot is sure to begin after `now`: the level of half its distance.

      level    slot, ticks    reach              level    slot, ticks    reach
        0      1              512                  4      2**32          2**41
        1      256            2**17                5      2**40          2**49
        2      65 536         2**25                6      2**48          2**57
        3      2**24          2**33                7      2**56          2**63 and more

When time has reached a slot, its timers are sifted: due ones are handed out in order, the others cascade to a slot of a
lower level. So slots need no level of their own: a dict has them by tick, and a heap gives the first one.

A slot does not hold timers but hints, which say where to find a timer and when it is due. A timer has one hint at a
time. A timer that is cancelled or moved leaves its old hint behind as a stale one. Stale hints are dropped when they
are met, and all at once when there may be more of them than timers.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from ._arguments import MAX_TICK

Hint: TypeAlias = tuple[int, int, int, int, int]
DUE, TURN, DEADLINE, NUMBER, HANDLE = range(5)  # fields of a hint; hints compare in the order in which timers expire
Timer: TypeAlias = tuple[Hint, Any]
HINT: Final = 0  # field of a timer
ITEM: Final = 1
Timers: TypeAlias = dict[int, Timer]  # by handle

NEVER: Final = MAX_TICK + 1  # later than every tick; more than there can be timers

_NONE: Final[tuple[None]] = (None,)  # stands for a missing timer, which no hint belongs to


class Levels:
    """The places of timers' hints, at the tick `now`, in the turn that began with the last collection."""

    __slots__ = ("collecting", "due", "fresh", "opened", "overdue", "slots", "stale", "starts")

    def __init__(self, timers: Timers, now: int, turn: int) -> None:
        self.slots: dict[int, list[Hint]] = {}  # by tick
        self.starts = [NEVER]  # a heap of the ticks of slots, except `fresh` ones, and one that is never reached
        self.fresh: dict[int, None] = {}  # ticks of slots that are not in `starts` yet
        self.overdue: list[Hint] = []  # hints that were due when they were placed: for the next collection
        self.opened: list[Hint] = []  # hints that this collection must sift before it opens the next slot
        self.due: list[Hint] = []  # a heap of the hints that the collections have found
        self.collecting = False  # whether the last collection may still find a hint that comes earlier
        self.stale = 0  # number of stale hints, at most
        for hint, _ in list(timers.values()):
            if hint[DUE] <= now and hint[TURN] < turn:
                self.due.append(hint)
            else:
                self.place(hint, now)
        self.due.sort()

    def place(self, hint: Hint, now: int) -> None:
        """Put a hint into the slot where time will find it."""
        tick = slot_of(hint[DUE], now)
        if hint[DUE] <= now:
            self.overdue.append(hint)
        elif tick in self.slots:
            self.slots[tick].append(hint)
        else:
            self.fresh[tick] = None
            self.slots[tick] = [hint]

    def start(self) -> int:
        """Return the tick of the first slot, or NEVER."""
        while self.fresh:
            heappush(self.starts, self.fresh.popitem()[0])
        return self.starts[0]

    def first(self, timers: Timers, now: int) -> int:
        """Return a tick not later than the first due time: the first slot's, or `now`. NEVER if no timer is left."""
        if self.due or self.overdue or self.collecting:
            return now
        while (tick := self.start()) < NEVER:
            slot = self.slots.get(tick, [])
            while slot and not live(slot[-1:], timers):
                slot.pop()
            if slot:
                break
            self.slots.pop(heappop(self.starts), None)
        return tick

    def begin(self) -> None:
        """Begin a collection of the hints due by now; go on with the last one if it is not over."""
        self.opened += self.overdue
        self.overdue = []
        self.collecting = True

    def sift(self, timers: Timers, now: int, most: int, add: Callable[[Hint], Any]) -> int:
        """Sift up to `most` hints; return how many were sifted. Gives the hints due by `now` to `add`."""
        left = most
        while left and (self.opened or self.start() <= now):
            if not self.opened:
                self.opened = self.slots.pop(heappop(self.starts), [])
            hints = sorted(self.opened[-left:])  # slot by slot, so that little is left to sort
            del self.opened[-left:]
            left -= len(hints)
            for hint in hints:
                if hint[DUE] <= now:
                    add(hint)
                elif timers.get(hint[HANDLE], _NONE)[HINT] is hint:
                    self.place(hint, now)
        self.collecting = bool(self.opened) or self.start() <= now
        return most - left

    def pop(self, most: int) -> list[Hint]:
        """Return up to `most` of the due hints, the first ones, in order."""
        if most < len(self.due):
            return [heappop(self.due) for _ in range(most)]
        hints, self.due = self.due, []
        return sorted(hints)

    def drop_stale(self, timers: Timers) -> None:
        """Drop stale hints in every place that may have many."""
        self.overdue, self.due = live(self.overdue, timers), sorted(live(self.due, timers))
        for tick, slot in self.slots.items():
            self.slots[tick] = live(slot, timers)
        self.stale = 0

    def check(self, timers: Timers, now: int) -> None:
        """Compare with the timers; RuntimeError if something differs."""
        near = {*self.overdue, *self.due}
        found = {*near, *self.opened}
        must(all(hint[DUE] <= now for hint in near), "a timer is early")
        for tick, slot in self.slots.items():
            must(tick > now or self.collecting, "time has passed a slot")
            found.update(hint for hint in slot if tick <= hint[DUE])
        for handle, (hint, _) in timers.items():
            must(hint[HANDLE] == handle and hint[DUE] >= hint[DEADLINE], "a timer has another one's hint")
            must(hint in found, "a timer is not where time finds it before it is due")
        must({*self.starts, *self.fresh} >= {NEVER, *self.slots}, "the heap lacks a slot")
        must(min(self.starts) == self.starts[0], "the heap does not say which slot is the first")
        must(min(self.due, default=None) == (self.due[0] if self.due else None), "nor what is due first")


def live(hints: list[Hint], timers: Timers) -> list[Hint]:
    """Return the hints that are not stale."""
    return [hint for hint in hints if timers.get(hint[HANDLE], _NONE)[HINT] is hint]


def slot_of(due: int, now: int) -> int:
    """Return the tick of the slot for a due time after `now`."""
    distance = due - now
    shift = distance.bit_length() - 2 & ~7 if distance >= 512 else 0
    return due >> shift << shift


def must(holds: bool, otherwise: str) -> None:
    """Raise RuntimeError unless an invariant holds."""
    if not holds:
        raise RuntimeError(otherwise)
