"""The claims of this worker: which of them have begun, and whose lease must be renewed.

A claim is *held* while its job waits in a pool, and *begins* when its handler does. A held job that does not start in
time is given back. So a lease measures the handler alone, and a hung handler holds its own job only.

All jobs that ran as a process died are suspects, and one of them may have killed the process. Suspects start one at a
time. While no two of them run together, the culprit can hit only jobs that were never hit before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..jobs.commands import Ack, Begin, Nack, Release
from ..jobs.job import Job
from ..jobs.lifecycle import LOST_BEGUN

if TYPE_CHECKING:
    from .topic_state import TopicState

HOLD: Final = 1_000
"""ms that the store holds a claim at least: if the worker is stopped, its waiting jobs are late by that much."""
_START: Final = 0.5  # seconds after the claim in which a held job may start: the rest of HOLD is for its Begin
_START_BEGUN: Final = 2.5  # the same for a claim that begins at once: `pause` waits 3 s for a worker that stands still
LATE: Final = 1.0
"""Seconds that the answer to a claim may take before the worker confirms that its jobs may still start."""
_SLOW: Final = 1.0  # seconds of a slow step that count for HOLD
_BEGIN: Final = 0.05  # seconds that a handler runs before the store is told: most are settled by then
_STUCK: Final = 0.4  # seconds that a job waits in a pool before it is given back; half its lease if that is less
_LOOK: Final = 0.25
_PROBATION: Final = 0.25  # seconds after which a suspect that still runs is taken for harmless, at its second attempt
_LONGER: Final = 4  # times the probation before, at each attempt after that
_LONGEST: Final = 8  # attempts at which the probation grows
_SINGLY: Final = 16  # suspects that run one by one before two may run at once


def lease_margin(ttr: int, slow: float = 0.0) -> int:
    """Return by how many ms a lease exceeds its ttr, for the ways from the store to the handler and back.

    `slow`: seconds of the slowest step of late. An end waits for the step under way, and is stored by the next.
    """
    return min(max(ttr // 4, 50), 500) + int(2_000 * slow)


def hold_of(slow: float) -> int:
    """Return for how many ms a claim is held: a slow step also lets the handler begin later."""
    return HOLD + int(3_000 * min(slow, _SLOW))


@dataclass(slots=True, eq=False)
class Lease:
    """One claim, from the store's answer until the claim is settled. Times: monotonic clock, in seconds."""

    job: Job
    topic: TopicState
    claimed: float  # before the store was asked
    begun: bool  # whether the store knows that it has begun
    slow: float = 0.0  # seconds of the slowest step before it, or before its renewal
    answered: float = 0.0  # when the store had answered
    until: float = 0.0
    start_by: float = 0.0
    ahead: float = 0.0  # by how much the store's clock was ahead of this worker's idea of it at the claim
    started: float | None = None
    ended: float = 0.0
    error: BaseException | None = None
    result: bytes | None = None  # the handler's result, as it is kept
    handled: bool = True  # False: the job did not run to its end here, and goes back unspent
    ending: Ack | Nack | Release | None = None  # the command that settles it

    def __post_init__(self) -> None:
        if self.begun:
            handler = self.topic.handler  # whose ttr gives the margin of a claim
            self.until = self.claimed + ((self.job.ttr or handler.ttr) + lease_margin(handler.ttr, self.slow)) / 1000
            self.start_by = self.latest(self.claimed)
        else:
            self.until = self.claimed + hold_of(self.slow) / 1000
            self.start_by = self.claimed + _START + min(self.slow, _SLOW)

    def confirm(self, asked: float) -> None:
        """Let the job start as if it was claimed at `asked`: a pause from then on waits for this worker."""
        if self.begun:
            self.start_by = self.latest(asked)

    def latest(self, asked: float) -> float:
        """Return until when the job may start if a pause from `asked` on waits for this worker."""
        return min(self.until, asked + _START_BEGUN)

    @property
    def ttr(self) -> int:
        """The ms for which the store leases the claim when it begins or is renewed."""
        ttr = self.job.ttr or self.topic.handler.ttr
        return ttr + lease_margin(ttr, self.slow)

    @property
    def short(self) -> bool:
        """Whether the lease ends before the handler's ttr, because the answer to the claim was slow."""
        if self.started is None or not self.begun:
            return False
        ttr = self.job.ttr or self.topic.handler.ttr
        return self.until - self.started < (ttr + lease_margin(ttr, self.slow) / 2) / 1000


class Quarantine:
    """The suspects on probation.

    A suspect that runs for longer than its probation is taken for harmless, so another suspect may still hit it. Each
    further attempt has a probation four times as long, until the suspect runs to its end alone. A process that has
    survived 16 suspects takes two at a time, then four, and so on: jobs that died with a host do not run one by one.
    """

    def __init__(self) -> None:
        self._until: dict[Lease, float] = {}
        self._survived = 0

    def room(self, now: float) -> int:
        """Return how many more suspects may be claimed."""
        for lease in [lease for lease, until in self._until.items() if until <= now]:
            self.release(lease)
        return max((1 << self._survived // _SINGLY) - len(self._until), 0)

    def free_at(self, now: float) -> float:
        """Return when one more suspect may be claimed, if none ends before."""
        return now if self.room(now) else min(self._until.values())

    def begin(self, lease: Lease, now: float) -> None:
        """Begin the probation of a suspect that may start now. It is no longer than the suspect's lease.

        The probation counts from now, not from the claim: the claim's answer may have been slow.
        """
        longer = _LONGER ** min(max(lease.job.attempt - 2, 0), _LONGEST)
        self._until[lease] = now + min(_PROBATION * longer, lease.ttr / 1000)

    def release(self, lease: Lease) -> None:
        """End a probation: the suspect has ended, or has outlasted it."""
        if self._until.pop(lease, None) is not None and self._survived < 10 * _SINGLY:
            self._survived += 1


class Leases:
    """All claims that are not settled. Only the dispatcher uses it."""

    def __init__(self) -> None:
        self._all: set[Lease] = set()
        self._held = 0  # claims that have not begun, as far as the store knows
        self._young: deque[Lease] = deque()  # claimed less than _BEGIN ago; most are settled before they are older
        # Older claims that still wait in a pool, or that the store must learn to have begun; some may have ended.
        self._old: list[Lease] = []
        self._kept: set[Lease] = set()  # claims whose lease is renewed while the handler runs
        self.quarantine = Quarantine()
        self.bytes = 0
        """The bytes of the bodies of all claims."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._all))

    def add(self, leases: Sequence[Lease], now: float) -> None:
        """Add claims of one topic, which may begin now."""
        self._young.extend(leases)
        self._all.update(leases)
        self._count(leases, 1, lambda lease: self.quarantine.begin(lease, now))
        handler = leases[0].topic.handler
        if handler.keep_lease or handler.isolate:  # the ttr of an isolated one starts with its process
            self._kept.update(leases)

    def settle(self, leases: Iterable[Lease]) -> None:
        """Forget claims."""
        settled = self._all.intersection(leases)
        self._all -= settled
        self._count(settled, -1, self.quarantine.release)
        self._kept -= settled
        if not self._all:
            self._young.clear()
            self._old.clear()

    def _count(self, leases: Iterable[Lease], sign: int, suspect: Callable[[Lease], object]) -> None:
        size = held = 0
        for lease in leases:
            job = lease.job
            size += len(job.body)
            held += not lease.begun
            if job.lost == LOST_BEGUN:
                suspect(lease)
        self.bytes += sign * size
        self._held += sign * held

    def _look(self, now: float) -> list[Lease]:
        young = self._young
        while young and now - young[0].claimed >= _BEGIN:  # those that follow were claimed later
            self._old.append(young.popleft())
        if self._old:
            self._old = [
                lease
                for lease in self._old
                if not lease.ended and (lease.started is None or not lease.begun or lease.short) and lease in self._all
            ]
        return self._old

    def stuck(self, now: float) -> dict[TopicState, bool]:
        """Return the topics with jobs that waited in a pool for too long, and whether one of them should have begun."""
        found: dict[TopicState, bool] = {}
        for lease in self._look(now):
            waits = now - max(lease.answered, lease.claimed)
            if lease.started is None and waits >= min(_STUCK, (lease.until - lease.claimed) / 2):
                found[lease.topic] = found.get(lease.topic, False) or lease.begun
        return found

    def over(self, now: float) -> list[Lease]:
        """Return the claims of running handlers whose lease may be over, unless this worker renews it."""
        return [
            lease
            for lease in self._all - self._kept
            if 0 < lease.until <= now and lease.started is not None and not lease.ended
        ]

    def due(self, now: float, slow: float) -> list[Lease]:
        """Return the claims of running handlers that must begin or be renewed now; `slow`: as for `lease_margin`."""
        found = [  # claims that have begun, unknown to the store, or later than it knows
            lease
            for lease in self._look(now)
            if lease.started is not None
            and now - lease.started >= _BEGIN
            and (not lease.begun or lease not in self._kept)
        ]
        found += [  # those that keep their lease, with less than half of it left
            lease
            for lease in self._kept
            if lease.begun
            and lease.started is not None
            and not lease.ended  # else the store has its end first
            and lease.until - now < max(lease.ttr / 2000, _LOOK)
        ]
        for lease in found:
            lease.slow = max(lease.slow, slow)
        return found

    def begin(self, lease: Lease, asked: float) -> None:
        """Note that the store has renewed a lease, from the time `asked` on."""
        if not lease.begun:
            self._held -= lease in self._all
            lease.begun = True
        lease.until = asked + lease.ttr / 1000

    def look_at(self, now: float) -> float | None:
        """Return when to look again; None without claims."""
        if self._held or self._look(now):
            return now + _BEGIN / 2
        if not self._kept:
            return None
        return max(min(lease.until - lease.ttr / 2000 for lease in self._kept), now + 0.02)

    @staticmethod
    def command(lease: Lease) -> Begin:
        """Return the command that begins or renews a claim's lease."""
        return Begin(lease.job.id, lease.job.claims, lease.ttr)
