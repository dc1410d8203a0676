"""The claims of this worker: which of them have begun, and whose lease must be renewed.

A claim is *held* while its job waits in a pool, and *begins* when its handler does. A held job that does not start in
time is given back. So a lease measures the handler alone, and a hung handler holds its own job only.

Jobs that may have killed their process are started one at a time, so that they take no others with them again. All
jobs that ran as a process died are suspects, the culprit among them. While no two suspects run together, a culprit can
hit only jobs that were never hit before.
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

__all__ = ["HOLD", "Lease", "Leases", "lease_margin"]

HOLD: Final = 1_000
"""ms that a claim is held by the store: so much later comes what a worker has not started that is stopped or dies."""
_START: Final = 0.5  # seconds after the claim in which a held job may start: the rest of HOLD is for its Begin
_START_BEGUN: Final = 2.5  # and one that has begun: `pause` waits 3 s for a worker that is stopped in the middle
_BEGIN: Final = 0.05  # seconds that a handler runs before the store is told: most are settled by then
_STUCK: Final = 0.4  # seconds that a job waits in a pool before it is given back; half its lease if that is less
_LOOK: Final = 0.25
_PROBATION: Final = 0.25  # seconds after which a suspect that still runs is taken for harmless, at its second attempt
_LONGER: Final = 4  # times, at each attempt after that
_LONGEST: Final = 8  # attempts for which it becomes longer
_SINGLY: Final = 16  # so many are tried one by one


def lease_margin(ttr: int) -> int:
    """Return how many ms a lease is longer than its ttr: for the ways from the store to the handler and back."""
    return min(max(ttr // 4, 50), 500)


@dataclass(slots=True, eq=False)
class Lease:
    """One claim, from the store's answer until it is settled. Times are those of the monotonic clock, in seconds."""

    job: Job
    topic: TopicState
    claimed: float  # before the store was asked
    begun: bool  # as the store knows it
    until: float = 0.0
    start_by: float = 0.0
    started: float | None = None
    ended: float = 0.0
    error: BaseException | None = None
    result: bytes | None = None  # what is to be kept of what the handler returned
    handled: bool = True  # False: it came too late to start
    ending: Ack | Nack | Release | None = None  # what settles it

    def __post_init__(self) -> None:
        if self.begun:
            self.until = self.claimed + self.ttr / 1000
            self.start_by = min(self.until, self.claimed + _START_BEGUN)
        else:
            self.until = self.claimed + HOLD / 1000
            self.start_by = self.claimed + _START

    @property
    def ttr(self) -> int:
        """How long the store shall lease it from now on, in ms."""
        ttr = self.job.ttr or self.topic.handler.ttr
        return ttr + lease_margin(ttr)

    @property
    def short(self) -> bool:
        """Whether it does not last for the handler's ttr: the answer to the claim was under way for long."""
        if self.started is None or not self.begun:
            return False
        ttr = self.job.ttr or self.topic.handler.ttr
        return self.until - self.started < (ttr + lease_margin(ttr) / 2) / 1000


class Quarantine:
    """The suspects on probation.

    A suspect that goes on for longer than its probation is taken for harmless, and may be hit once more. So each
    further attempt has a probation four times as long, until it runs to its end alone. A process that has survived
    several suspects takes more at a time, doubling: what died with a whole host is not handled one by one.
    """

    def __init__(self) -> None:
        self._until: dict[Lease, float] = {}
        self._survived = 0

    def room(self, now: float) -> int:
        """Return how many more may be claimed."""
        for lease in [lease for lease, until in self._until.items() if until <= now]:
            self.release(lease)
        return max((1 << self._survived // _SINGLY) - len(self._until), 0)

    def free_at(self, now: float) -> float:
        """Return when one more may be claimed, unless one ends before."""
        return now if self.room(now) else min(self._until.values())

    def begin(self, lease: Lease, now: float) -> None:
        """Note that a suspect may begin now. Its probation is no longer than its lease.

        It counts from now: the answer to the claim may have been under way for longer.
        """
        longer = _LONGER ** min(max(lease.job.attempt - 2, 0), _LONGEST)
        self._until[lease] = now + min(_PROBATION * longer, lease.ttr / 1000)

    def release(self, lease: Lease) -> None:
        """Note that a suspect has ended, or goes on for long."""
        if self._until.pop(lease, None) is not None and self._survived < 10 * _SINGLY:
            self._survived += 1


class Leases:
    """All claims that are not settled. Only the dispatcher uses it."""

    def __init__(self) -> None:
        self._all: set[Lease] = set()
        self._held = 0  # how many of them the store does not know to have begun
        self._young: deque[Lease] = deque()  # claimed less than _BEGIN ago; most are settled before they are older
        # That wait in a pool still, or whose beginning the store is to be told; some may have ended.
        self._old: list[Lease] = []
        self._kept: set[Lease] = set()  # whose lease is renewed while the handler runs
        self.quarantine = Quarantine()
        self.bytes = 0
        """The bodies of all of them."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._all))

    def add(self, leases: Sequence[Lease], now: float) -> None:
        """Take claims of a topic in, which may begin now."""
        self._young.extend(leases)
        self._all.update(leases)
        self._count(leases, 1, lambda lease: self.quarantine.begin(lease, now))
        handler = leases[0].topic.handler
        if handler.keep_lease or handler.isolate:  # it is killed in time, counted from when its process is ready
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

    def begins(self, now: float) -> list[Lease]:
        """Return the claims whose handlers go on and have begun without the store knowing, or later than it knows."""
        return [
            lease
            for lease in self._look(now)
            if lease.started is not None
            and now - lease.started >= _BEGIN
            and (not lease.begun or lease not in self._kept)
        ]

    def stuck(self, now: float) -> dict[TopicState, bool]:
        """Return the topics in whose pools a job has waited for too long, and whether one of them should have begun."""
        found: dict[TopicState, bool] = {}
        for lease in self._look(now):
            if lease.started is None and now - lease.claimed >= min(_STUCK, (lease.until - lease.claimed) / 2):
                found[lease.topic] = found.get(lease.topic, False) or lease.begun
        return found

    def renewals(self, now: float) -> list[Lease]:
        """Return the claims of handlers that keep their lease, with less than half of it left."""
        return [
            lease
            for lease in self._kept
            if lease.begun and lease.started is not None and lease.until - now < max(lease.ttr / 2000, _LOOK)
        ]

    def begin(self, lease: Lease, asked: float) -> None:
        """Note that the store has leased a claim anew, having been asked then."""
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
        """Return what the store is asked, for a claim that has begun or goes on."""
        return Begin(lease.job.id, lease.job.claims, lease.ttr)
