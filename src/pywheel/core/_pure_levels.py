"""The hierarchical timing wheel in pure Python: its levels, and how time passes over them. A key to the native one.

Levels. Level l has slots of 256**l ticks; tick t lies in slot t >> 8l. A timer goes to the highest level on which its
slot is sure to begin after `now`: that of half its distance.

      level    slot, ticks    reach              level    slot, ticks    reach
        0      1              512                  4      2**32          2**41
        1      256            2**17                5      2**40          2**49
        2      65 536         2**25                6      2**48          2**57
        3      2**24          2**33                7      2**56          2**63 and more

An advance takes every slot that has begun: timers that are due are staged, the others cascade to a lower level. So a
timer may as well stand in an earlier slot than that of its deadline, and one that is put off only gets another
deadline. A timer whose deadline is not after `now` stands in the overdue slot, which the next advance takes first. All
that is staged is sorted before any of it is handed out, and goes behind what a limit held back before.

Truth. `_timers` alone says which timers there are. Slots, `_staged` and `_ready` have hints, where to look for one. A
hint too many is passed over; a timer without one would be lost. So a hint comes before its timer and goes after it.

Commits. Finalisers, signal handlers, which may raise, and other threads can run wherever CPython looks up: at calls, at
backward jumps and (3.11) where an object is made that the collector tracks. So a change is prepared, and committed by
statements with none of these, the last of which may be one call of C code, if `_mark` is what it was when preparing
began; each commit leaves another mark. What takes longer sets the mark to 0 and holds the lock: other threads wait
until it is over, and when somebody has come between nevertheless, it begins anew. Without a GIL, or on another
interpreter, every public method holds the lock.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from functools import wraps
from heapq import heappop, heappush, merge
from itertools import chain, count, islice, repeat
from operator import itemgetter
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from ._arguments import MAX_TICK

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")

Timer: TypeAlias = tuple[int, int, Any, int]
DEADLINE, NUMBER, ITEM, KEY = range(4)  # of a timer: NUMBER orders those of one tick, KEY is that of its slot
Slot: TypeAlias = dict[int, None]  # hints: handles
Hint: TypeAlias = tuple[int, int, int]  # deadline, number, handle

START: Final = 6  # a slot's key is its first tick, followed by so many bits with 56 - 8l; an overdue one's is below 0
NEVER: Final = MAX_TICK + 1  # later than every tick; more than there can be timers
PIECE: Final = 512  # timers that a step moves
QUOTA: Final = 2048  # timers that `_advance_some` moves

numbers: Final = count(2**40)  # one count for the process: no wheel knows a handle of another one
consume: Final = deque[Any](maxlen=0).extend  # runs an iterator to its end, in C

_wheels: Final[WeakValueDictionary[int, Levels]] = WeakValueDictionary()


def _after_fork() -> None:
    """Give every wheel a free lock: the thread that held it is not in this process."""
    for wheel in list(_wheels.values()):
        wheel._lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def exclusive(method: _F) -> _F:
    """Hold the wheel's lock during `method`, unless a GIL makes a commit indivisible."""
    if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return method

    @wraps(method)
    def locked(self: Levels, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_F", locked)


class Levels:
    """The timers of a wheel, and how time passes over them."""

    __slots__ = (
        "__weakref__", "_at", "_lock", "_mark", "_max_pending", "_merged", "_now", "_overdue", "_ready", "_slots",
        "_staged", "_starts", "_taken", "_timers", "_touched",
    )  # fmt: skip
    _mark: int  # the number or, below 0, the handle that the last commit was about; 0: see above
    _now: int
    _max_pending: int | None
    _timers: dict[int, Timer]  # by handle, in the order in which they were scheduled
    _slots: dict[int, Slot]  # by key: the overdue one, and all that may hold timers
    _starts: list[int]  # a heap: these keys but the overdue one's, one that is never reached, some that have no slot
    _overdue: int  # the key of the overdue slot
    _taken: dict[int, Slot]  # slots that were taken, whose timers are still to be looked at
    _staged: list[list[Hint]]  # what was found due since the last time that `_ready` got something, each list in order,
    _merged: Iterator[Hint] | None  # and all of them in order
    _ready: list[Hint]  # what is to be handed out, in order,
    _at: int  # from here on
    _touched: int  # timers that were taken out of slots so far; for tests

    def __init__(self) -> None:
        self._lock = RLock()
        _wheels[id(self)] = self
        self._mark = next(numbers)
        self._timers = {}
        self._touched = 0
        self._reset(0, None)

    def _reset(self, now: int | None, max_pending: int | None) -> None:
        """Begin with no timers, at the tick `now`, or the present one."""
        timers: dict[int, Timer] = {}
        slots: dict[int, Slot] = {-1: {}}
        taken: dict[int, Slot] = {}
        staged: list[list[Hint]] = []
        ready: list[Hint] = []
        starts, number = [NEVER << START], next(numbers)
        while not self._mark:
            self._interrupt()
        timers, self._timers = self._timers, timers  # the items are released, in order, when it returns
        self._slots, self._starts, self._overdue = slots, starts, -1
        self._taken, self._staged = taken, staged  # of more than three a tuple would be made: see above
        self._merged, self._ready, self._at = None, ready, 0
        self._max_pending = max_pending
        self._mark = number
        if now is not None:
            self._now = now

    def _interrupt(self) -> int:
        """Wait for another thread that takes longer; have this one begin anew, if it is in the middle; mark that."""
        with self._lock:
            self._mark = mark = next(numbers)
        return mark

    def _planned(self, attempt: Callable[..., _R | None], *arguments: Any) -> _R:
        """Repeat an attempt until nobody comes between its preparation and its commit: until it is not None."""
        with self._lock:
            mark = next(numbers)  # now: without memory, what was attempted with success would be lost
            try:
                while True:
                    self._mark, result = 0, None
                    try:
                        result = attempt(*arguments)
                    except (LookupError, RuntimeError):  # it saw a change in its midst
                        if not self._mark:
                            raise
                    if result is not None:
                        return result
            finally:
                self._mark = mark

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _key(self, deadline: int) -> int:
        """Return the key of the slot where a deadline belongs."""
        distance = deadline - self._now
        if distance <= 0:
            return self._overdue
        shift = (distance | 2).bit_length() - 2 & ~7
        return deadline >> shift << shift + START | 56 - shift

    def _open(self, key: int) -> None:
        """Have a slot under a key; close the empty ones before all others."""
        self._first()
        slot: Slot = {}
        if key not in self._slots:
            self._slots[key] = slot
            try:
                heappush(self._starts, key)
            except MemoryError:
                del self._slots[key]
                raise

    def _place(self, handle: int, deadline: int) -> int:
        """Put a hint where the deadline belongs, and return the key of that slot."""
        while True:
            key, slots = self._key(deadline), self._slots
            if key in slots:
                slots[key][handle] = None
                return key
            if key >= 0:
                self._open(key)

    def _first(self) -> int:
        """Return the tick at which the first slot begins that has hints, or NEVER; close the empty ones before it."""
        while True:
            starts, slots = self._starts, self._slots
            key = starts[0]
            if key >> START == NEVER:
                return NEVER
            if key in slots:
                if slots[key]:
                    return key >> START
                del slots[key]
            heappop(starts)

    def _in_order(self) -> list[Any]:
        """Return the items of all timers, by deadline. O(n log n)."""
        return [timer[ITEM] for timer in sorted(self._timers.values(), key=itemgetter(DEADLINE, NUMBER))]

    # ---- time -------------------------------------------------------------------------------------------------------

    def _advance_some(self, now: int, most: int, limit: int, pack: Callable[[list[Any]], Any] = list) -> Any:
        """Go to the tick `now`, and return the items of the first `limit` timers that are due, as `advance` does.

        But until `most` are ready, only about QUOTA are moved: for drivers that must not pause. If more are due,
        `_is_behind` is true; maybe none comes back, and the wheel stays at an earlier tick. Then the next call goes on.
        """
        return self._planned(self._expire, now, most, QUOTA, limit, pack)

    def _is_behind(self) -> bool:
        """Whether something that was due by `now` is still to be handed out, or to be found."""
        return bool(self._ready) or self._is_collecting()

    def _is_collecting(self) -> bool:
        return bool(self._staged or self._taken or self._starts[0] >> START <= self._now)

    def _expire(self, now: int, most: int, quota: int, limit: int, pack: Callable[[list[Any]], _R]) -> _R | None:
        """Attempt to collect as below, and to remove the first `limit` timers; return their items, packed."""
        self._collect(now, most, quota)
        timers, ready, at = self._timers, self._ready, self._at
        due: dict[int, Timer] = {}
        while len(due) < limit and at < len(ready):
            hints = ready[at : at + limit - len(due)]
            at += len(hints)
            for _, number, handle in hints:
                timer = timers.get(handle)
                if timer is not None and timer[NUMBER] == number:
                    due[handle] = timer
        items = pack([timer[ITEM] for timer in due.values()])
        if at > len(ready) // 2:
            ready, at = ready[at:], 0
        leaving = map(timers.pop, due)
        if self._mark:
            return None
        self._ready, self._at = ready, at
        consume(leaving)
        return items

    def _collect(self, now: int, most: int, quota: int) -> None:
        """Go to the tick `now` and have ready what is due, until these are `most`, or about `quota` were moved.

        What was due before comes first. If there is a quota, and some of that is not ready yet, nothing else comes.
        """
        begun = quota < NEVER and self._is_collecting()
        while not self._mark and quota > 0 and len(self._ready) - self._at < most:
            if self._taken or self._starts[0] >> START <= self._now:
                quota -= self._take()
            elif self._staged:
                quota -= self._merge(max(quota, QUOTA))
            elif begun:
                break
            else:
                begun = True
                self._begin(now)

    def _begin(self, now: int) -> None:
        """Go to the tick `now`; the overdue slot is the first that is taken."""
        key = self._overdue
        slot: Slot = {}
        if not self._mark:
            if self._slots[key]:
                self._slots[key - 1] = slot
                self._taken[key] = self._slots[key]
                self._overdue = key - 1
                del self._slots[key]
            if self._now < now:
                self._now = now

    def _take(self) -> int:
        """Take some slots that have begun, and out of these a piece: stage what is due; return how many that were."""
        slots, starts, taken = self._slots, self._starts, self._taken
        weight = sum(map(len, taken.values()))
        while weight < PIECE:
            key = starts[0]
            if key >> START > self._now or key in taken or self._mark:
                break
            if key in slots:
                taken[key] = slots[key]
                del slots[key]
            heappop(starts)
            weight += len(taken.get(key, ()))
        count = 0
        due: list[Hint] = []
        rest: dict[int, Slot] = {}
        leaving: Iterator[Any] = iter(())
        for key, slot in list(taken.items()):
            handles = list(islice(reversed(slot), PIECE))
            if not self._sift(key, handles, due):
                return 0
            count += len(handles)
            if len(slot) > PIECE:
                rest[key] = slot
                leaving = map(dict.popitem, repeat(slot, PIECE))
        due.sort()
        run = [due]
        if not self._mark:
            self._staged += run
            self._touched += count
            self._taken = rest
            consume(leaving)
        return count

    def _sift(self, key: int, handles: list[int], due: list[Hint]) -> bool:
        """Add what is due of a slot to a list, and have the others cascade; False if somebody comes between."""
        now, timers = self._now, self._timers
        for handle in handles:
            timer = timers.get(handle)
            if timer is None or timer[KEY] != key:
                continue
            deadline, number, item, _ = timer
            if deadline <= now:
                due.append((deadline, number, handle))
                continue
            moved = deadline, number, item, self._place(handle, deadline)
            if self._mark:
                return False
            timers[handle] = moved
        return True

    def _merge(self, few: int) -> int:
        """Have ready all that is staged, if these are few, or else a piece of it, in order; return how many."""
        rest: list[list[Hint]] = []
        merged, self._merged = self._merged, None  # if this is interrupted, what it has taken is there once more
        if merged is None and sum(map(len, self._staged)) > few:
            merged = merge(*self._staged)
        hints = sorted(chain.from_iterable(self._staged)) if merged is None else list(islice(merged, PIECE))
        if not self._mark:
            self._ready += hints
            if merged is None or len(hints) < PIECE:
                self._staged = rest
            else:
                self._merged = merged
        return len(hints)

    def _compare(self) -> bool | None:
        """Attempt to recompute everything from the timers and compare; RuntimeError if something differs."""
        waiting = {hint[1:] for hint in chain(*self._staged, self._ready[self._at :])}
        for handle, (deadline, number, _, key) in self._timers.items():
            slot = self._slots.get(key) or self._taken.get(key) or {}
            must(handle in slot or (number, handle) in waiting, "a timer is not where it should be")
            must(handle in slot or deadline <= self._now, "a timer is early")
            must(key < 0 or key >> START <= deadline, "a timer stands in a slot after its deadline")
            must(key != self._overdue or deadline <= self._now, "a timer of the future is in the overdue slot")
        must(self._overdue in self._slots, "there is no overdue slot")
        noted = {*self._starts, self._overdue}
        must(all(key in noted for key, slot in self._slots.items() if slot), "time would not reach a slot")
        must(NEVER << START in noted, "the slots have no end")
        heap = self._starts
        must(all(heap[(i - 1) // 2] <= heap[i] for i in range(1, len(heap))), "the slots are in no order")
        must(all(run == sorted(run) for run in self._staged), "what was staged is not in order")
        must(self._max_pending is None or len(self._timers) <= self._max_pending, "there are too many timers")
        must(0 <= self._now <= MAX_TICK, "now is no tick")
        return None if self._mark else True


def must(holds: bool, otherwise: str) -> None:
    """Raise RuntimeError unless an invariant holds."""
    if not holds:
        raise RuntimeError(otherwise)
