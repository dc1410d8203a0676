"""A store in a relational database on a server: the part that all databases share."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import islice
from typing import Any, ClassVar, Final, TypeVar

from ..._errors import PywheelError, StoreAway, StoreBusy, StoreClosed, StoreError, StoreReadOnly
from ..._forks import renew_after_fork
from ...clock import Clock
from ...jobs.commands import Cancel, Command, Edit, Expire, Put
from ...jobs.job import Job, State
from ...jobs.queries import GetJob, Member
from ..address import Address, flag, identifier, seconds
from ..checks import sound
from ..contract import CLOSED, Durability, Locked, pauses
from ..left_alone import leave_alone
from ..notifier import Notifier, workers
from ..server import Outage, ServerClock
from ..sql import read
from ..sql.engine import SqlStore, apply
from ..sql.statement import Batch, Do, Select, Statement, Steps, drive, drive_all
from ..sql.transaction import NEVER, Changes, Lookup, Names, Taken, Transaction
from ..verify import Finding
from ..within import CommitWatch, driver_connection, taken
from . import verify
from .connections import Connections
from .dialect import ServerDialect
from .lanes import TRIES, Held, Ids, Lane, claims_beside, may_wait
from .migrate import Migration
from .notifier import RelationalNotifier
from .presence import Leases, Presence
from .ringer import Hints
from .session import Conflict, OwnSession, SessionWithin

_R = TypeVar("_R")

_SECONDS: Final = 10.0
_MOST: Final = 8  # connections that read
_PATIENCE: Final = 3_600.0  # seconds that a look at all jobs may take
_ASKED: Final = 3  # times for the server's clock, unless it answers quickly
_QUICK: Final = 0.05  # seconds
_LOOKED_AT: Final = 1_000  # names at each new connection
_SPARED: Final = (2.0, 0.1)  # seconds: `Lane.spared` of _patient, and of _waiting
_FOLD: Final = 500  # rows of counts after which they are summed up
_FOLD_SHARE: Final = 200  # pause between sums, in durations of one: it walks past the rows that others may still see
_FIXED: Final = (
    "connection=: others changed the same since this transaction took its snapshot, and it cannot see that: begin it "
    "anew, or let it be READ COMMITTED"
)


class RelationalStore(SqlStore):
    """The tables of the engine."""

    durability: Durability
    address: Address
    dialect: ServerDialect

    def __init__(self, address: Address, *, clock: Clock | None = None, create: bool = True) -> None:
        self._reach(address)
        self.url = self.shown
        self.clock = clock or ServerClock()
        self._told_now = clock  # a test's clock; else the server's own counts
        self._presence = Presence(self)
        self._watch = CommitWatch(self._present)
        self.lenders: weakref.WeakSet[Any] = weakref.WeakSet()
        """Connections of callers that were found to lead to this database."""
        self._counted, self._fold_at = 0, 0.0
        self.leases = Leases(self._seconds)
        self.ids = Ids(self._draw_ids)
        held = Held()
        self._puts, self._steps, self._claims = (Lane(self, held) for _ in range(3))
        self._patient, self._waiting = (Lane(self, held, spared) for spared in _SPARED)
        self.lanes = (self._puts, self._steps, self._claims, self._patient, self._waiting)
        _STORES.add(self)
        renew_after_fork(self)
        with self._use() as connection:
            self.migrate(connection, self.dialect).upgrade(self.shown, create=create)
        for _ in range(_ASKED):
            sent = time.monotonic()
            [[(now, self.durability)]] = self.run(Select(f"SELECT {{now}}, {self.dialect.durability}"))
            received = time.monotonic()
            self.heard(now, sent, received)
            if received - sent < _QUICK:  # else the next, quicker answer would look like a step of the clock
                break

    def _reach(self, address: Address) -> None:
        """Read the address and prepare, without a connection."""
        ours = {"prefix": identifier, "timeout": seconds, "notify": flag, **self.options}
        known, passed = address.split(ours, self.driver_options)
        self.address = address
        self.shown = address.shown
        self.notifies: bool = known.get("notify", True)
        self._prefix: str = known.get("prefix", "pywheel_")
        self._seconds: float = known.get("timeout", _SECONDS)
        self._outage = Outage(address.shown)
        self.translated = _Translated(self)
        """A context in which the server's errors are raised as pywheel's."""
        self._connections = Connections(self.connected, _MOST, self._seconds)
        self._known, self._known_workers = Names("topic"), Names("worker")
        """Names that are committed: all connections share them."""
        self._configure(known, passed)

    @classmethod
    def migration(cls, address: Address) -> str:
        """Return the statements that make the tables, or bring them up to date; "" if none are needed."""
        store = cls.__new__(cls)
        store._reach(address)
        try:
            with store._use() as connection:
                migration = cls.migrate(connection, store.dialect)
                version = migration.found().version
                return migration.script(version) if version < migration.made.version else ""
        finally:
            store._connections.close()

    # ---- what a database does ---------------------------------------------------------------------------------------

    own: type[OwnSession]
    """A transaction of the store's own."""
    within: type[SessionWithin]
    """A change in a caller's transaction."""
    hears: type[RelationalNotifier]
    """The class of a worker's notifier."""
    migrate: type[Migration]
    """The class that makes and upgrades the tables."""
    drivers: tuple[str, ...]
    """The modules of callers' connections."""
    driver_error: type[Exception]
    """The base of the driver's errors."""
    meaning: Callable[[Any, Callable[[object], str]], tuple[type[PywheelError], str, str]]
    """Returns the pywheel error for one of the driver's, its message, and the advice."""
    broken: tuple[type[StoreError], ...] = (StoreAway,)
    """Errors after which a read is tried once more, on a new connection."""
    options: ClassVar[Mapping[str, Callable[[str], Any]]]
    """The options that this database alone has."""
    driver_options: Collection[str]
    """The options that it hands to its driver."""

    @abstractmethod
    def _configure(self, known: dict[str, Any], passed: dict[str, str]) -> None:
        """Apply the options, and those of the driver; set the dialect."""

    @abstractmethod
    def _connect(self, until: float) -> Any:
        """Return a new connection."""

    @abstractmethod
    def _begin_writing(self, connection: Any, lane: Lane) -> None:
        """Prepare a new connection for writing."""

    @abstractmethod
    def send(self, connection: Any, batch: Batch, now: int | None) -> list[Any]:
        """Run statements in order on a connection, in one trip; return the rows of each."""

    @abstractmethod
    def _draw_ids(self, count: int, until: float) -> Sequence[int]:
        """Return `count` new ids."""

    @abstractmethod
    def ring(self, hints: Hints) -> None:
        """Tell workers."""

    # ---- connections ------------------------------------------------------------------------------------------------

    def ours(self, error: BaseException) -> BaseException:
        """Return the pywheel error for one of the driver's; another one as it is."""
        if isinstance(error, self.driver_error):
            kind, said, todo = self.meaning(error, self.address.hide)
            return kind(": ".join(filter(None, (self.shown, said, todo))))
        if isinstance(error, OSError):
            said = self.address.hide(error)
            return StoreAway(f"{self.shown}: {said}: is the server up, and the address right?")
        return error

    def connected(self, until: float) -> Any:
        """Return a new connection. If its server was set back to an older state, names and ids are forgotten.

        More than _LOOKED_AT names are forgotten without a look, which would take too long.
        """
        connection = self._connect(until)
        stand = [False]
        if len(self._known.names) + len(self._known_workers.names) <= _LOOKED_AT:
            looks = drive_all([self._known.stand(), self._known_workers.stand()])
            try:
                with self.translated:
                    stand = drive(lambda batch: self.send(connection, batch, None), looks)
            except BaseException:
                connection.end()
                raise
        if not all(stand):
            # Not emptied: a transaction on another connection may use those of before until it breaks, and learn more.
            self._known, self._known_workers = Names("topic"), Names("worker")
            self.ids.forget()
        return connection

    @contextmanager
    def _use(self, until: float | None = None) -> Iterator[Any]:
        with self.translated, self._connections.use(until) as connection:
            yield connection

    def reading(self, read: Callable[[Any], _R], until: float | None = None) -> _R:
        """Return the result of `read` on a connection; try once more if it was found closed, or outdated."""
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

    def about(self) -> dict[str, Any]:
        """Return the server's version, and the sizes of tables and indexes."""
        [[(version, data, indexes)]] = self.run(Select(self.dialect.room, {"tables": self.dialect.all_tables}))
        return {"version": str(version), "table_bytes": int(data or 0), "index_bytes": int(indexes or 0)}

    def run(self, *batch: Statement, until: float | None = None) -> list[Any]:
        """Run statements, which are committed at once; return the rows of each. They may run twice."""
        return self.reading(lambda connection: self.send(connection, batch, self.now), until)

    def _read_steps(self, begin: Callable[[], Steps[_R]]) -> _R:
        """Return the result of a query. All of its statements see one moment."""

        def read_all(connection: Any) -> _R:
            opening = list(self.dialect.snapshot)

            def send(batch: Batch) -> list[Any]:
                rows = self.send(connection, [*opening, *batch], self.now)[len(opening) :]
                opening.clear()
                return rows

            found = drive(send, begin())
            if not opening:
                try:
                    self.send(connection, (Do("COMMIT"),), None)
                except (self.driver_error, OSError):  # all is read by now
                    connection.end()
            return found

        return self.reading(read_all)

    @cached_property
    @abstractmethod
    def dialect_within(self) -> Any:
        """The dialect on callers' connections. They may look for tables elsewhere: it says where these are."""

    @cached_property
    def database(self) -> str:
        """The name of the database, as the server spells it."""
        [[(name,)]] = self.run(Select(f"SELECT {self.dialect.database}"))
        return str(name)

    # ---- writing ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """The time of a test's clock, None where the server's counts."""
        return None if self._told_now is None else self._told_now.wall()

    def heard(self, now: int, sent: float, received: float) -> None:
        """Take in the server's time from an answer, in ms."""
        if isinstance(self.clock, ServerClock):
            self.clock.heard(now / 1_000, sent, received, 0.001)

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that call meanwhile share one transaction."""
        self._open()
        return sound(commands, self._apply) if commands else []

    def _apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        claims = claims_beside(commands)
        return self._apply_on(self._lane_of(commands), commands) if claims is None else self._beside(commands, claims)

    def _beside(self, commands: Sequence[Command[Any]], claims: int) -> list[Any]:
        """Apply the claims, and beside them the commands before: server and process work on both at once."""
        ends, others = commands[:claims], commands[claims:]
        found: Future[list[Any]] = Future()

        def claim() -> None:
            try:
                found.set_result(self._tried_on(self._claims, others))
            except BaseException as error:  # noqa: BLE001  (the caller waits for a result in any case)
                found.set_exception(error)

        try:
            threading.Thread(target=claim, name="pywheel-claims", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            return self._apply_on(self._steps, commands)
        return self._tried_on(self._steps, ends) + found.result()

    def _tried_on(self, lane: Lane, commands: Sequence[Command[Any]]) -> list[Any]:
        try:
            return self._apply_on(lane, commands)
        except StoreError as error:  # the commands on the other lane may have been applied
            return [error] * len(commands)

    def _apply_on(self, lane: Lane, commands: Sequence[Command[Any]]) -> list[Any]:
        try:
            outcomes = lane.commits.apply(commands)
        except Locked:
            outcomes = self._wait(commands)
        for place, outcome in enumerate(outcomes):
            if isinstance(outcome, Locked):  # a put among others, which have been stored
                try:
                    [outcomes[place]] = self._wait([commands[place]])
                except StoreError as error:
                    outcomes[place] = error
        if len(outcomes) == 1 and isinstance(outcomes[0], StoreBusy):
            raise outcomes[0]
        return outcomes

    def _lane_of(self, commands: Sequence[Command[Any]]) -> Lane:
        """Return the connection on which to try commands first."""
        if may_wait(commands, self._known.numbers):
            return self._patient
        return self._puts if all(type(command) is Put for command in commands) else self._steps

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:
        """Apply commands of unrelated callers. See the contract."""
        self._open()
        return sound(commands, partial(self._apply_each, again=again))

    def _apply_each(self, commands: Sequence[Command[Any]], *, again: bool) -> list[Any]:
        lanes: dict[Lane, list[int]] = {}
        for place, command in enumerate(commands):
            lanes.setdefault(self._waiting if again else self._lane_of((command,)), []).append(place)
        outcomes: dict[int, Any] = {}
        for lane, places in lanes.items():
            outcomes.update(zip(places, lane.tried([commands[place] for place in places]), strict=True))
        return [outcomes[place] for place in range(len(commands))]

    def _wait(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands that met a lock, again and again. StoreBusy if it is held beyond the time limit."""
        until = time.monotonic() + self._seconds
        for pause in pauses():
            try:
                outcomes = self._waiting.commits.apply(commands)
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

    def transaction(self, take: Callable[[int], Sequence[int]], *, eager: bool = False) -> Transaction:
        """Return a new transaction. `take` returns new ids."""

        def ids(count: int) -> Steps[Sequence[int]]:
            yield from ()
            return take(count)

        now = self.clock.wall() if self.now is None else self.now
        return Transaction(self.dialect, now, self._known, self._known_workers, ids, eager=eager)

    def count(self) -> None:
        """Sum up the rows of counts, if there are many now that one was added."""
        self._counted += 1
        began = time.monotonic()
        if self._counted >= (_FOLD if began >= self._fold_at else 3 * _FOLD):
            self._counted = 0
            with suppress(StoreError):
                self.run(Do(self.dialect.fold))
            now = time.monotonic()
            self._fold_at = now + _FOLD_SHARE * (now - began)

    # ---- after a commit ---------------------------------------------------------------------------------------------

    def note_leases(self, commands: Sequence[Command[Any]], outcomes: Sequence[Any], changes: Changes) -> None:
        """Note the ends of leases that were given, and of those that were found."""
        for command, outcome in zip(commands, outcomes, strict=True):
            if type(command) is Expire:
                self.leases.found(outcome.next_lease, time.monotonic())
        if changes.leases < NEVER:
            self._presence.claimed()
            self.leases.gave(changes.leases)

    def tell(self, changes: Changes) -> None:
        """Tell workers about the changes that concern them."""
        if changes.moved or changes.announced or changes.paused:
            with suppress(StoreError):  # the changes are stored
                self._presence.tell(changes)

    def topic_names(self, numbers: set[int]) -> Mapping[int, str]:
        """Return a mapping with the names of these topics."""
        known = self._known
        if numbers <= known.names.keys():
            return known.names
        return self._read_steps(lambda: self._known.named(numbers))

    # ---- in the caller's transaction --------------------------------------------------------------------------------

    def apply_within(self, connection: object, command: Command[_R]) -> _R:
        """Apply a command in the caller's own transaction."""
        self._open()
        [outcome] = sound([command], lambda _: [self._apply_within(connection, command)])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _apply_within(self, connection: object, command: Command[Any]) -> Any:
        until = time.monotonic() + self._seconds
        theirs = driver_connection(connection, self.drivers)
        if theirs not in self.lenders:  # as after a restart, which broke the store's own connections: this notices that
            self.run(Select("SELECT 1"))
        session = self.within(self, theirs)
        for attempt in range(TRIES):
            ids = self.ids.many(len(command.jobs), until) if isinstance(command, Put) else ()
            tx = self.transaction(partial(_some, iter(ids)))
            try:
                outcome, dues = self._step_within(session, tx, command, ids)
            except (Conflict, Taken) as conflict:
                session.abandon()
                if attempt:
                    self.ids.forget()
                if session.fixed:
                    refused = taken(command, lambda ref: self.ask(GetJob(ref))) if isinstance(command, Put) else None
                    if refused is not None:
                        return refused
                    if attempt:
                        raise StoreBusy(_FIXED) from conflict
                if attempt + 1 == TRIES:
                    raise StoreBusy(str(conflict)) from conflict
                continue
            finally:
                session.abandon()
            break
        tx.committed()  # another connection has committed the names
        if tx.changes.moved:
            _, first, _ = tx.changes.moved[0]
            self._watch.add(first, dues.get(first), partial(self._presence.tell, tx.changes))
        self._counted += 1
        return outcome

    def _step_within(
        self, session: SessionWithin, tx: Transaction, command: Command[Any], new: Sequence[int]
    ) -> tuple[Any, Mapping[int, int]]:
        """Return the outcome of a command, and the due times of the jobs that it has moved, without new ones."""
        [outcome] = drive(session.send, apply(tx, [command]))
        if not outcome and isinstance(command, Cancel | Edit) and self._is_unseen(session, command):
            raise Conflict(_FIXED)
        moved = [id for _, id, _ in tx.changes.moved if id not in new]
        dues = drive(session.send, read.there(moved)) if moved else {}
        session.commit(self.dialect.counted(tx.tally))
        return outcome, dues

    def _is_unseen(self, session: SessionWithin, command: Cancel | Edit) -> bool:
        """Whether a delayed job exists that the caller's transaction does not see, as its snapshot is older."""
        asked = GetJob(command.ref)
        job = self.ask(asked)
        if job is None or job.state is not State.DELAYED:
            return False
        known = Lookup(Names("topic"), Names("worker"), ())
        seen: Job | None = drive(session.send, read.job(known, asked))
        return seen is None or seen.id != job.id

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _first_lease_end(self) -> int | None:
        """Return the earliest time at which a lease may be over, as it was read lately."""
        self._open()
        return self.leases.first(self._read_lease)

    def _read_lease(self) -> tuple[int | None, int]:
        text = f"SELECT {self.dialect.first_lease}, {{now}}"
        [[(lease, now)]] = self.run(Select(text, {"since": self.leases.since()}))
        return None if lease is None else int(lease), int(now)

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        notifier = self.hears(self, name)
        notifier.begin()
        return notifier

    def _list_workers(self) -> list[Member]:
        """Return all workers that have announced topics, by name. One query."""
        self._open()
        self._presence.stale = True
        return workers(self._presence.roster().members())

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults of the tables. A repair locks what it reads: others wait, and may exceed their limit."""
        self._open()
        connection = self._connect(time.monotonic() + _PATIENCE)
        try:
            return verify.verified(self, connection, repair=repair)
        finally:
            connection.end()

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections, after the transaction under way. Idempotent; all else then raises StoreClosed."""
        if self._closed:
            return
        self._watch.close()
        self._presence.close()
        self._closed = True
        for lane in self.lanes:
            with suppress(StoreBusy):
                lane.commits.alone(self._end_writing, lane)
        self._connections.close()

    def _end_writing(self, lane: Lane) -> None:
        if lane.writer is not None:
            lane.writer.end()

    def _after_fork(self) -> None:
        self._watch, self.ids = CommitWatch(self._present), Ids(self._draw_ids)  # the old ones are the parent's
        for lane in self.lanes:
            lane.commits.renew()
            leave_alone(lane.writer)
            lane.begin_anew()
        self._connections.after_fork()
        self._presence.after_fork(leave=RelationalNotifier.abandoned)


class _Translated:
    """Raises the errors of a store's server as pywheel's. A class, as a generator takes longer, at each put."""

    __slots__ = ("_store",)

    def __init__(self, store: RelationalStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        store = self._store
        if error is None:
            store._outage.over()
            return
        ours = store.ours(error)
        if isinstance(ours, StoreAway | AttributeError):  # PyMySQL raises it for a socket that another thread closed
            if store._connections.closed:
                raise StoreClosed(CLOSED) from None
            if isinstance(ours, StoreAway):
                store._outage.noted(ours)
        elif isinstance(ours, StoreReadOnly):  # the address may lead to another server
            store._connections.drop_idle()
        if ours is not error:
            raise ours from error


def _some(ids: Iterator[int], count: int) -> list[int]:
    return list(islice(ids, count))


_STORES: Final[weakref.WeakSet[RelationalStore]] = weakref.WeakSet()


@atexit.register
def _tell_the_last() -> None:
    """Tell the workers of the last puts of a program that ends without closing its stores."""
    for store in list(_STORES):
        store._watch.flush()
        store._presence.flush()
