"""How claims end, in this worker and then in the store, also where the store's answer was lost.

The worker sends an end again if the store's answer was lost. The store refuses it if the first try was stored, as the
claim is over. So the worker looks up the outcome of the first try. Otherwise it would take the refusal for a lost
lease, and would not report that the job is done, or dead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from .._errors import StoreError
from ..events import Events, JobEnded, LeaseLost
from ..execution import Ended, event_of, settlement
from ..execution.ticks import Behind, waking
from ..jobs.commands import Ack, Cancel, Command, Edit, Expired, Nack, Release
from ..jobs.handler import moved
from ..jobs.job import Attempt, Outcome, State
from ..jobs.queries import GetHistories, GetStates
from ..jobs.schedule import OVERLAP
from ..stores.contract import Store
from ..stores.notifier import Notifier
from .deaths import Deaths
from .leases import Lease, Leases

_DONE: Final = (Outcome.DONE, State.DONE)
_new: Final = tuple.__new__  # for named tuples: saves the call of their own __new__
_ENOUGH: Final = 500  # ends of handlers that are worth a commit, even if more are to come
SOON: Final = 0.01
"""Seconds that the end of a handler may wait for the dispatcher's next work, to share its transaction."""
_TOO_LATE: Final = 1.01 * SOON  # with room for rounding: a dispatcher that sleeps for SOON is in time
_ENDS: Final[dict[type, Outcome]] = {Ack: Outcome.DONE, Nack: Outcome.FAILED, Release: Outcome.RELEASED}


class Completer:
    """The ends of handlers, kept until the store has them. Any thread calls `done`; the dispatcher calls the rest.

    Handlers may end after the dispatcher has gone. Then each end goes to the store in a thread of its own.
    """

    def __init__(self, store: Store, notifier: Notifier, events: Events, dead: Deaths | None = None) -> None:
        self._store = store
        self._notifier = notifier
        self._events = events
        self._dead = dead
        self.leases = Leases()
        """The claims that are not settled."""
        self._finished: deque[Lease] = deque()
        self._unsettled: list[Lease] = []  # claims that have ended, unknown to the store
        self._uncertain: set[Lease] = set()  # claims whose ends the store may know
        self._looks: list[Lease] = []  # settled claims of ticks, whose ends or waits may let another tick run
        self._moves = 0  # commands of the last batch that move or cancel jobs after ends
        self._wakes_at = 0.0  # when the dispatcher ends its sleep by itself
        self.asleep = False
        """Whether the dispatcher sleeps, and no end has woken it."""
        self._urgent = False  # whether other jobs or clients wait for an end that came since the last step
        self.alone = False
        """Whether the dispatcher has gone."""
        self._settling = threading.Lock()  # held while ends go to the store without the dispatcher
        self.waiters: Mapping[str, Sequence[str]] = {}
        """By topic, the clients that wait for the ends of its jobs; mostly none."""

    def __len__(self) -> int:
        return len(self._unsettled) + len(self._finished)

    @property
    def busy(self) -> bool:
        """Whether there are ends that the store does not have, or ticks that these may have let run."""
        return bool(len(self) or self._looks)

    @property
    def settled(self) -> bool:
        """Whether the store has answered for all ends that it was sent, so that the counts of ends are right."""
        return not self._unsettled

    # ---- from the pools ---------------------------------------------------------------------------------------------

    def done(self, lease: Lease) -> None:
        """Take in a job that left its pool. Any thread may call this."""
        job, topic = lease.job, lease.topic
        if lease.handled and lease.error is None and lease.result is None:
            lease.ending = Ack(job.id, job.claims)
        elif lease.handled:
            ended = Ended(lease.error, lease.result)
            lease.ending, lease.error = settlement(self._store, topic.handler, job, ended)
        else:
            lease.ending = Release(job.id, job.claims)
        if job.key is not None or topic.limits is not None or topic.places is not None or self.waiters:
            self._urgent = True
        self._finished.append(lease)
        if self.alone:  # after the append: `leave` settles the ends that came before it was set
            try:
                threading.Thread(target=self._settle_alone, name="pywheel-ends", daemon=True).start()
            except RuntimeError:  # the system has no thread left
                self._settle_alone()
        elif self.asleep and self._due(lease.ended):
            self.asleep = False
            self._notifier.wake()

    def _due(self, now: float) -> bool:
        """Whether to settle ends now. If not, they go with the dispatcher's next work."""
        finished = self._finished
        return self._urgent or len(finished) >= _ENOUGH or self._wakes_at - now > _TOO_LATE

    def due(self, wakes_at: float, now: float) -> bool:
        """Whether to settle ends now, although the dispatcher's other work is due at `wakes_at` only."""
        self._wakes_at = wakes_at
        return bool(self._looks or (self._finished and self._due(now)))

    @contextmanager
    def wakes(self, timeout: float, now: float) -> Iterator[float]:
        """Let ends of handlers wake the dispatcher within this context; give the seconds that it may sleep."""
        self.asleep = True
        try:
            yield 0.0 if self.due(now + timeout, now) else timeout  # an end may have come before the flag was up
        finally:
            self.asleep = False

    # ---- without the dispatcher -------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Take in that the dispatcher goes after its last step."""
        self.alone = True
        self._settle_alone()

    def _settle_alone(self) -> None:
        with self._settling:
            while self._finished or self._looks:  # else another thread took the end along
                commands = self.commands(self._store.clock.time(), len(self))
                try:
                    outcomes = self._store.apply(commands)
                except StoreError:
                    self.failed()
                    return
                self.learn(iter(outcomes))

    # ---- to the store -----------------------------------------------------------------------------------------------

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Give claims back, unspent, at the next step."""
        for lease in leases:
            lease.ending, lease.handled = Release(lease.job.id, lease.job.claims), False
            lease.topic.done += 1
            self._unsettled.append(lease)

    def commands(self, now: float, most: int) -> list[Command[Any]]:
        """Return the commands that settle ended jobs; pass their outcomes to `learn`."""
        finished, unsettled = self._finished, self._unsettled
        self._urgent = False
        fresh = [finished.popleft() for _ in range(min(len(finished), most - len(unsettled)))]
        if fresh:
            topics = {lease.topic for lease in fresh}
            for topic in topics:
                topic.left(fresh if len(topics) == 1 else [lease for lease in fresh if lease.topic is topic], now)
            unsettled += fresh
        moves = [move for lease in unsettled if type(lease.ending) is Release and (move := _move(lease)) is not None]
        looks, self._looks = self._looks, []
        for lease in looks:
            if woken := waking(self._store, lease.job, ended=_ends(lease)):
                moves += woken
                self._looks.append(lease)  # until that is stored
        self._moves = len(moves)
        return [*[lease.ending for lease in unsettled], *moves]  # type: ignore[list-item]  # each has one by now

    def learn(self, outcomes: Iterator[Any]) -> None:
        """Take in the outcomes of `commands`."""
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
            if outcome is True and type(lease.ending) is Ack:  # most of them
                if telling:
                    seconds = lease.ended - (lease.started or lease.ended)
                    done.append(_new(JobEnded, (lease.job, *_DONE, seconds, None)))
            elif isinstance(outcome, StoreError):  # one of several stores is away: send it again later
                self._unsettled.append(lease)
                self._uncertain.add(lease)
            else:
                self._tell(lease, outcome)
        if self._uncertain:
            unsettled = [lease for lease in unsettled if lease not in self._uncertain]
        self.leases.settle(unsettled)
        self._looks = [lease for lease in unsettled if lease.job.headers and _may_wake(lease)]
        for _ in islice(outcomes, self._moves):  # a job is due later or sooner now, or was changed by another command
            pass
        if done:
            self._events.emit_many(done)

    def failed(self) -> None:
        """Take in that the store did not answer: the ends may be stored, and are sent again."""
        self._uncertain.update(self._unsettled)

    def _tell(self, lease: Lease, outcome: Any) -> None:
        """Report an end that was no success, and correct the counts: each job that leaves a pool counts as done."""
        lease.topic.done -= 1
        if outcome in (False, None):
            self._events.emit(LeaseLost(lease.job))
            return
        command, seconds = lease.ending, lease.ended - (lease.started or lease.ended)
        assert command is not None
        self._events.emit(event_of(lease.job, command, _move(lease), outcome, seconds, lease.error))
        if type(command) is Nack:
            lease.topic.failed += 1
            lease.topic.dead += outcome is State.DEAD
            if outcome is State.DEAD and self._dead is not None:
                self._dead(lease.job, command.error)

    def expired(self, outcome: Expired | StoreError) -> None:
        """Wake the clients that wait for ends, and report dead jobs: the end of a lease may end its job."""
        self._ring(self.waiters)
        if isinstance(outcome, Expired) and outcome.dead and self._dead is not None:
            self._dead.lost(outcome.dead)

    def _ring(self, topics: Iterable[str]) -> None:
        """Wake the clients that wait for ends in these topics, after the ends are stored. They look which jobs."""
        if self.waiters:
            for name in {name for topic in topics for name in self.waiters.get(topic, ())}:
                self._notifier.ring(name)

    def renewed(self, lease: Lease, outcome: bool | StoreError, asked: float) -> None:
        """Take in whether the store has renewed a lease. If not, the claim is over, and the job is another worker's.

        The loss is told at the handler's end, which the store refuses: to listeners it is the end of the claim.
        """
        if not outcome:
            self.leases.settle([lease])
        elif not isinstance(outcome, StoreError):
            self.leases.begin(lease, asked)

    # ---- where the answer was lost ----------------------------------------------------------------------------------

    def _resolve(self, settled: Sequence[Lease], outcomes: list[Any]) -> None:
        """Replace refusals by the outcome of an earlier try whose answer was lost."""
        uncertain, self._uncertain = self._uncertain, set()
        places = [n for n, lease in enumerate(settled) if lease in uncertain and outcomes[n] in (False, None)]
        if not places:
            return
        ids = [settled[place].job.id for place in places]
        try:
            histories, states = self._store.ask(GetHistories(ids)), self._store.ask(GetStates(ids))
        except StoreError as error:  # the next step sends the ends again, and asks again
            for place in places:
                outcomes[place] = error
            return
        for place, history, state in zip(places, histories, states, strict=True):
            if (outcome := _earlier(settled[place], history, state)) is not None:
                outcomes[place] = outcome


def _earlier(lease: Lease, history: Sequence[Attempt], state: State | None) -> bool | State | None:
    """Return the outcome of an earlier try, from the job's history and state; None if the lease was really lost."""
    ended = next((one.outcome for one in history if one.claim == lease.job.claims), None)
    if ended is not _ENDS[type(lease.ending)]:
        return None
    if ended is not Outcome.FAILED:
        return True
    return State.DEAD if state is State.DEAD else State.DELAYED


def _move(lease: Lease) -> Edit | Cancel | None:
    """Return the command that follows a release in the same transaction: a new due time, a cancel, or none."""
    return moved(lease.job, lease.error) if type(lease.ending) is Release and lease.handled else None


def _ends(lease: Lease) -> bool:
    """Whether a job has ended or failed, or is cancelled as it was skipped, and was not just given back."""
    return type(lease.ending) is not Release or isinstance(_move(lease), Cancel)


def _may_wake(lease: Lease) -> bool:
    """Whether a job is a tick whose end or wait, now that it is stored, may let another tick run."""
    return OVERLAP in lease.job.headers and (_ends(lease) or isinstance(lease.error, Behind))
