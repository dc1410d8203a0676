"""What a worker does beside its jobs: it ends lost leases, forgets what finished long ago, and watches the wall clock.

Pruning is a transaction of its own. No ack waits for it, and it rests for longer than its steps take.
"""

from __future__ import annotations

import random
from typing import Final

from .._errors import StoreError
from ..clock import Clock
from ..jobs.commands import Expire, Expired, Purge
from ..jobs.durations import KEEP_DEAD, Duration, duration
from ..jobs.job import State
from ..jobs.queries import GetNextLease
from ..stores.contract import Store

__all__ = ["ClockSteps", "LostLeases", "Pruning", "retention"]

_EXPIRED: Final = 200  # leases that are ended in one step
_DEPUTY: Final = 500  # ms after which any worker does what the one in charge has not done
_PRUNED: Final = 200  # jobs that are forgotten in one step, some 2 ms
_SHARE: Final = 4  # times as long as a step took is the pause after it, while there is more
_PAUSE: Final = 10  # ms of that pause, at least
_ROUND: Final = (250, 30_000)  # ms between looks when there is nothing: a tenth of the time that jobs are kept
_OTHERS: Final = 10  # times as long between looks of a worker that is not in charge
_BUSY: Final = 2_000  # ms for which pruning waits while jobs are overdue
_TOLERANCE: Final = 0.05  # seconds by which the wall clock may be off what it should show; less does no harm


class LostLeases:
    """When to end leases that are over, whosoever they were, so that their jobs are due again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: int | None = None

    def look(self) -> None:
        """See when the next lease may be over."""
        self._next = self._store.ask(GetNextLease())

    def due_at(self, *, in_charge: bool) -> int | None:
        """Return when there is something to do; None if nobody holds a lease."""
        if self._next is None:
            return None
        return self._next if in_charge else self._next + _DEPUTY

    def commands(self, now: int, *, in_charge: bool) -> list[Expire]:
        """Return what is to be done now."""
        at = self.due_at(in_charge=in_charge)
        return [Expire(_EXPIRED)] if at is not None and now >= at else []

    def learn(self, outcome: Expired | StoreError) -> None:
        """Take in what was done."""
        if isinstance(outcome, Expired):
            self._next = outcome.next_lease


Retention = dict[State, int]
"""How long jobs that ended in a state are kept, in ms."""


def retention(keep: Duration | None) -> Retention:
    """Return how long finished jobs are kept: dead ones for KEEP_DEAD, or `keep` if that is longer; None: for ever."""
    if keep is None:
        return {}
    kept = duration(keep, "keep")
    return {State.DONE: kept, State.CANCELLED: kept, State.DEAD: max(kept, duration(KEEP_DEAD, "keep"))}


class Pruning:
    """Forgets finished jobs, some rows at a time."""

    def __init__(self, store: Store, kept: Retention) -> None:
        self._store = store
        self._kept = kept
        self._rounds = {state: min(max(keep // 10, _ROUND[0]), _ROUND[1]) for state, keep in kept.items()}
        self.again()
        self._busy_since: int | None = None

    @property
    def due_at(self) -> int | None:
        """Return when there is something to do."""
        return min(self._at.values(), default=None)

    def work(self, now: int, *, busy: bool, in_charge: bool) -> None:
        """Forget some jobs, if it is time to. While jobs are overdue it waits, but not for ever. StoreError."""
        due = [state for state, at in self._at.items() if now >= at]
        if not busy:
            self._busy_since = None
        elif due:
            self._busy_since = now if self._busy_since is None else self._busy_since
            if now - self._busy_since < _BUSY:
                self._at.update(dict.fromkeys(due, now + _ROUND[0]))
                return
        if not due:
            return
        state = min(due, key=self._at.__getitem__)
        self._at[state] = now + self._rounds[state] * (1 if in_charge else _OTHERS)
        began = self._store.clock.time()
        [pruned] = self._store.apply([Purge(state, self._kept[state], None, _PRUNED)])
        if isinstance(pruned, StoreError) or pruned >= _PRUNED:
            took = self._store.clock.time() - began
            self._at[state] = now + max(_PAUSE, round(_SHARE * took * 1000))

    def again(self) -> None:
        """Look anew within a round, as the clock was stepped, or at first: many workers may have begun together."""
        now = self._store.clock.wall()
        self._at = {state: now + round(random.random() * between) for state, between in self._rounds.items()}


class ClockSteps:
    """By how much the wall clock was stepped between two looks, seen by a clock that is not stepped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._read()

    def look(self) -> float:
        """Return the seconds of a step since the last look, 0 if there was none."""
        low, high = self._offset
        self._offset = self._read()
        step = max(self._offset[0] - high, 0.0) - max(low - self._offset[1], 0.0)
        return step if abs(step) > _TOLERANCE else 0.0

    def _read(self) -> tuple[float, float]:
        """Return between which two values wall clock less monotonic clock lies, whatever came between the readings."""
        before = self._clock.time()
        wall = self._clock.wall()
        after = self._clock.time()
        return wall / 1000 - after, (wall + 1) / 1000 - before
