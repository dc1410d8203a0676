"""The contract in its simplest form: a dict of timers, sorted whole at every advance."""

from dataclasses import dataclass
from typing import Any

MAX_TICK = 2**63 - 1


@dataclass
class Timer:
    deadline: int
    sequence: int
    item: Any
    collection: int | None = None  # which advance found it due first; None: not due yet


class Model:
    """Holds what a wheel must hold, under the handles which the wheel gave out."""

    def __init__(self, start: int = 0) -> None:
        self.now = start
        self.timers: dict[int, Timer] = {}
        self._sequence = 0
        self._collection = 0

    def schedule(self, handle: int, deadline: int, item: Any) -> None:
        assert handle not in self.timers, "a live handle was given out twice"
        self.timers[handle] = Timer(deadline, self._next(), item)

    def reschedule(self, handle: int, deadline: int) -> bool:
        if handle not in self.timers:
            return False
        self.timers[handle] = Timer(deadline, self._next(), self.timers[handle].item)
        return True

    def cancel(self, handle: int) -> bool:
        return self.timers.pop(handle, None) is not None

    def advance(self, now: int, limit: int | None = None) -> list[Any]:
        self.now = now
        self._collection += 1
        for timer in self.timers.values():
            if timer.deadline <= now and timer.collection is None:
                timer.collection = self._collection
        due = sorted(
            (timer.collection, timer.deadline, timer.sequence, handle)
            for handle, timer in self.timers.items()
            if timer.collection is not None
        )
        return [self.timers.pop(handle).item for *_, handle in due[:limit]]

    def clear(self) -> None:
        self.timers.clear()

    def earliest(self) -> int | None:
        """The exact tick at which the next advance returns something."""
        if not self.timers:
            return None
        return max(self.now, min(timer.deadline for timer in self.timers.values()))

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence
