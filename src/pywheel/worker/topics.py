"""One topic in a worker: what is due, the pool that handles it, and how much the pool may hold."""

from __future__ import annotations

from collections import deque
from typing import Final

from ..jobs.commands import Claim
from ..jobs.handler import Handler
from ..jobs.job import Job
from .pools import Pool

__all__ = ["Lane"]

_MOST: Final = 1_000
"""Jobs claimed beyond what runs: as many as keep quick handlers busy during a commit."""
_GROWTH: Final = 8
_QUICK: Final = 0.05  # seconds
_SLOW: Final = 0.2


class Lane:
    """A slow topic fills its own lane only."""

    def __init__(self, handler: Handler, pool: Pool) -> None:
        self.handler = handler
        self.pool = pool
        self.ready: deque[int] = deque()  # ids that are due and not claimed
        self.held = 0  # jobs in the pool, running or waiting
        self._buffer = 0  # jobs that may wait in the pool
        self._fed_at = 0.0

    @property
    def room(self) -> int:
        """How many jobs may be claimed now."""
        return max(self.handler.concurrency + self._buffer - self.held, 0)

    def claim(self, worker: str, epochs: dict[int, int]) -> Claim | None:
        """Return the command that claims what there is room for; those ids are no longer ready."""
        if not self.ready or not self.room:
            return None
        if self.pool.waiting > self._buffer // 2:
            return None  # enough for now; larger claims are cheaper
        ids = tuple(self.ready.popleft() for _ in range(min(self.room, len(self.ready))))
        return Claim(ids, self.handler.topic, self.handler.terms, worker, epochs)

    def feed(self, jobs: list[Job], monotonic: float) -> None:
        """Give claimed jobs to the pool."""
        self.held += len(jobs)
        self._fed_at = monotonic
        self.pool.feed(jobs)

    def finished(self, monotonic: float) -> None:
        """Count a job that left the pool; when the pool runs dry, let it hold more if it was quick, less if slow."""
        self.held -= 1
        if self.held == 0 and self._fed_at:
            took = monotonic - self._fed_at
            self._fed_at = 0.0
            if took < _QUICK:
                self._buffer = min(max(_GROWTH * self._buffer, self.handler.concurrency), _MOST)
            elif took > _SLOW:
                self._buffer //= 2
