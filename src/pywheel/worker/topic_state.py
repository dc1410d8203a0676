"""One topic in a worker: the pool that handles it, how much the pool may hold, and when it may be claimed from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..jobs.commands import Claim, Claimed
from ..jobs.ends import Ends
from ..jobs.handler import Handler
from ..jobs.limits import Limits
from .executors.pool import Pool
from .leases import HOLD, Lease, lease_margin
from .limit_scan import LimitScan

__all__ = ["Places", "TopicState"]

_MOST: Final = 1_000
"""Jobs claimed beyond what runs: as many as keep quick handlers busy during a commit."""
_BESIDE: Final = 8
"""Jobs that are looked at under a limit beyond what may begin: others may begin the first of them just now."""
_FULL: Final = 0.5  # seconds after which a worker that has all places of a limit asks again: its own leases may be over
_AGAIN: Final = 0.01  # seconds before jobs are claimed again that could not be claimed
_SOON: Final = 0.001  # seconds before a topic is asked again that was asked too early
_WHOLE: Final = 0.5  # seconds between claims that look at all that is due
_UNSEEN: Final = 1_000  # ms before a claim for which jobs may still be put: their commits were under way
_PACE: Final = (0.05, 8, 0.2)
"""Seconds in which a pool that may hold more works off what it holds, how many times more, when it may hold less."""
_WITH_PRIORITIES: Final = (0.025, 2, 0.05)
"""The same with priorities. What is claimed comes before all that is put later: so it is what takes 50 ms."""


class Places:
    """How many more jobs may begin in a worker that is told how many run at once, whatever their topics.

    A job that goes on after the end of its lease has no place any more, for it is another's by then: hung handlers keep
    the places of their own topic, and none of those that all share.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.free = most

    def count(self, leases: Iterable[Lease], now: float) -> None:
        """Count those that are taken. O(leases)."""
        self.free = self._most - sum(not lease.ended and now < lease.until for lease in leases)


class TopicState:
    """A slow topic fills its own pool only, and a large backlog of it stays in the store."""

    def __init__(self, handler: Handler, pool: Pool, places: Places | None = None) -> None:
        self.handler = handler
        self.places = places  # None: as many as its handler has
        self.served_at = 0  # when it last got one of those, wall clock in ms
        self.name = handler.topic
        self.pool = pool
        self.policy = handler.policy._replace(slack=lease_margin(handler.ttr), hold=HOLD)
        self.limit(handler.limits)
        self.priorities = False  # whether jobs of others than priority 0 were seen
        self.inside = 0  # jobs in the pool, running or waiting
        self.waits = False  # for a place to begin at once: what is due may not be held
        self.done = self.failed = self.dead = self.late = 0  # jobs, attempts, and ms of the latest claim since `take`
        self.behind = 0  # since when jobs are due that are not claimed, wall clock in ms; 0 if there are none
        self._whole_at = 0.0  # when to look at all that is due
        self._buffer = 0  # jobs that may wait in the pool
        self._fed_at = 0.0  # when the jobs that leave next began to be counted; 0 while the pool is empty
        self._passed = 0  # jobs that have left since

    def limit(self, limits: Limits | None) -> None:
        """Claim by these limits from now on. What was seen, and is waited for, by others does not hold."""
        self.limits = limits
        self.policy = self.policy._replace(limits=limits)
        self.scan = LimitScan() if limits is not None and limits.per is not None else None
        self.retry_at = 0.0  # when to claim again what could not be claimed
        self._seen: int | None = None  # all that was due before this was claimed, wall clock in ms

    @property
    def begin(self) -> int:
        """How many jobs would begin at once."""
        if self.pool.runner.blocked:
            return 0
        own = max(self.handler.concurrency - self.inside, 0)
        return own if self.places is None else max(min(own, self.places.free), 0)

    # ---- claiming ---------------------------------------------------------------------------------------------------

    def room(self, now: float, bytes_left: int) -> int:
        """Return how many jobs may be claimed now, or looked at under a limit."""
        begin = self.begin
        if self.pool.runner.blocked:
            return 0
        waits = self.waits or self.places is not None  # nothing is held that others have places for
        if now < self.retry_at or (not begin and (waits or self.pool.waiting > self._buffer // 2)):
            return 0  # enough for now; larger claims are cheaper
        if self.limits is not None and (not begin or bytes_left > 0):  # nothing is held that counts as running
            return begin and self._looked_at(self.limits, begin)
        if bytes_left <= 0:
            return int(self.inside == 0)  # no other topic's large bodies hold up this one
        if waits:
            return begin
        return self.handler.concurrency + self._buffer - self.inside

    def _looked_at(self, limits: Limits, begin: int) -> int:
        most, per, every, burst = limits
        if most is not None and per is None:
            begin = min(begin, max(most - self.inside, 1))
        return min(begin, burst if every else begin) + _BESIDE

    def claim(
        self, worker: str, room: int, begin: int, suspects: int, most_bytes: int, without: tuple[int, ...], now: float
    ) -> Claim:
        """Return the command that claims what is due, of which so many are looked at, and so many begin at once."""
        ids, after, limit = ((), self._beyond(now), room) if self.scan is None else self.scan.next_look(room, now)
        return Claim(
            self.name, ids, self.policy, worker, begin, suspects, most_bytes, limit, after, () if ids else without
        )

    def _beyond(self, now: float) -> tuple[None, int, int] | None:
        """Return the position behind which to look: None now and then, and when something may be due before it.

        While another transaction holds a snapshot, a server keeps the index entries of all jobs that went by since.
        A claim that begins where the one before it found nothing more does not walk past them.
        """
        if self._seen is None or now >= self._whole_at:
            self._whole_at = now + _WHOLE
            return None
        return None, self._seen, 0

    def look_before(self, due: int | None = None) -> None:
        """Have the next claim look at all that is due: something may be due before what was seen, or is due then."""
        if due is None or (self._seen is not None and due <= self._seen):
            self._seen = None

    def hint(self, due: int, priority: int) -> None:
        """Take in that a job is due then."""
        self.priorities |= priority != 0
        self.look_before(due)
        if self.scan is not None:
            self.scan.hint(due)

    def learn(
        self, claim: Claim, outcome: Claimed, walls: tuple[int, int], now: float, again: float | None
    ) -> bool | None:
        """Take in what a claim came to, before `feed`; return whether there may be more to claim.

        None: what is left may have killed its process, and waits for its trial. `walls` are the wall clock before the
        claim and after it. `again` is when limits say that something may be claimed.
        """
        before, after = walls
        if not outcome.left and (outcome.next is None or outcome.next > after):
            self._seen = before - _UNSEEN
        if not self.priorities:
            self.priorities = any(job.priority for job in outcome.jobs) or any(due.priority for due in outcome.left)
        most = None if self.limits is None or self.scan is not None else self.limits.most
        if most is not None and self.inside + len(outcome.jobs) >= most:
            again = now + _FULL
        more = self.scan is not None and self.scan.learn(claim, outcome, walls, now, again)
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
            self.retry_at = now + _SOON  # the store's clock is behind what was estimated
        return more

    def feed(self, leases: list[Lease], now: float) -> None:
        """Give claimed jobs to the pool."""
        self.inside += len(leases)
        self._fed_at = self._fed_at or now
        self.pool.feed(leases)

    def take(self) -> Ends:
        """Return what became of its jobs since this was asked last."""
        taken = Ends(self.done, self.failed, self.dead, self.late)
        self.done = self.failed = self.dead = self.late = 0
        return taken

    def rest(self, until: float) -> None:
        """Claim nothing before that time of the monotonic clock."""
        self.retry_at = until

    def note_backlog(self, wall: int | None) -> None:
        """Note that jobs are due now that are not claimed, or with None that there are none."""
        self.behind = 0 if wall is None else self.behind or wall

    def forget_looks(self) -> None:
        """Look anew at all that is due: what was seen of it may not hold."""
        self.look_before()
        if self.scan is not None:
            self.scan.restart()

    def restart(self) -> None:
        """Forget what was reckoned by the old wall clock: the others would take `behind` for a time to come."""
        self.behind = self.served_at = 0
        self.retry_at = 0.0
        self.look_before()

    def pause(self, now: float) -> None:
        """Forget what is due: nothing is to begin."""
        self.behind = 0
        self.look_before()
        if self.scan is not None:
            self.scan.pause(now)

    # ---- what has ended ---------------------------------------------------------------------------------------------

    def left(self, leases: Sequence[Lease], now: float) -> None:
        """Take in jobs that left the pool.

        A pool that was quick to work off what it holds may hold more from then on, a slow one less.
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
            took = now - self._fed_at
            self._passed, self._fed_at = 0, now if self.inside else 0.0
            quick, growth, slow = _WITH_PRIORITIES if self.priorities else _PACE
            if took < quick:
                self._buffer = min(max(growth * self._buffer, self.handler.concurrency), _MOST)
            elif took > slow:
                self._buffer //= 2

    def stuck(self) -> list[Lease]:
        """Take back what waits in the pool, and let nothing wait there for now."""
        self._buffer = 0
        back = self.pool.take_back()
        self.inside -= len(back)
        return back
