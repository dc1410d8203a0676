"""Settling: how claims end, in this worker and then in the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final, Protocol

from .._errors import PywheelError, StoreError
from ..events import Events, JobEnded, JobGivenBack, JobSkipped, LeaseLost
from ..jobs.commands import Ack, Cancel, Command, Expired, Nack, Release, Reschedule
from ..jobs.handler import ending, moved
from ..jobs.job import Job, Outcome, State
from ..stores.contract import Store
from ..stores.notifier import Notifier
from .doubts import Doubts
from .leases import Lease, Leases
from .suspects import Suspects

__all__ = ["Dead", "Settling"]


class Dead(Protocol):
    """Is told of jobs that are dead."""

    def __call__(self, job: Job, error: str | None) -> object:
        """Take in a job whose last attempt has failed here, and why."""

    def lost(self, ids: Sequence[int]) -> object:
        """Take in jobs, whosesoever, whose last leases were lost."""

    def rung(self) -> object:
        """Take in that another worker may know of more."""


_DONE: Final = (Outcome.DONE, State.DONE)
_new: Final = tuple.__new__  # of a named tuple: without the function that its own is
_ENOUGH: Final = 64  # ends of handlers for which a commit is worth while, though more are under way


class Settling:
    """Takes ends of handlers from any thread, and keeps them until the store knows. The rest is for the dispatcher."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        leases: Leases,
        suspects: Suspects,
        events: Events,
        dead: Dead | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._leases = leases
        self._suspects = suspects
        self._events = events
        self._dead = dead
        self._finished: deque[Lease] = deque()
        self._unsettled: list[tuple[Command[Any], Lease]] = []  # ends of claims that the store does not know yet
        self._doubts = Doubts(store)
        self._moves = 0  # commands for jobs that were not for now, after those that settle
        self._asleep = False
        self.alone = False
        """Whether the dispatcher has gone: then each handler's end goes to the store by itself."""
        self.waiters: Mapping[str, Sequence[str]] = {}
        """By topic, who waits for the ends of its jobs: mostly nobody."""

    def __len__(self) -> int:
        return len(self._unsettled) + len(self._finished)

    @property
    def waiting(self) -> bool:
        """Whether handlers have ended since the last step."""
        return bool(self._finished)

    # ---- from the pools ---------------------------------------------------------------------------------------------

    def done(self, lease: Lease) -> None:
        """Note that a job left its pool. From any thread."""
        if self.alone:
            self._settle_alone(lease)
            return
        self._finished.append(lease)
        if self._asleep and (len(self._finished) >= _ENOUGH or not lease.topic.pool.waiting):
            self._asleep = False
            self._notifier.wake()

    @contextmanager
    def wakes(self, timeout: float, *, whatever: bool) -> Iterator[float]:
        """Let ends of handlers wake the dispatcher; give how long it may sleep."""
        self._asleep = True
        try:
            yield 0.0 if whatever and self._finished else timeout  # it came before the flag was up
        finally:
            self._asleep = False

    def _settle_alone(self, lease: Lease) -> None:
        command = self._command(lease)
        with suppress(StoreError):
            self._store.apply([command, *_moves(command, lease)])
            self._ring([lease.job.topic])

    # ---- to the store -----------------------------------------------------------------------------------------------

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Give claims back, unspent, at the next step."""
        self._unsettled += [(Release(lease.job.id, lease.job.claims), lease) for lease in leases]

    def commands(self, now: float, most: int) -> list[Command[Any]]:
        """Return the commands that settle what has ended; their outcomes go to `learn`."""
        finished, unsettled = self._finished, self._unsettled
        for _ in range(min(len(finished), most - len(unsettled))):
            lease = finished.popleft()
            lease.topic.left(now, lease.job.key)
            unsettled.append((self._command(lease), lease))
        moves = [move for command, lease in unsettled if type(command) is Release for move in _moves(command, lease)]
        self._moves = len(moves)
        return [*(command for command, _ in unsettled), *moves]

    def _command(self, lease: Lease) -> Command[Any]:
        if not lease.handled:
            return Release(lease.job.id, lease.job.claims)
        if lease.error is not None:
            return ending(lease.topic.handler, lease.job, lease.error)
        if lease.result is None:
            return Ack(lease.job.id, lease.job.claims)
        try:
            return Ack(lease.job.id, lease.job.claims, self._store.sealed_result(lease.job, lease.result))
        except PywheelError as error:  # a key is missing
            return ending(lease.topic.handler, lease.job, error)

    def learn(self, outcomes: Iterator[Any]) -> None:
        """Take in how claims ended; most of them well."""
        unsettled, self._unsettled = self._unsettled, []
        telling = bool(self._events.listeners)
        settled = self._leases.settled
        done: list[JobEnded] = []
        found = self._doubts.resolved(unsettled, list(islice(outcomes, len(unsettled))))
        self._ring(_over(unsettled, found))
        for (command, lease), outcome in zip(unsettled, found, strict=True):
            if isinstance(outcome, StoreError):  # of several stores one is away: it will hear it
                self._unsettled.append((command, lease))
                self._doubts.add((lease,))
                continue
            job = lease.job
            if job.lost:
                self._suspects.cleared((job.id, job.claims))
            settled(lease)
            if outcome is True and type(command) is Ack:  # as most of them are
                if telling:
                    seconds = lease.ended - (lease.started or lease.ended)
                    done.append(_new(JobEnded, (job, *_DONE, seconds, None)))
            elif outcome in (False, None):
                self._events.tell(LeaseLost(job))
            elif type(command) is Release:
                self._events.tell(_given_back(command, lease))
            else:
                assert type(command) is Nack
                self._failed(command, lease, outcome)
        for _ in islice(outcomes, self._moves):  # what was given back is due later, or somebody has changed it since
            pass
        if done:
            self._events.tell_many(done)

    def failed(self) -> None:
        """Take in that the store did not answer: what was to be settled may be settled, and is tried again."""
        self._doubts.add(lease for _, lease in self._unsettled)

    def _failed(self, command: Nack, lease: Lease, state: State) -> None:
        seconds = lease.ended - (lease.started or lease.ended)
        self._events.tell(JobEnded(lease.job, Outcome.FAILED, state, seconds, command.error))
        if state is State.DEAD and self._dead is not None:
            self._dead(lease.job, command.error)

    def expired(self, outcome: Expired | StoreError) -> None:
        """Tell who waits for ends, of any topic, and of the jobs that are dead: leases that were over may end jobs."""
        self._ring(self.waiters)
        if isinstance(outcome, Expired) and outcome.dead and self._dead is not None:
            self._dead.lost(outcome.dead)

    def _ring(self, topics: Iterable[str]) -> None:
        """Tell who waits for ends of jobs of these topics, once the store knows of them: they look which ended."""
        if self.waiters:
            for name in {name for topic in topics for name in self.waiters.get(topic, ())}:
                self._notifier.ring(name)

    def lost(self, lease: Lease) -> None:
        """Forget a claim that is over: somebody else has the job, or will."""
        self._leases.settled(lease)
        self._suspects.cleared((lease.job.id, lease.job.claims))
        self._events.tell(LeaseLost(lease.job))


def _over(settled: Sequence[tuple[Command[Any], Lease]], outcomes: Sequence[Any]) -> Iterator[str]:
    """Yield the topics of the jobs that have ended."""
    for (command, lease), outcome in zip(settled, outcomes, strict=True):
        if outcome is State.DEAD or (outcome is True and type(command) is Ack):
            yield lease.job.topic


def _moves(command: Command[Any], lease: Lease) -> list[Reschedule | Cancel]:
    """Return what is to follow the end of a claim, in the same transaction: another due time, its end, or nothing."""
    move = moved(lease.job, lease.error) if type(command) is Release and lease.handled else None
    return [] if move is None else [move]


def _given_back(command: Release, lease: Lease) -> JobGivenBack | JobSkipped:
    """Return what there is to tell of a job that was given back: in how many seconds it is due again, if not before."""
    move = next(iter(_moves(command, lease)), None)
    if isinstance(move, Cancel):
        return JobSkipped(lease.job, str(lease.error))
    return JobGivenBack(lease.job, None if move is None else (move.delay or 0) / 1000)
