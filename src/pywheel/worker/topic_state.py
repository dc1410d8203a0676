"""One topic in a worker: its pool, how many jobs the pool may hold, and when the worker may claim from the topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..jobs.commands import Claim, Claimed
from ..jobs.ends import Ends
from ..jobs.handler import Handler
from ..jobs.limits import Limits
from .executors.pool import Pool
from .leases import Lease, hold_of, lease_margin
from .limit_scan import LimitScan

_MOST: Final = 1_000
"""Jobs that may wait in a pool, at most: enough to keep quick handlers busy during a commit."""
_BESIDE: Final = 8
"""Jobs that a claim under a limit looks at beyond those that may begin: other workers may begin the first just now."""
_FULL: Final = 0.5  # seconds after which a worker with all places of a limit asks again: its own leases may be over
_AGAIN: Final = 0.01  # seconds until the next claim after one that got none of the due jobs
_SOON: Final = 0.001  # seconds until the next claim after one that came too early
_PACE: Final = (0.05, 8, 0.2)
"""A pool that works off its jobs within 0.05 s may hold 8 times as many; one that takes over 0.2 s, half as many."""
_WITH_PRIORITIES: Final = (0.025, 2, 0.05)
"""The same with priorities. Claimed jobs run before urgent ones that are put later: so they are work for 50 ms."""


class Places:
    """The places of a worker with a `concurrency`, which its topics share: each running job takes one.

    A job that runs on after the end of its lease has no place any more, as another worker may have it. So a hung
    handler takes a place of its own topic, but no shared one. A handler that touches its job keeps the place.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.free = most

    def count(self, leases: Iterable[Lease], now: float) -> None:
        """Count the free places. O(leases)."""
        self.free = self._most - sum(not lease.ended and now < lease.until for lease in leases)


class TopicState:
    """One topic with its pool. A slow topic fills its own pool only, and its backlog stays in the store."""

    def __init__(self, handler: Handler, pool: Pool, places: Places | None = None) -> None:
        self.handler = handler
        self.places = places  # None: only its handler's concurrency counts
        self.served_at = 0  # when it last got a place, wall clock in ms
        self.name = handler.topic
        self.pool = pool
        self.policy = handler.policy._replace(slack=lease_margin(handler.ttr), hold=hold_of(0.0))
        self.limit(handler.limits)
        self.priorities = False  # whether jobs with a priority other than 0 were seen
        self.inside = 0  # jobs in the pool, running or waiting
        self.waits = False  # whether to claim only jobs that begin at once: the due ones may not be held
        self.done = self.failed = self.dead = self.late = 0  # jobs, attempts, and ms of the latest claim since `take`
        self.behind = 0  # since when due jobs are not claimed, wall clock in ms; 0 if there are none
        self._buffer = 0  # jobs that may wait in the pool
        self._fed_at = 0.0  # since when the jobs that leave the pool are counted; 0 while it is empty
        self._passed = 0  # jobs that have left since then

    def limit(self, limits: Limits | None) -> None:
        """Claim by these limits from now on. Forget all that was seen under the old ones."""
        self.limits = limits
        self.policy = self.policy._replace(limits=limits)
        self.scan = LimitScan() if limits is not None and limits.per is not None else None
        self.retry_at = 0.0  # the earliest time of the next claim

    @property
    def begin(self) -> int:
        """How many jobs would begin at once."""
        if self.pool.blocked:
            return 0
        own = max(self.handler.concurrency - self.inside, 0)
        return own if self.places is None else max(min(own, self.places.free), 0)

    # ---- claiming ---------------------------------------------------------------------------------------------------

    def room(self, now: float, bytes_left: int) -> int:
        """Return how many jobs may be claimed now, or looked at under a limit."""
        begin = self.begin
        if self.pool.blocked:
            return 0
        waits = self.waits or self.places is not None  # hold no job that another worker has a place for
        if now < self.retry_at or (not begin and (waits or self.pool.waiting > self._buffer // 2)):
            return 0  # enough for now; larger claims are cheaper
        if self.limits is not None and (not begin or bytes_left > 0):  # hold no job: it counts as running
            return begin and self._looked_at(self.limits, begin)
        if bytes_left <= 0:
            return int(self.inside == 0)  # one job, so that large bodies of other topics do not hold up this one
        if waits:
            return begin
        return self.handler.concurrency + self._buffer - self.inside

    def _looked_at(self, limits: Limits, begin: int) -> int:
        most, per, every, burst = limits
        if most is not None and per is None:
            begin = min(begin, max(most - self.inside, 1))
        return min(begin, burst if every else begin) + _BESIDE

    def claim(
        self,
        worker: str,
        room: int,
        begin: int,
        suspects: int,
        most_bytes: int,
        without: tuple[int, ...],
        now: float,
        slow: float,
    ) -> Claim:
        """Return the command that claims due jobs: it looks at `room` jobs, and `begin` of them begin at once."""
        scan = self.scan
        ids, after, limit, begin = ((), None, room, begin) if scan is None else scan.next_look(room, begin, now)
        policy = self.policy
        if slow:
            policy = policy._replace(slack=lease_margin(policy.ttr, slow), hold=hold_of(slow))
        return Claim(self.name, ids, policy, worker, begin, suspects, most_bytes, limit, after, () if ids else without)

    def hint(self, due: int, priority: int) -> None:
        """Take in a hint that a job with this priority is due at `due`."""
        self.priorities |= priority != 0
        if self.scan is not None:
            self.scan.hint(due)

    def learn(
        self, claim: Claim, outcome: Claimed, walls: tuple[int, int], now: float, again: float | None
    ) -> bool | None:
        """Take in the outcome of a claim, before `feed`; return whether there may be more to claim.

        None: the jobs that are left are suspects, which wait for probation. `walls`: the wall clock before and after
        the claim. `again`: the time at which the limits allow the next claim.
        """
        before, after = walls
        if not self.priorities:
            self.priorities = any(job.priority for job in outcome.jobs) or any(due.priority for due in outcome.left)
        most = None if self.limits is None or self.scan is not None else self.limits.most
        if most is not None and self.inside + len(outcome.jobs) >= most:
            again = now + _FULL
        more = self.scan is not None and self.scan.learn(claim, outcome, walls, now, again)
        if self.scan is not None and not claim.begin:
            return more  # nothing was to begin
        held = {id for id, _ in outcome.full}
        if any(due.id not in held and (due.due <= after or not claim.ids) for due in outcome.left):
            if again is not None:
                self.retry_at = again
            elif not outcome.jobs:
                self.retry_at = now + _AGAIN
                if claim.begin:
                    return None
                self.waits = True
            return True
        if not more and not outcome.jobs and outcome.next is not None and outcome.next <= before:
            self.retry_at = now + _SOON  # the store's clock is behind this worker's estimate
        return more

    def feed(self, leases: list[Lease], now: float) -> None:
        """Give claimed jobs to the pool."""
        self.inside += len(leases)
        self._fed_at = self._fed_at or now
        self.pool.feed(leases)

    def take(self) -> Ends:
        """Return the counts of ends since the last call."""
        taken = Ends(self.done, self.failed, self.dead, self.late)
        self.done = self.failed = self.dead = self.late = 0
        return taken

    def rest(self, until: float) -> None:
        """Claim nothing before a time of the monotonic clock."""
        self.retry_at = until

    def note_backlog(self, wall: int | None) -> None:
        """Note that due jobs are not claimed at this time of the wall clock; None: there are no such jobs."""
        self.behind = 0 if wall is None else self.behind or wall

    def forget_looks(self) -> None:
        """Walk anew through the jobs that a limit by groups holds back: earlier looks may be wrong."""
        if self.scan is not None:
            self.scan.restart()

    def restart(self) -> None:
        """Forget all times of the old wall clock: `behind` might be in the future for other workers."""
        self.behind = self.served_at = 0
        self.retry_at = 0.0

    def pause(self, now: float) -> None:
        """Forget the due jobs: the topic is paused."""
        self.behind = 0
        if self.scan is not None:
            self.scan.pause(now)

    # ---- ends of jobs -----------------------------------------------------------------------------------------------

    def left(self, leases: Sequence[Lease], now: float) -> None:
        """Take in jobs that left the pool.

        A pool that was quick to work off its jobs may hold more from now on, a slow one less.
        """
        self.inside -= len(leases)
        self.done += len(leases)
        self.waits = False
        if self.limits is not None and self.limits.most is not None:
            self.retry_at = 0.0
            if self.scan is not None and self.limits.per is not None:
                for key in [lease.job.key for lease in leases if lease.job.key is not None]:
                    self.scan.free(key.partition(self.limits.per)[0])
        self._passed += len(leases)
        if self._fed_at and (self.inside == 0 or self._passed >= self.handler.concurrency + self._buffer):
            took = max(lease.ended for lease in leases) - self._fed_at  # however long it took to store the ends
            self._passed, self._fed_at = 0, now if self.inside else 0.0
            quick, growth, slow = _WITH_PRIORITIES if self.priorities else _PACE
            if took < quick:
                self._buffer = min(max(growth * self._buffer, self.handler.concurrency), _MOST)
            elif took > slow:
                self._buffer //= 2

    def stuck(self) -> list[Lease]:
        """Take back the jobs that wait in the pool, and let none wait there for now."""
        self._buffer = 0
        back = self.pool.take_back()
        self.inside -= len(back)
        return back
