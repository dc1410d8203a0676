"""A store in a relational database on a server: what does not depend on which."""

from __future__ import annotations

import atexit
import copy
import os
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self

from ..._errors import StoreAway, StoreBusy, StoreClosed, StoreError
from ...clock import Clock
from ...jobs.commands import Command, Expire, Put
from ...jobs.job import NewJob
from ..checks import sound
from ..contract import Durability, Locked, Store, pauses
from ..group_commit import Commit, GroupCommit
from ..notifier import Member, Notifier, workers
from ..server_clock import ServerClock
from ..within import CommitWatch, taken
from .connections import CLOSED, leave_alone
from .ids import Ids
from .lanes import Held, may_wait
from .leases import Leases
from .notifier import RelationalNotifier
from .part import Told
from .presence import BUSY, Presence, WorkerQueries
from .session import Conflict, Session, Unknown
from .topics import Topics
from .transaction import Done, transact

__all__ = ["RelationalStore"]

_TRIES: Final = 12
_SPARED: Final = (2.0, 0.1)  # on the second connection, where it is handed on, and on the third, where it waits
_FOLD: Final = 500  # rows of counts after which they are summed up
_FIXED: Final = (
    "connection=: others changed the same since this transaction took its snapshot, and it cannot see that: begin it "
    "anew, or let it be READ COMMITTED"
)
_FAR: Final = 2_000  # ms by which the server's clock may be off what is known of it here


class RelationalStore(Store):
    """Jobs in narrow tables that they move through. Threads share a transaction; its second trip commits."""

    durability: Durability = "fsync"
    _spared = 0.0
    """For so many seconds what met a lock is not tried again on this connection: others come behind it."""

    def __init__(self, url: str, clock: Clock | None, seconds: float) -> None:
        self.url = url
        self.clock = clock or ServerClock()
        self._told_now = clock  # what a test passes; else the server's own clock counts
        self._seconds = seconds
        self._presence = Presence(self._workers(), self.clock)
        self._watch = CommitWatch(self._present)
        self.lenders: weakref.WeakSet[Any] = weakref.WeakSet()
        """Connections of callers that were found to lead to this database."""
        self._closed = False
        self._counted = 0
        self.leases = Leases()
        self._held = Held()
        self._ids = Ids(self._draw_ids)
        self._own_connection()
        self._patient, self._waiting = self._lane(_SPARED[0]), self._lane(_SPARED[1])
        self._lanes: list[RelationalStore] = [self, self._patient, self._waiting]
        _STORES.add(self)

    def _lane(self, spared: float) -> Self:
        """Return this store with a connection of its own that writes, for commands that may wait for a lock."""
        lane = copy.copy(self)
        lane._spared = spared
        lane._own_connection()
        return lane

    def _own_connection(self) -> None:
        """Begin with a connection that writes, and all that belongs to whoever commits on it."""
        self._writer: Any = None
        self._topics = Topics()
        self._group_commit = GroupCommit(self._transact, self._separate, self._seconds)

    # ---- what a database does ---------------------------------------------------------------------------------------

    @abstractmethod
    def _workers(self) -> WorkerQueries:
        """Return what it does for workers."""

    @abstractmethod
    def _session(self, until: float) -> Session:
        """Return a session for one transaction."""

    @abstractmethod
    def _session_within(self, connection: object) -> Session:
        """Return a session that works in a caller's transaction, and leaves it open."""

    @abstractmethod
    def _present(self, ids: Sequence[int]) -> set[int]:
        """Return those of some ids of which there are jobs."""

    @abstractmethod
    def _put_direct(
        self, jobs: Sequence[NewJob], ids: Sequence[int], near: int, until: float
    ) -> tuple[Collection[int] | None, Sequence[Sequence[Any]] | None]:
        """Store new jobs of known topics by one statement, but for those whose key is taken.

        Return the ids of those that were stored, or None for all, and the workers if one looks as far as `near`; None
        if that is still to be read.
        """

    @abstractmethod
    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""

    @abstractmethod
    def _draw_ids(self, count: int) -> Sequence[int]:
        """Return so many new ids."""

    @abstractmethod
    def _fold(self) -> None:
        """Sum up rows of counts."""

    @abstractmethod
    def _read_lease(self) -> int | None:
        """Return the earliest end of a lease."""

    @abstractmethod
    def _new_notifier(self, name: str) -> RelationalNotifier:
        """Return a notifier that has not begun."""

    @abstractmethod
    def _separate(self, error: BaseException) -> bool:
        """Whether one caller's commands may be the reason of an error."""

    @abstractmethod
    def _met_lock(self, error: StoreError) -> bool:
        """Return whether an error says that another transaction holds a lock."""

    @abstractmethod
    def _add_topics(self, names: Sequence[str], until: float) -> Mapping[str, int]:
        """Return the numbers of new topics, once they are committed."""

    def _take_new_name(self) -> None:
        """Be somebody else to the database, in a forked child."""

    @abstractmethod
    def _end_writing(self) -> None:
        """Close the connection that writes."""

    @abstractmethod
    def _shut(self) -> None:
        """Close all other connections."""

    @abstractmethod
    def _leave(self) -> None:
        """Leave the parent's connections alone, in a forked child."""

    # ---- writing ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """The time of a test's clock, None where the server's counts."""
        return None if self._told_now is None else self._told_now.wall()

    def _heard(self, now: int, sent: float, received: float) -> None:
        """Take in what an answer says of the server's clock, in ms."""
        if isinstance(self.clock, ServerClock):
            self.clock.heard((now + 0.5) / 1_000, sent, received)

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that come meanwhile share one transaction."""
        self._open()
        if not commands:
            return []
        return sound(commands, self._apply)

    def _apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        lane = self._patient if may_wait(commands, self._topics.numbers) else self
        try:
            outcomes = lane._group_commit.apply(commands)
        except Locked:
            outcomes, lane = self._wait(commands), self._waiting
        if lane is not self:
            outcomes = self._waited(commands, outcomes)
            self._learn(commands, outcomes, lane._topics.numbers)
        return outcomes

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:
        """Apply commands of callers who know nothing of each other. See the contract."""
        self._open()
        return sound(commands, partial(self._apply_each, again=again))

    def _apply_each(self, commands: Sequence[Command[Any]], *, again: bool) -> list[Any]:
        lanes: dict[RelationalStore, list[int]] = {}
        for place, command in enumerate(commands):
            waits = may_wait((command,), self._topics.numbers)
            lanes.setdefault(self._waiting if again else self._patient if waits else self, []).append(place)
        outcomes: list[Any] = [None] * len(commands)
        for lane, places in lanes.items():
            found = lane._tried([commands[place] for place in places])
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
            if lane is not self:
                self._learn(commands, outcomes, lane._topics.numbers)
        return outcomes

    def _tried(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Return what becomes of commands on this connection."""
        try:
            return self._group_commit.apply(commands)
        except (Locked, StoreError) as error:
            if len(commands) == 1 or isinstance(error, StoreError):
                return [error] * len(commands)
        return [outcome for command in commands for outcome in self._tried((command,))]

    def _wait(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands that met a lock, again and again. StoreBusy if it is held beyond the time limit."""
        until = time.monotonic() + self._seconds
        for pause in pauses():
            try:
                outcomes = self._waiting._group_commit.apply(commands)
            except Locked as error:
                locked = error
            else:
                if len(commands) > 1 or not isinstance(outcomes[0], Locked):
                    return outcomes
                locked = outcomes[0]
            if time.monotonic() >= until:
                raise StoreBusy(str(locked)) from locked
            time.sleep(pause)
        raise AssertionError

    def _waited(self, commands: Sequence[Command[Any]], outcomes: list[Any]) -> list[Any]:
        """Return the outcomes once those puts among others that met a lock have waited for it."""
        for place, outcome in enumerate(outcomes):
            if isinstance(outcome, Locked):
                try:
                    [outcomes[place]] = self._wait([commands[place]])
                except StoreError as error:  # the others have been stored
                    outcomes[place] = error
        if len(outcomes) == 1 and isinstance(outcomes[0], StoreBusy):
            raise outcomes[0]
        return outcomes

    def _learn(self, commands: Sequence[Command[Any]], outcomes: Sequence[Any], numbers: Mapping[str, int]) -> None:
        """Take in the topics of puts that were stored. That of a put that was not may yet be rolled back."""
        for command, outcome in zip(commands, outcomes, strict=True):
            if type(command) is Put and type(outcome) is list:
                self._topics.learn({job.topic: numbers[job.topic] for job in command.jobs if job.topic in numbers})

    def _transact(self, commands: Sequence[Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        self._open()
        if self._spared and self._held.lately(commands, self._spared):
            raise Locked(self._seconds)
        jobs = self._direct(commands)
        try:
            done = self._decide(commands, until, commit) if jobs is None else self._put(commands, jobs, until, commit)
        except StoreError as error:
            if not self._met_lock(error):
                raise
            if commit is None:  # else it is not known whose commands
                self._held.met(commands)
            raise Locked(self._seconds) from error
        self._held.free(commands, done)
        return done

    def _decide(self, commands: Sequence[Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        """Apply commands in a transaction of two trips. Once more if its connection broke, and it did not happen."""
        broke = False
        for attempt in range(_TRIES):
            session = self._session(until)
            try:
                done = transact(session, commands, self._topics, self._ids.take, _noting(commit))
            except Conflict as error:
                self._topics.forget()  # some may have been rolled back
                if attempt:
                    self._ids.forget()
                if self._met_lock(error) or attempt + 1 == _TRIES or time.monotonic() >= until:
                    raise
                time.sleep(0.002 * attempt)
                continue
            except StoreAway as error:
                self._topics.forget()
                if broke or isinstance(error, Unknown) or time.monotonic() >= until:
                    raise
                broke = True
                continue
            except BaseException:
                self._topics.forget()
                raise
            finally:
                session.abandon()
            break
        self._leased(commands, done)
        self._presence.tell(done.told, done.near)
        self._count(done.counted)
        return done.outcomes

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        self._open()
        [outcome] = sound([put], lambda _: [self._put_within(connection, put)])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _put_within(self, connection: object, put: Put) -> Any:
        ids = self._group_commit.alone(self._ids.many, len(put.jobs))
        self._know_topics({job.topic for job in put.jobs})
        session = self._session_within(connection)
        topics = Topics()  # what is new is not committed yet
        topics.learn(self._topics.numbers)
        for attempt in range(_TRIES):
            try:
                done = transact(session, [put], topics, lambda _: iter(ids), _noting(None))
            except Conflict as conflict:
                session.abandon()
                if session.fixed():
                    refused = taken(put, self.get)
                    if refused is not None:
                        return refused
                    if attempt:
                        raise StoreBusy(_FIXED) from conflict
                if attempt + 1 == _TRIES:
                    raise
                continue
            finally:
                session.abandon()
            break
        for id in done.told.jobs:
            told = Told()
            told.jobs = {id: done.told.jobs[id]}
            self._watch.add(id, partial(self._tell_late, told))
        self._counted += done.counted
        [outcome] = done.outcomes
        return outcome

    def _know_topics(self, names: Collection[str]) -> None:
        """Add topics that are new, and commit: in a caller's transaction they would hold up others for as long."""
        for learn in (self.known_topics, self._patient._topics_added):
            if missing := sorted(name for name in names if self._topics.number(name) is None):
                self._topics.learn(learn(missing))

    def _topics_added(self, names: Sequence[str]) -> Mapping[str, int]:
        until = time.monotonic() + self._seconds
        return self._group_commit.alone(self._add_topics, names, until)

    def _tell_late(self, told: Told) -> None:
        """Tell of jobs that were committed by others."""
        due = min(due for _, due in told.jobs.values())
        self._presence.tell(told, self._near(due))

    def _near(self, due: int) -> Sequence[Sequence[Any]]:
        """Return the rows of the workers, if one of them looks as far as this. Raises nothing."""
        with suppress(StoreError):  # what is to be told of is stored
            return self._presence.queries.near(due)
        return ()

    def _leased(self, commands: Sequence[Command[Any]], done: Done) -> None:
        """Note the leases that a transaction gave, and what it found of all others."""
        for command, outcome in zip(commands, done.outcomes, strict=True):
            if type(command) is Expire:
                self.leases.found(outcome.next_lease, time.monotonic())
        if done.leases:
            self._presence.busy_until = self.clock.time() + BUSY
            self.leases.gave(min(done.leases))

    def _direct(self, commands: Sequence[Command[Any]]) -> list[NewJob] | None:
        """Return the jobs if all that is asked for are puts that one statement can do: new ones, of known topics.

        A command with a key has one job: of several, one statement could not store all or none.
        """
        jobs: list[NewJob] = []
        numbers = self._topics.numbers
        for command in commands:
            if type(command) is not Put or command.nonce is not None:
                return None
            for job in command.jobs:
                if job.topic not in numbers or job.priority:
                    return None
                if job.key is not None and (len(command.jobs) > 1 or _looks(job)):
                    return None
            jobs += command.jobs
        return jobs or None

    def _put(self, commands: Sequence[Any], jobs: list[NewJob], until: float, commit: Commit | None) -> list[Any]:
        """Store new jobs by one statement; those whose key is taken are decided in a transaction, one by one."""
        now = self.now
        guess = self.clock.wall() - _FAR if now is None else now
        dues = [job.due if job.delay is None else guess + job.delay for job in jobs]
        ids, outcomes, stored, near = self._stored(commands, jobs, min(dues), until, commit)
        if near or near is None:
            told = Told()
            told.jobs = {id: (job.topic, due) for id, job, due in zip(ids, jobs, dues, strict=True)}
            if near is None:
                self._presence.tell_later(told.jobs)
            else:
                self._presence.tell(told, near)
        self._count(1)
        if stored is not None and len(stored) < len(ids):
            for place, command in enumerate(commands):
                if outcomes[place] and outcomes[place][0] not in stored:
                    outcomes[place] = self._put_alone(command, until)
        if commit is not None:
            commit.stored = True
        return outcomes

    def _stored(
        self, commands: Sequence[Any], jobs: list[NewJob], due: int, until: float, commit: Commit | None
    ) -> tuple[list[int], list[Any], Collection[int] | None, Sequence[Sequence[Any]] | None]:
        """Store new jobs, under other ids if somebody has these; return their ids, the outcomes, and what was said."""
        for attempt in range(_TRIES):
            ids = self._ids.many(len(jobs))
            taken = iter(ids)
            outcomes: list[Any] = [[next(taken) for _ in command.jobs] for command in commands]
            if commit is not None:
                commit.outcomes, commit.stored = outcomes, None
            try:
                return ids, outcomes, *self._put_direct(jobs, ids, due, until)
            except StoreError as error:
                if commit is not None and not isinstance(error, Unknown):
                    commit.stored = False
                again = isinstance(error, Conflict) and not self._met_lock(error)
                if not again or attempt + 1 == _TRIES or time.monotonic() >= until:
                    raise
                self._ids.forget()
        raise AssertionError

    def _put_alone(self, command: Put, until: float) -> Any:
        try:
            [outcome] = self._decide([command], until, None)
        except StoreError as error:  # the others have been stored
            if not self._met_lock(error):
                return error
            self._held.met((command,))
            return Locked(self._seconds)
        return outcome

    def _count(self, rows: int) -> None:
        self._counted += rows
        if self._counted >= _FOLD:
            self._counted = 0
            with suppress(StoreError):
                self._fold()

    # ---- workers ----------------------------------------------------------------------------------------------------

    def next_lease(self) -> int | None:
        """Return when some lease may be over at the earliest, as it was read lately."""
        self._open()
        return self.leases.first(self._read_lease)

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        notifier = self._new_notifier(name)
        notifier.begin()
        return notifier

    def workers(self) -> list[Member]:
        """Return all workers that have announced topics, by name. One query."""
        self._open()
        self._presence.stale = True
        return workers(self._presence.members())

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        self._open()
        return self._presence.quiet(topic, seconds)

    # ---- life -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed(CLOSED)

    def close(self) -> None:
        """Close all connections, after the transaction under way. Idempotent; all else raises StoreClosed then."""
        if self._closed:
            return
        self._watch.close()
        self._presence.close()
        self._closed = True
        for lane in self._lanes:
            lane._closed = True
            with suppress(StoreBusy):
                lane._group_commit.alone(lane._end_writing)
        self._shut()

    def _after_fork(self) -> None:
        self._watch, ids = CommitWatch(self._present), Ids(self._draw_ids)  # those that are left are the parent's
        for lane in self._lanes:
            lane._group_commit.renew()
            lane._ids = ids
            leave_alone(lane._writer)
            lane._writer = None
            lane._take_new_name()
        self._leave()
        self._presence.after_fork(leave=RelationalNotifier.abandoned)


def _noting(commit: Commit | None) -> Callable[[list[Any]], None]:
    """Return what notes the outcomes for several callers, before it is known whether the commit succeeds."""

    def note(outcomes: list[Any]) -> None:
        if commit is not None:
            commit.outcomes, commit.stored = outcomes, None

    return note


_STORES: Final[weakref.WeakSet[RelationalStore]] = weakref.WeakSet()


@atexit.register
def _tell_the_last() -> None:
    """Tell the workers of the last puts of a program that ends without closing its stores."""
    for store in list(_STORES):
        store._watch.flush()
        store._presence.flush()


def _after_fork_in_child() -> None:
    for store in list(_STORES):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _looks(job: NewJob) -> bool:
    """Whether what becomes of a job depends on those that have its key, or had it."""
    return job.replace or job.parent is not None or job.dedupe_for is not None
