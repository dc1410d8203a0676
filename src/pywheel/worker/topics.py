"""One topic in a worker: what of it is due, the pool that handles it, and how much the pool may hold."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..jobs.commands import Claim, Claimed
from ..jobs.handler import Handler
from ..jobs.limits import Limits
from .leases import HOLD, Lease, slack
from .pools import Pool
from .window import Window

__all__ = ["Topic"]

_MOST: Final = 1_000
"""Jobs claimed beyond what runs: as many as keep quick handlers busy during a commit."""
_BESIDE: Final = 8
"""Jobs that are asked for under a limit beyond what may begin, after some that others had begun."""
_FULL: Final = 0.5  # seconds after which a worker that has all places of a limit asks again: its own leases may be over
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
        self.freed: Counter[str | None] = Counter()  # by group: places that came free, or may be free
        self.beside = 0  # jobs that are asked for beyond what may begin
        self.look = 0  # jobs that are asked for at least, to look past those whose groups are full
        self.poll_at = 0.0  # when to ask whether others have freed a place for what is set aside
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
            return self._asked(self.limits, begin)
        if bytes_left <= 0:
            return int(self.inside == 0)  # no other topic's large bodies hold up this one
        if self.waits:
            return begin
        # What is claimed comes before all that is put later, whatever its priority.
        buffer = self._buffer if len(self.window.lanes) == 1 else min(self._buffer, self.handler.concurrency)
        return self.handler.concurrency + buffer - self.inside

    def _asked(self, limits: Limits, begin: int) -> int:
        """Return how many to ask for under limits: as many as may begin, and more where others had begun the first."""
        if not begin or limits.per is not None:
            return begin and max(begin + self.beside, self.look)
        most = begin if limits.most is None else max(limits.most - self.inside, 1)
        return min(begin, most + self.beside, limits.burst + self.beside if limits.every else begin)

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

    @property
    def again_at(self) -> float:
        """When to claim again, if there is room."""
        return self.retry_at if self.window.waiting or self.freed else max(self.retry_at, self.poll_at)

    def asked(self, claim: Claim, outcome: Claimed, now: float) -> None:
        """Note what a claim under limits says of the next: `feed` comes after this."""
        assert self.limits is not None
        most, per, *_ = self.limits
        self.beside = _BESIDE if len(outcome.jobs) + len(outcome.left) < len(claim.ids) else 0
        if most is not None and per is None and self.inside + len(outcome.jobs) >= most:
            self.retry_at = now + _FULL
        full = {group for _, group in outcome.full}
        groups = map(self.window.groups.get, claim.ids)
        self.freed.update([group for group in groups if group is not None and group not in full])

    def feed(self, leases: list[Lease], now: float) -> None:
        """Give claimed jobs to the pool."""
        self.inside += len(leases)
        self._fed_at = now
        self.pool.feed(leases)

    def left(self, now: float, key: str | None) -> None:
        """Count a job that left the pool; when the pool runs dry, let it hold more if it was quick, less if slow."""
        self.inside -= 1
        self.waits = False
        if self.limits is not None and self.limits.most is not None:
            self.retry_at = 0.0
            if self.limits.per is not None and key is not None and self.window.aside:
                self.freed[key.partition(self.limits.per)[0]] += 1
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
