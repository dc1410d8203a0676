"""A store in a relational database on a server: what does not depend on which."""

from __future__ import annotations

import atexit
import copy
import os
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, Final, Self, TypeVar

from ..._errors import StoreAway, StoreBusy, StoreClosed, StoreError
from ...clock import Clock
from ...jobs.commands import Command, Expire, Put
from ...jobs.queries import GetJob
from ..address import Address
from ..checks import sound
from ..contract import Durability, Locked, pauses
from ..group_commit import Commit, GroupCommit
from ..notifier import Member, Notifier, workers
from ..server import Outage, ServerClock
from ..sql import read
from ..sql.dialect import Dialect
from ..sql.engine import apply
from ..sql.put import NOT_FREE
from ..sql.statement import Batch, Insert, Last, NewNames, NewPriorities, Steps
from ..sql.store import SqlStore
from ..sql.transaction import Changes, Names, Taken, Transaction
from ..verify import Finding
from ..within import CommitWatch, driver_connection, taken
from .connections import CLOSED, Connections, leave_alone
from .ids import Ids
from .lanes import Held, may_wait
from .leases import Leases
from .notifier import RelationalNotifier
from .presence import BUSY, Presence, Told, WorkerQueries
from .session import LATER, Conflict, OwnSession, SessionWithin, Unknown, drive

__all__ = ["RelationalStore"]

_R = TypeVar("_R")

_SECONDS: Final = 10.0
_MOST: Final = 8  # connections that read
_PATIENCE: Final = 3_600.0  # seconds that a look at all jobs may take
_TRIES: Final = 12
_NEVER: Final = 2**63 - 1
_GATHER: Final = 0.5  # of a commit's time, for which one waits for more to share it
_SPARED: Final = (2.0, 0.1)  # where a lock is handed on, and where it is waited for
_FOLD: Final = 500  # rows of counts after which they are summed up
_FIXED: Final = (
    "connection=: others changed the same since this transaction took its snapshot, and it cannot see that: begin it "
    "anew, or let it be READ COMMITTED"
)


class RelationalStore(SqlStore):
    """The tables of the engine. Threads share a transaction, whose last trip commits."""

    durability: Durability = "fsync"
    address: Address
    dialect: Dialect
    _eager = True
    """Whether keys are taken without a look, where the database has one statement for that."""
    _spared = 0.0
    """For so many seconds what met a lock is not tried again on this connection: others come behind it."""

    def __init__(self, clock: Clock | None) -> None:
        self.url = self.shown
        self.clock = clock or ServerClock()
        self._told_now = clock  # what a test passes; else the server's own clock counts
        self._presence = Presence(self._workers_queries(), self.clock)
        self._watch = CommitWatch(self._present)
        self.lenders: weakref.WeakSet[Any] = weakref.WeakSet()
        """Connections of callers that were found to lead to this database."""
        self._closed = False
        self._counted = 0
        self.leases = Leases()
        self._held = Held()
        self._ids = Ids(self._draw_ids)
        self._known, self._known_workers = Names("topic"), Names("worker")
        """Names that are committed: all connections share them."""
        self._own_connection()
        self._steps = self._lane(0.0)
        self._patient, self._waiting = self._lane(_SPARED[0]), self._lane(_SPARED[1])
        self._lanes: list[RelationalStore] = [self, self._steps, self._patient, self._waiting]
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
        self._group_commit = GroupCommit(self._transact, _separate, self._seconds, _GATHER)

    def _reach(self, address: Address, known: Mapping[str, Any]) -> None:
        """Take in where the server is, and the options that all have. No connection yet."""
        self.address = address
        self.shown = address.shown
        self.notifies: bool = known.get("notify", True)
        self._prefix: str = known.get("prefix", "pywheel_")
        self._seconds: float = known.get("timeout", _SECONDS)
        self._outage = Outage(address.shown)
        self._connections: Connections[Any] = Connections(self._connect, _MOST, self._seconds)

    # ---- what a database does ---------------------------------------------------------------------------------------

    own: type[OwnSession]
    """A transaction of the store's own."""
    within: type[SessionWithin]
    """A put in a caller's transaction."""
    drivers: tuple[str, ...]
    """The modules of callers' connections."""
    database: str
    """The name of the database, as the server says it."""
    broken: tuple[type[StoreError], ...] = (StoreAway,)
    """What is raised where a connection was found closed: a read is tried once more."""

    @abstractmethod
    def _workers_queries(self) -> WorkerQueries:
        """Return what it does for workers."""

    @abstractmethod
    def _connect(self, until: float) -> Any:
        """Return a new connection."""

    @abstractmethod
    def _begin_writing(self, connection: Any) -> None:
        """Let a new connection be the one that writes."""

    @abstractmethod
    def _translating(self) -> AbstractContextManager[None]:
        """Raise what the server says as one of our errors."""

    @abstractmethod
    def _read(self, name: str, /, **values: Any) -> Sequence[Any]:
        """Return the rows of a statement that is there by name."""

    @abstractmethod
    def commit_alone(self, one: NewNames | NewPriorities) -> None:
        """Store names or priorities, and commit. StoreBusy: others hold what this waits for beyond the time limit."""

    @abstractmethod
    def _draw_ids(self, count: int) -> Sequence[int]:
        """Return so many new ids."""

    @abstractmethod
    def _fold(self) -> None:
        """Sum up rows of counts."""

    @abstractmethod
    def _new_notifier(self, name: str) -> RelationalNotifier:
        """Return a notifier that has not begun."""

    @abstractmethod
    def _met_lock(self, error: StoreError) -> bool:
        """Return whether an error says that another transaction holds a lock."""

    @abstractmethod
    def _verified(self, connection: Any, *, repair: bool) -> list[Finding]:
        """Return what is wrong with the tables, and what of it was mended."""

    def _take_new_name(self) -> None:
        """Be somebody else to the database, in a forked child."""

    # ---- connections ------------------------------------------------------------------------------------------------

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what the server says as one of our errors."""
        try:
            with self._outage.noted(), self._translating():
                yield
        except (StoreAway, AttributeError):  # PyMySQL looks for the socket that another thread has closed
            if self._connections.closed:
                raise StoreClosed(CLOSED) from None
            raise

    @contextmanager
    def _use(self, until: float | None = None) -> Iterator[Any]:
        with self.translated(), self._connections.use(until) as connection:
            yield connection

    def _reading(self, read: Callable[[Any], _R], until: float | None = None) -> _R:
        """Return what is read on a connection; once more if it was found closed."""
        self._open()
        until = until or time.monotonic() + self._seconds
        for attempt in (1, 2):
            try:
                with self._use(until) as connection:
                    return read(connection)
            except self.broken:
                self._connections.drop_idle()
                if attempt == 2 or time.monotonic() >= until:
                    raise
        raise AssertionError

    def writing(self, until: float) -> Any:
        """Return the connection that writes: only whoever commits for all uses it."""
        connection = self._writer
        if connection is not None and not connection.ready:  # it broke, or an interrupt came in the middle of its use
            self._writer = None
            connection.end()
            connection = None
        if connection is None:
            connection = self._connect(until)
            with self.translated():
                self._begin_writing(connection)
            self._writer = connection
        connection.until = until
        return connection

    def _hear(self) -> None:
        """Learn the time."""
        if self.now is None:
            sent = time.monotonic()
            [[now]] = self._read("now")
            self._heard(now, sent, time.monotonic())

    def _read_lease(self) -> int | None:
        """Return the earliest end of a lease."""
        [[lease]] = self._read("next_lease")
        return None if lease is None else int(lease)

    def _stirred(self) -> int:
        """Return the number of the last pause or resumption."""
        [[stirred]] = self._read("stirred")
        return int(stirred)

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
        lane = self._lane_of(commands)
        try:
            outcomes = lane._group_commit.apply(commands)
        except Locked:
            outcomes = self._wait(commands)
        return self._waited(commands, outcomes)

    def _lane_of(self, commands: Sequence[Command[Any]]) -> RelationalStore:
        """Return on which connection to try commands first."""
        if may_wait(commands, self._known.numbers):
            return self._patient
        return self if all(type(command) is Put for command in commands) else self._steps

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:
        """Apply commands of callers who know nothing of each other. See the contract."""
        self._open()
        return sound(commands, partial(self._apply_each, again=again))

    def _apply_each(self, commands: Sequence[Command[Any]], *, again: bool) -> list[Any]:
        lanes: dict[RelationalStore, list[int]] = {}
        for place, command in enumerate(commands):
            lanes.setdefault(self._waiting if again else self._lane_of((command,)), []).append(place)
        outcomes: list[Any] = [None] * len(commands)
        for lane, places in lanes.items():
            found = lane._tried([commands[place] for place in places])
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
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

    def _transact(self, commands: Sequence[Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        self._open()
        if self._spared and self._held.lately(commands, self._spared):
            raise Locked(self._seconds)
        try:
            outcomes = self._begun_anew(commands, until, commit)
        except StoreError as error:
            if not self._met_lock(error):
                raise
            if commit is None:  # else it is not known whose commands
                self._held.met(commands)
            raise Locked(self._seconds) from error
        self._held.free(commands, outcomes)
        return outcomes

    def _begun_anew(self, commands: Sequence[Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        """Apply commands in a transaction; in another one if others came first, or its connection broke before."""
        broke = False
        for attempt in range(_TRIES):
            session = self.own(self, until)
            try:
                return self._run(session, commands, commit)
            except (Conflict, Taken) as error:
                if attempt:
                    self._ids.forget()
                last = attempt + 1 == _TRIES or time.monotonic() >= until
                if isinstance(error, Taken):
                    if last:
                        raise StoreBusy("others took the same keys all the time: try again") from error
                elif last or self._met_lock(error):
                    raise
                time.sleep(0.002 * attempt)
            except StoreAway as error:
                if broke or isinstance(error, Unknown) or time.monotonic() >= until:
                    raise
                broke = True
            finally:
                session.abandon()
        raise AssertionError

    def _run(self, session: OwnSession, commands: Sequence[Command[Any]], commit: Commit | None) -> list[Any]:
        tx = self._transaction(
            lambda _, count: self._new_ids(count),
            eager=self._eager and all(type(command) is Put and command.nonce is None for command in commands),
        )
        steps = apply(tx, commands)
        try:
            batch = next(steps)
        except StopIteration as end:  # there is nothing to do
            return end.value  # type: ignore[no-any-return]
        outcomes = self._put(session, commands, commit, tx, steps, batch)
        if outcomes is not None:
            return outcomes
        outcomes = drive(session.send, steps, batch)
        count = [one for part in self.dialect.count(tx) for one in part]
        if commit is not None:
            commit.outcomes, commit.stored = outcomes, None
        put = tx.tally.new[0][0] if tx.tally.new else None
        near = session.commit(count, self._near_of(tx.changes), put)
        if commit is not None:
            commit.stored = True
        tx.committed()
        self._tell(commands, outcomes, tx, near)
        if count:
            self._count(1)
        return self._looked_at(commands, outcomes)

    def _looked_at(self, commands: Sequence[Any], outcomes: list[Any]) -> list[Any]:
        """Return the outcomes once those puts whose keys are taken were put by a look."""
        for place, outcome in enumerate(outcomes):
            if outcome is NOT_FREE:
                outcomes[place] = self._put_by_look(commands[place])
        return outcomes

    def _put(
        self,
        session: OwnSession,
        commands: Sequence[Any],
        commit: Commit | None,
        tx: Transaction,
        steps: Steps[list[Any]],
        batch: Batch,
    ) -> list[Any] | None:
        """Store new jobs by one statement, if that is all there is to do; those whose key is taken by a look."""
        alone = isinstance(batch, Last) and len(batch) == 1 and isinstance(batch[0], Insert)
        if not alone or any(type(command) is not Put for command in commands):
            return None
        if commit is not None:
            commit.stored = None
        insert: Insert = batch[0]  # type: ignore[assignment]
        horizon, ids = session.put(insert)
        if ids is None:
            ids = [row[0] for row in insert.rows]
        try:
            steps.send([[(id,) for id in ids]])
        except StopIteration as end:
            outcomes: list[Any] = end.value
        if commit is not None:
            commit.outcomes, commit.stored = outcomes, True
        tx.committed()
        near = self._near_of(tx.changes)
        if horizon == LATER:
            with suppress(StoreError):
                self._presence.tell_later(self._told(tx.changes).jobs)
        elif horizon is not None and near is not None and horizon >= near:
            with suppress(StoreError):  # what is to be told of is stored
                self._tell(commands, outcomes, tx, self._presence.queries.near(near))
        self._count(1)
        return self._looked_at(commands, outcomes)

    def _put_by_look(self, command: Put) -> Any:
        lane = copy.copy(self)
        lane._eager = False
        try:
            [outcome] = lane._begun_anew([command], time.monotonic() + self._seconds, None)
        except StoreError as error:  # the others have been stored
            if not self._met_lock(error):
                return error
            self._held.met((command,))
            return Locked(self._seconds)
        return outcome

    def _transaction(
        self, ids: Callable[[Transaction, int], Steps[Sequence[int]]], *, eager: bool = False
    ) -> Transaction:
        now = self.clock.wall() if self.now is None else self.now
        return Transaction(self.dialect, now, self._known, self._known_workers, ids, eager=eager)

    def _new_ids(self, count: int) -> Steps[Sequence[int]]:
        yield from ()
        return self._ids.many(count)

    @staticmethod
    def _near_of(changes: Changes) -> int | None:
        return min((due for dues in changes.dues.values() for _, due in dues), default=None)

    def _tell(
        self, commands: Sequence[Command[Any]], outcomes: Sequence[Any], tx: Transaction, near: Sequence[Any]
    ) -> None:
        """After the commit: note leases, and tell whom the changes concern."""
        for command, outcome in zip(commands, outcomes, strict=True):
            if type(command) is Expire:
                self.leases.found(outcome.next_lease, time.monotonic())
        if tx.changes.leases < _NEVER:
            self._presence.busy_until = self.clock.time() + BUSY
            self.leases.gave(tx.changes.leases)
        told = self._told(tx.changes)
        if near or told.announced or told.stirred:
            self._presence.tell(told, near)

    def _told(self, changes: Changes) -> Told:
        told = Told()
        names: Mapping[int, str] = self._known.names
        missing = {*changes.dues, *changes.paused} - names.keys()
        if missing:
            names = self._read_steps(read.names, self._known, missing)
        for topic, dues in changes.dues.items():
            for id, due in dues:
                told.changed(id, names[topic], due)
        told.stirred = {names[topic] for topic in changes.paused}
        told.announced = {*changes.announced}
        return told

    # ---- in the caller's transaction --------------------------------------------------------------------------------

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        self._open()
        [outcome] = sound([put], lambda _: [self._put_within(connection, put)])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _put_within(self, connection: object, put: Put) -> Any:
        ids = self._ids.many(len(put.jobs))
        session = self.within(self, driver_connection(connection, self.drivers))

        def given(_: Transaction, count: int) -> Steps[Sequence[int]]:
            yield from ()
            some, ids[:count] = ids[:count], []
            return some

        before = list(ids)
        for attempt in range(_TRIES):
            ids[:] = before
            tx = self._transaction(given)
            try:
                [outcome] = drive(session.send, apply(tx, [put]))
                session.commit([one for part in self.dialect.count(tx) for one in part])
            except (Conflict, Taken) as conflict:
                session.abandon()
                if session.fixed:
                    refused = taken(put, lambda ref: self.ask(GetJob(ref)))
                    if refused is not None:
                        return refused
                    if attempt:
                        raise StoreBusy(_FIXED) from conflict
                if attempt + 1 == _TRIES:
                    raise StoreBusy(str(conflict)) from conflict
                continue
            finally:
                session.abandon()
            break
        tx.committed()  # names are, by another connection
        for id, (topic, due) in self._told(tx.changes).jobs.items():
            told = Told()
            told.changed(id, topic, due)
            self._watch.add(id, partial(self._tell_late, told))
        self._counted += 1
        return outcome

    def _tell_late(self, told: Told) -> None:
        """Tell of jobs that were committed by others."""
        due = min(due for _, due in told.jobs.values())
        with suppress(StoreError):  # what is to be told of is stored
            self._presence.tell(told, self._presence.queries.near(due))

    def _count(self, rows: int) -> None:
        self._counted += rows
        if self._counted >= _FOLD:
            self._counted = 0
            with suppress(StoreError):
                self._fold()

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _first_lease_end(self) -> int | None:
        """Return when some lease may be over at the earliest, as it was read lately."""
        self._open()
        return self.leases.first(self._read_lease)

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        notifier = self._new_notifier(name)
        notifier.begin()
        return notifier

    def _list_workers(self) -> list[Member]:
        """Return all workers that have announced topics, by name. One query."""
        self._open()
        self._presence.stale = True
        return workers(self._presence.members())

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        self._open()
        return self._presence.quiet(topic, seconds)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables. A repair locks what it reads: others wait, and may meet their limit."""
        self._open()
        with self.translated():
            connection = self._connect(time.monotonic() + _PATIENCE)
            try:
                return self._verified(connection, repair=repair)
            finally:
                connection.end()

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
        for lane in self._lanes:
            lane._closed = True
        for lane in self._lanes:
            with suppress(StoreBusy):
                lane._group_commit.alone(lane._end_writing)
        self._connections.close()

    def _end_writing(self) -> None:
        """Close the connection that writes."""
        if self._writer is not None:
            self._writer.end()

    def _after_fork(self) -> None:
        self._watch, ids = CommitWatch(self._present), Ids(self._draw_ids)  # those that are left are the parent's
        for lane in self._lanes:
            lane._group_commit.renew()
            lane._ids = ids
            leave_alone(lane._writer)
            lane._writer = None
            lane._take_new_name()
        self._connections.after_fork()
        self._presence.after_fork(leave=RelationalNotifier.abandoned)


def _separate(error: BaseException) -> bool:
    """Return whether one caller's commands may be the reason of an error."""
    return isinstance(error, Exception) and not isinstance(error, StoreError)


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
