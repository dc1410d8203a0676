"""The lease keeper: renews the leases of claimed jobs that still wait in a pool, and of handlers that ask for it.

So a job's ttr begins about when its handler does, and a process that dies keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..jobs.commands import Touch
from ..jobs.handler import Handler
from ..jobs.job import Job

__all__ = ["LeaseKeeper"]

LOOK: Final = 1.0  # seconds between looks, or a quarter of the shortest ttr
_SHORTEST: Final = 0.02


class LeaseKeeper:
    """Knows every claim of this worker until it is settled. Only the dispatcher uses it."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._held: dict[tuple[int, int], _Held] = {}
        ttrs = [handler.ttr / 4000 for handler in handlers]
        self._every = max(min([LOOK, *ttrs]), _SHORTEST)
        self.look_at = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, handler: Handler, jobs: Iterable[Job]) -> None:
        """Begin to know of claims."""
        for job in jobs:
            self._held[job.id, job.claims] = _Held(job, handler)

    def settled(self, job: Job) -> None:
        """Forget a claim."""
        self._held.pop((job.id, job.claims), None)

    def jobs(self) -> list[Job]:
        """Return all jobs that are held."""
        return [held.job for held in self._held.values()]

    def holds(self, job: Job, now: int) -> bool:
        """Whether a claim's lease goes on, as far as is known here. From any thread."""
        held = self._held.get((job.id, job.claims))
        return held is not None and now < held.until

    def renewals(self, now: int, monotonic: float, waiting: set[tuple[int, int]]) -> list[Touch]:
        """Return what is to be renewed now: of those that wait or ask for it, what has less than half its time left."""
        self.look_at = monotonic + self._every
        ops = []
        for name, held in self._held.items():
            ttr = held.job.ttr or held.handler.ttr
            if held.until - now < ttr // 2 and (held.handler.keep_lease or name in waiting):
                ops.append(Touch(*name, ttr))
        return ops

    def renewed(self, now: int, touch: Touch) -> None:
        """Note that the store has renewed a lease."""
        held = self._held.get((touch.id, touch.claims))
        if held is not None:
            held.until = now + touch.ttr


class _Held:
    __slots__ = ("handler", "job", "until")

    def __init__(self, job: Job, handler: Handler) -> None:
        self.job = job
        self.handler = handler
        self.until = job.lease_until or 0
