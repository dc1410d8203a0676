"""How claims end, in this worker and then in the store, also where the store's answer was lost.

An end whose answer was lost is tried again, and refused if it was stored, as its claim is over. So it is looked up what
the first try came to: else it would be taken for a lost lease, and nobody would be told that the job is done, or dead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final

from .._errors import StoreError
from ..events import Events, JobEnded, JobGivenBack, JobSkipped, LeaseLost
from ..execution import Ended, settlement
from ..jobs.commands import Ack, Cancel, Command, Edit, Expired, Nack, Release
from ..jobs.handler import moved
from ..jobs.job import Attempt, Outcome, State
from ..jobs.queries import GetHistories, GetStates
from ..stores.contract import Store
from ..stores.notifier import Notifier
from .deaths import Deaths
from .leases import Lease, Leases

__all__ = ["SOON", "Completer"]


_DONE: Final = (Outcome.DONE, State.DONE)
_new: Final = tuple.__new__  # of a named tuple: without the function that its own is
_ENOUGH: Final = 500  # ends of handlers for which a commit is worth while, though more are under way
SOON: Final = 0.01
"""Seconds that the end of a handler may wait for other work of the store, if that is to come."""
_TOO_LATE: Final = 1.01 * SOON  # a dispatcher that sleeps for SOON is in time, however the sum was rounded
_ENDS: Final[dict[type, Outcome]] = {Ack: Outcome.DONE, Nack: Outcome.FAILED, Release: Outcome.RELEASED}


class Completer:
    """Takes ends of handlers from any thread, and keeps them until the store knows. The rest is for the dispatcher."""

    def __init__(self, store: Store, notifier: Notifier, events: Events, dead: Deaths | None = None) -> None:
        self._store = store
        self._notifier = notifier
        self._events = events
        self._dead = dead
        self.leases = Leases()
        """The claims that are not settled."""
        self._finished: deque[Lease] = deque()
        self._unsettled: list[Lease] = []  # that have ended without the store knowing
        self._uncertain: set[Lease] = set()  # whose ends the store may know
        self._moves = 0  # commands for jobs that were not for now, after those that settle
        self._wakes_at = 0.0  # when the dispatcher ends its sleep by itself
        self.asleep = False
        """Whether the dispatcher sleeps, and no end has woken it."""
        self._urgent = False  # whether somebody waits for an end that came since the last step
        self.alone = False
        """Whether the dispatcher has gone: then each handler's end goes to the store by itself."""
        self.waiters: Mapping[str, Sequence[str]] = {}
        """By topic, who waits for the ends of its jobs: mostly nobody."""

    def __len__(self) -> int:
        return len(self._unsettled) + len(self._finished)

    @property
    def settled(self) -> bool:
        """Whether the store has said of all that it was told how it ended: so counts of ends are as they are."""
        return not self._unsettled

    # ---- from the pools ---------------------------------------------------------------------------------------------

    def done(self, lease: Lease) -> None:
        """Note that a job left its pool. From any thread."""
        job, topic = lease.job, lease.topic
        if lease.handled and lease.error is None and lease.result is None:
            lease.ending = Ack(job.id, job.claims)
        elif lease.handled:
            ended = Ended(lease.error, lease.result)
            lease.ending, lease.error = settlement(self._store, topic.handler, job, ended)
        else:
            lease.ending = Release(job.id, job.claims)
        if self.alone:
            self._settle_alone(lease)
            return
        if job.key is not None or topic.limits is not None or topic.places is not None or self.waiters:
            self._urgent = True
        self._finished.append(lease)
        if self.asleep and self._due(lease.ended):
            self.asleep = False
            self._notifier.wake()

    def _due(self, now: float) -> bool:
        """Whether it is time to settle what has ended. If not, it goes with what the dispatcher does next."""
        finished = self._finished
        return self._urgent or len(finished) >= _ENOUGH or self._wakes_at - now > _TOO_LATE

    def due(self, wakes_at: float, now: float) -> bool:
        """Whether ends are to be settled now, though the dispatcher has other work at that time only."""
        self._wakes_at = wakes_at
        return bool(self._finished) and self._due(now)

    @contextmanager
    def wakes(self, timeout: float, now: float) -> Iterator[float]:
        """Let ends of handlers wake the dispatcher; give how long it may sleep."""
        self.asleep = True
        try:
            yield 0.0 if self.due(now + timeout, now) else timeout  # it came before the flag was up
        finally:
            self.asleep = False

    def _settle_alone(self, lease: Lease) -> None:
        assert lease.ending is not None
        with suppress(StoreError):
            self._store.apply([lease.ending, *_moves(lease)])
            self._ring([lease.job.topic])

    # ---- to the store -----------------------------------------------------------------------------------------------

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Give claims back, unspent, at the next step."""
        for lease in leases:
            lease.ending, lease.handled = Release(lease.job.id, lease.job.claims), False
            lease.topic.done += 1
            self._unsettled.append(lease)

    def commands(self, now: float, most: int) -> list[Command[Any]]:
        """Return the commands that settle what has ended; their outcomes go to `learn`."""
        finished, unsettled = self._finished, self._unsettled
        self._urgent = False
        fresh = [finished.popleft() for _ in range(min(len(finished), most - len(unsettled)))]
        if fresh:
            topics = {lease.topic for lease in fresh}
            for topic in topics:
                topic.left(fresh if len(topics) == 1 else [lease for lease in fresh if lease.topic is topic], now)
            unsettled += fresh
        moves = [move for lease in unsettled if type(lease.ending) is Release for move in _moves(lease)]
        self._moves = len(moves)
        return [*[lease.ending for lease in unsettled], *moves]  # type: ignore[list-item]  # each has one by now

    def learn(self, outcomes: Iterator[Any]) -> None:
        """Take in how claims ended; most of them well."""
        unsettled, self._unsettled = self._unsettled, []
        found = list(islice(outcomes, len(unsettled)))
        if self._uncertain:
            self._resolve(unsettled, found)
        if self.waiters:
            ends = zip(unsettled, found, strict=True)
            self._ring([one.job.topic for one, end in ends if end is (True if type(one.ending) is Ack else State.DEAD)])
        telling = bool(self._events.listeners)
        done: list[JobEnded] = []
        for lease, outcome in zip(unsettled, found, strict=True):
            if outcome is True and type(lease.ending) is Ack:  # as most of them are
                if telling:
                    seconds = lease.ended - (lease.started or lease.ended)
                    done.append(_new(JobEnded, (lease.job, *_DONE, seconds, None)))
            elif isinstance(outcome, StoreError):  # of several stores one is away: it will hear it
                self._unsettled.append(lease)
                self._uncertain.add(lease)
            else:
                self._tell(lease, outcome)
        if self._uncertain:
            unsettled = [lease for lease in unsettled if lease not in self._uncertain]
        self.leases.settle(unsettled)
        for _ in islice(outcomes, self._moves):  # what was given back is due later, or somebody has changed it since
            pass
        if done:
            self._events.emit_many(done)

    def failed(self) -> None:
        """Take in that the store did not answer: what was to be settled may be settled, and is tried again."""
        self._uncertain.update(self._unsettled)

    def _tell(self, lease: Lease, outcome: Any) -> None:
        """Tell of an end that was no success, and count it: all that leaves a pool is counted as done at first."""
        lease.topic.done -= 1
        if outcome in (False, None):
            self._events.emit(LeaseLost(lease.job))
        elif type(lease.ending) is Release:
            self._events.emit(_given_back(lease))
        else:
            assert type(lease.ending) is Nack
            error, seconds = lease.ending.error, lease.ended - (lease.started or lease.ended)
            self._events.emit(JobEnded(lease.job, Outcome.FAILED, outcome, seconds, error))
            lease.topic.failed += 1
            lease.topic.dead += outcome is State.DEAD
            if outcome is State.DEAD and self._dead is not None:
                self._dead(lease.job, error)

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

    def renewed(self, lease: Lease, outcome: bool | StoreError, asked: float) -> None:
        """Take in whether the store has leased a claim anew. If not, it is over: somebody else has the job, or will."""
        if not outcome:
            self.leases.settle([lease])
            self._events.emit(LeaseLost(lease.job))
        elif not isinstance(outcome, StoreError):
            self.leases.begin(lease, asked)

    # ---- where the answer was lost ----------------------------------------------------------------------------------

    def _resolve(self, settled: Sequence[Lease], outcomes: list[Any]) -> None:
        """Put the outcome of an earlier try where its answer was lost."""
        uncertain, self._uncertain = self._uncertain, set()
        places = [n for n, lease in enumerate(settled) if lease in uncertain and outcomes[n] in (False, None)]
        if not places:
            return
        ids = [settled[place].job.id for place in places]
        try:
            histories, states = self._store.ask(GetHistories(ids)), self._store.ask(GetStates(ids))
        except StoreError as error:  # not now: it is tried once more, and asked again
            for place in places:
                outcomes[place] = error
            return
        for place, history, state in zip(places, histories, states, strict=True):
            if (outcome := _earlier(settled[place], history, state)) is not None:
                outcomes[place] = outcome


def _earlier(lease: Lease, history: Sequence[Attempt], state: State | None) -> bool | State | None:
    """Return what an earlier try came to, as the store has it by now; None if the lease was lost indeed."""
    ended = next((one.outcome for one in history if one.claim == lease.job.claims), None)
    if ended is not _ENDS[type(lease.ending)]:
        return None
    if ended is not Outcome.FAILED:
        return True
    return State.DEAD if state is State.DEAD else State.DELAYED


def _moves(lease: Lease) -> list[Edit | Cancel]:
    """Return what is to follow the end of a claim, in the same transaction: another due time, its end, or nothing."""
    move = moved(lease.job, lease.error) if type(lease.ending) is Release and lease.handled else None
    return [] if move is None else [move]


def _given_back(lease: Lease) -> JobGivenBack | JobSkipped:
    """Return what there is to tell of a job that was given back: in how many seconds it is due again, if not before."""
    move = next(iter(_moves(lease)), None)
    if isinstance(move, Cancel):
        return JobSkipped(lease.job, str(lease.error))
    return JobGivenBack(lease.job, None if move is None else (move.delay or 0) / 1000)
