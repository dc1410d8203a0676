"""Priority queues that programs keep timers in: heapq, sortedcontainers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from sortedcontainers import SortedList

from benchmarks.timers.peers.peer import Deliverer, nothing


class Heapq(Deliverer):
    """A heap of tuples with lazy deletion: cancelling adds the number to a set, and the entry waits for its time."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Any]] = []
        self.cancelled: set[int] = set()
        self.numbers = count()

    def schedule(self, when: Iterable[int]) -> list[int]:
        heap, numbers = self.heap, self.numbers
        handles = []
        for deadline in when:
            number = next(numbers)
            heappush(heap, (deadline, number, nothing))
            handles.append(number)
        return handles

    def fill(self, when: Sequence[int], items: Sequence[Any]) -> list[int]:
        heap, numbers = self.heap, self.numbers
        handles = []
        for deadline, item in zip(when, items, strict=True):
            number = next(numbers)
            heappush(heap, (deadline, number, item))
            handles.append(number)
        return handles

    def cancel(self, handles: Sequence[int]) -> int:
        cancel = self.cancelled.add
        for handle in handles:
            cancel(handle)
        return len(handles)

    def restart(self, handles: Sequence[int], when: Sequence[int]) -> int:
        heap, numbers, cancel = self.heap, self.numbers, self.cancelled.add
        for handle, deadline in zip(handles, when, strict=True):
            cancel(handle)
            heappush(heap, (deadline, next(numbers), nothing))
        return len(handles)

    def churn(self, when: Sequence[int]) -> int:
        heap, numbers, cancel = self.heap, self.numbers, self.cancelled.add
        for deadline in when:
            number = next(numbers)
            heappush(heap, (deadline, number, nothing))
            cancel(number)
        return len(when)

    def deliver(self, steps: Sequence[int]) -> int:
        heap, cancelled = self.heap, self.cancelled
        total = 0
        for now in steps:
            expired = []
            while heap and heap[0][0] <= now:
                _, number, item = heappop(heap)
                if number in cancelled:
                    cancelled.remove(number)
                else:
                    expired.append(item)
            total += len(expired)
        return total

    def counted_bytes(self) -> int:
        return sys.getsizeof(self.heap) + sum(map(sys.getsizeof, self.heap))


class SortedContainers(Deliverer):
    """A SortedList of tuples; the tuple is the handle."""

    def __init__(self) -> None:
        self.entries: Any = SortedList()
        self.numbers = count()

    def schedule(self, when: Iterable[int]) -> list[Any]:
        add, numbers = self.entries.add, self.numbers
        handles = []
        for deadline in when:
            entry = (deadline, next(numbers), nothing)
            add(entry)
            handles.append(entry)
        return handles

    def fill(self, when: Sequence[int], items: Sequence[Any]) -> list[Any]:
        add, numbers = self.entries.add, self.numbers
        handles = []
        for deadline, item in zip(when, items, strict=True):
            entry = (deadline, next(numbers), item)
            add(entry)
            handles.append(entry)
        return handles

    def cancel(self, handles: Sequence[Any]) -> int:
        remove = self.entries.remove
        some = handles[:100_000]
        for handle in some:
            remove(handle)
        return len(some)

    def restart(self, handles: Sequence[Any], when: Sequence[int]) -> int:
        remove, add, numbers = self.entries.remove, self.entries.add, self.numbers
        for handle, deadline in zip(handles, when, strict=True):
            remove(handle)
            add((deadline, next(numbers), nothing))
        return len(handles)

    def churn(self, when: Sequence[int]) -> int:
        remove, add, numbers = self.entries.remove, self.entries.add, self.numbers
        for deadline in when:
            entry = (deadline, next(numbers), nothing)
            add(entry)
            remove(entry)
        return len(when)

    def deliver(self, steps: Sequence[int]) -> int:
        entries = self.entries
        total = 0
        for now in steps:
            end = entries.bisect_right((now, inf))
            expired = [item for _, _, item in entries[:end]]
            del entries[:end]
            total += len(expired)
        return total

    def counted_bytes(self) -> int:
        return sys.getsizeof(self.entries) + sum(map(sys.getsizeof, self.entries))
