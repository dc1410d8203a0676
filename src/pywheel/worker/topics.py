"""One topic in a worker: what of it is due, the pool that handles it, and how much the pool may hold."""

from __future__ import annotations

from typing import Final

from ..jobs.commands import Claimed
from ..jobs.handler import Handler
from .leases import HOLD, Lease, slack
from .pools import Pool
from .window import PAGE, Window

__all__ = ["Topic"]

_MOST: Final = 1_000
"""Jobs claimed beyond what runs: as many as keep quick handlers busy during a commit."""
_GROWTH: Final = 8
_QUICK: Final = 0.05  # seconds
_SLOW: Final = 0.2


class Topic:
    """A slow topic fills its own pool only, and a large backlog of it stays in the store."""

    def __init__(self, handler: Handler, pool: Pool, window: Window) -> None:
        self.handler = handler
        self.name = handler.topic
        self.pool = pool
        self.window = window
        self.terms = handler.terms._replace(slack=slack(handler.ttr), hold=HOLD)
        self.limits = self.terms.limits
        self.freed = False  # whether a place under a limit is free again
        self.passed = False  # whether one came free for which perhaps not all that is set aside was looked at
        self.inside = 0  # jobs in the pool, running or waiting
        self.waits = False  # for a place to begin at once: what is ready may not be held
        self.retry_at = 0.0  # when to claim again what could not be claimed
        self.reached: tuple[int, int] | None = None  # under limits: priority and due time of what comes next
        self.trial = 0  # when its suspects had their turn last, counted
        self.behind = 0  # since when jobs are due that are not claimed, wall clock in ms; 0 if there are none
        self._buffer = 0  # jobs that may wait in the pool
        self._fed_at = 0.0

    @property
    def begin(self) -> int:
        """How many jobs would begin at once."""
        return 0 if self.pool.runner.blocked else max(self.handler.concurrency - self.inside, 0)

    def room(self, now: float, bytes_left: int) -> int:
        """Return how many jobs may be claimed now."""
        begin = self.begin
        if self.pool.runner.blocked:
            return 0
        if now < self.retry_at or (not begin and (self.waits or self.pool.waiting > self._buffer // 2)):
            return 0  # enough for now; larger claims are cheaper
        if self.limits is not None and (not begin or bytes_left > 0):  # nothing is held that counts as running
            return begin if self.limits.per is None or not begin else max(begin, PAGE)
        if bytes_left <= 0:
            return int(self.inside == 0)  # no other topic's large bodies hold up this one
        if self.waits:
            return begin
        # What is claimed comes before all that is put later, whatever its priority.
        buffer = self._buffer if len(self.window.lanes) == 1 else min(self._buffer, self.handler.concurrency)
        return self.handler.concurrency + buffer - self.inside

    @property
    def spare(self) -> bool:
        """Whether it has room for more than it has. A limit by groups may hold back what it has, and not the rest."""
        grouped = self.limits is not None and self.limits.per is not None
        return bool(self.begin) and (grouped or not self.behind)

    def has_reached(self, outcome: Claimed, now: int) -> None:
        """Note how far claims under limits have come in the order of what is due."""
        held = [(-due.priority, due.due) for due in outcome.left if due.due <= now]
        begun = [(-job.priority, job.due) for job in outcome.jobs]
        if held or begun:
            priority, due = min(held) if held else max(begun)
            self.reached = -priority, due

    def feed(self, leases: list[Lease], now: float) -> None:
        """Give claimed jobs to the pool."""
        self.inside += len(leases)
        self._fed_at = now
        self.pool.feed(leases)

    def left(self, now: float) -> None:
        """Count a job that left the pool; when the pool runs dry, let it hold more if it was quick, less if slow."""
        self.inside -= 1
        self.waits = False
        if self.limits is not None and self.limits.most is not None:
            self.freed, self.retry_at = True, 0.0
        if self.inside == 0 and self._fed_at:
            took = now - self._fed_at
            self._fed_at = 0.0
            if took < _QUICK:
                self._buffer = min(max(_GROWTH * self._buffer, self.handler.concurrency), _MOST)
            elif took > _SLOW:
                self._buffer //= 2

    def stuck(self) -> list[Lease]:
        """Take back what waits in the pool, and let nothing wait there for now."""
        self._buffer = 0
        back = self.pool.take_back()
        self.inside -= len(back)
        return back
