"""How the pure-Python wheel advances: what is due leaves it, or is held back by a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappush
from itertools import chain, count, islice, repeat
from operator import itemgetter, setitem
from typing import Any, Final, SupportsIndex, TypeVar

from . import _arguments
from ._arguments import MAX_TICK
from ._pure_commit import consume
from ._pure_levels import Entry, Plan, first_place, window
from ._pure_slots import Slots

_R = TypeVar("_R")

batches: Final = count(-1, -1)
BATCH: Final = 256


class Advancing(Slots):
    """Slots that time passes over."""

    __slots__ = ()

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

    def _weight(self, now: int) -> int:
        """Return how many timers an advance to the tick `now` would look at, or how many there are if these are few."""
        if self._count <= BATCH:
            return self._count
        _, start, stop = window(self._now, now)
        return sum(map(len, self._slots[start:stop]))

    def _take_piece(self, tick: int, most: int, firsts: list[Any]) -> int:
        """Move up to `most` timers of the first slot, if that begins by `tick`, to a list, and that to a heap.

        For drivers that must not pause: no slot is taken as a whole. The heap has the first of each list and the list,
        sorted backwards; a timer is its deadline, sequence, handle and item. What a limit held back is not looked at.
        Return how many.
        """
        while self._first_tick <= tick:
            if not self._slots[self._first]:
                self._close()
            elif taken := self._plan(self._move_out, most, firsts):
                return int(taken)
        return 0

    def _move_out(self, most: int, firsts: list[Any]) -> int | None:
        """Attempt to move up to `most` timers of the first slot."""
        slot = self._slots[self._first]
        if not slot:
            return 0 if self._planning else None
        piece = [(entry[0], entry[1], handle, entry[2]) for handle, entry in islice(slot.items(), most)]
        piece.sort(reverse=True)
        handles = [timer[2] for timer in piece]
        count = self._count - len(piece)
        changes = chain(
            map(heappush, [firsts], [(piece[-1], piece)]),
            map(setattr, (self,), ("_count",), (count,)),  # from here on no memory is needed
            map(slot.pop, handles),
            map(self._moved.pop, handles, repeat(None)),
        )
        return len(piece) if self._commit(changes, iter(())) else None

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
