"""Peers with the methods of TimingWheel: the two wheels, their pure twins, and a heap behind the same methods."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pywheel
from benchmarks.timers.peers.heap_timers import HeapTimers
from benchmarks.timers.peers.peer import Deliverer
from pywheel.core import _pure

ITEM = object()


class Wheel(Deliverer):
    """A TimingWheel, by bound methods."""

    kind: Any = pywheel.TimingWheel
    item: Any = ITEM

    def __init__(self) -> None:
        self.wheel = self.kind()

    def schedule(self, when: Iterable[int]) -> list[int]:
        schedule, item = self.wheel.schedule, self.item
        return [schedule(deadline, item) for deadline in when]

    def fill(self, when: Sequence[int], items: Sequence[Any]) -> list[int]:
        schedule = self.wheel.schedule
        return [schedule(deadline, item) for deadline, item in zip(when, items, strict=True)]

    def cancel(self, handles: Sequence[int]) -> int:
        cancel = self.wheel.cancel
        for handle in handles:
            cancel(handle)
        return len(handles)

    def restart(self, handles: Sequence[int], when: Sequence[int]) -> int:
        reschedule = self.wheel.reschedule
        for handle, deadline in zip(handles, when, strict=True):
            reschedule(handle, deadline)
        return len(handles)

    def churn(self, when: Sequence[int]) -> int:
        schedule, cancel, item = self.wheel.schedule, self.wheel.cancel, self.item
        for deadline in when:
            cancel(schedule(deadline, item))
        return len(when)

    def deliver(self, steps: Sequence[int]) -> int:
        advance = self.wheel.advance
        count = 0
        for now in steps:
            count += len(advance(now))
        return count

    def idle(self, steps: Sequence[int]) -> None:
        advance = self.wheel.advance
        for now in steps:
            advance(now)

    def counted_bytes(self) -> int:
        return sys.getsizeof(self.wheel)


class Keys(Wheel):
    """A KeyWheel, by bound methods."""

    kind = pywheel.KeyWheel
    item = 12345


class HeapqMethods(Wheel):
    """Not a wheel: heapq behind the same methods, for the pure twin to be measured against."""

    kind = HeapTimers


class Pure(Wheel):
    """The twin of TimingWheel."""

    kind = _pure.TimingWheel
