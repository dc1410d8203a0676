"""heapq with lazy deletion behind methods: what a program would write that wants handles, and knows no wheel."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Any


class HeapTimers:
    """TimingWheel's calls on a heap of tuples; an entry is valid while its number is the last one of its handle."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self._live: dict[int, tuple[int, Any]] = {}  # handle -> number of its entry, item
        self._numbers = count()

    def schedule(self, deadline: int, item: Any = None) -> int:
        handle = next(self._numbers)
        heappush(self._heap, (deadline, handle, handle))
        self._live[handle] = handle, item
        return handle

    def reschedule(self, handle: int, deadline: int) -> bool:
        if handle not in self._live:
            return False
        number = next(self._numbers)
        heappush(self._heap, (deadline, number, handle))
        self._live[handle] = number, self._live[handle][1]
        return True

    def cancel(self, handle: int) -> bool:
        return self._live.pop(handle, None) is not None

    def advance(self, now: int) -> list[Any]:
        heap, live = self._heap, self._live
        expired = []
        while heap and heap[0][0] <= now:
            _, number, handle = heappop(heap)
            entry = live.get(handle)
            if entry is not None and entry[0] == number:
                del live[handle]
                expired.append(entry[1])
        return expired
