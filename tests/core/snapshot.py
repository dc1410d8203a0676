"""The whole visible state of a wheel, to tell whether a refused call has changed it."""

from typing import Any


def snapshot(wheel: Any, handles: Any) -> tuple[Any, ...]:
    wheel._check()
    known = [(wheel.deadline(handle), wheel.get(handle), handle in wheel) for handle in handles]
    return wheel.now, wheel.max_pending, len(wheel), wheel.next_deadline(), sorted(wheel), known
