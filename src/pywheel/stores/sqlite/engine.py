"""The shared part of the stores on SQLite, with a file and without: transactions, and presence."""

from __future__ import annotations

import sqlite3
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from ...clock import Clock, MonotonicClock
from ...jobs import commands as c
from ...jobs.queries import Member
from ..group_commit import Commit
from ..notifier import Notifier, workers
from ..sql import put
from ..sql.engine import SqlStore, apply
from ..sql.statement import Steps, drive
from ..sql.transaction import NEVER, Names, Transaction
from ..verify import Finding
from . import maintenance
from . import page as at
from .dialect import AT_ONCE, SQLITE, Carrier, Ids, WrongGuess, ends_tail, insert_at_once
from .presence import Presence, Telling

_R = TypeVar("_R")


class SqliteEngine(SqlStore):
    """A store with SQLite's tables: its transactions, and their announcement to workers."""

    dialect = SQLITE
    _presence: Presence
    _shared: ClassVar[bool]
    """Whether other processes write to the database."""

    def __init__(self, url: str, clock: Clock | None) -> None:
        self.url = url
        self.clock = clock or MonotonicClock()
        self._highest: int | None = None
        """The highest id that was given, as far as this process knows."""
        self._topics, self._workers = Names("topic"), Names("worker")
        self._known, self._known_workers = Names("topic"), Names("worker")

    # ---- transactions -----------------------------------------------------------------------------------------------

    def _commit(
        self,
        connection: sqlite3.Connection,
        commands: Sequence[c.Command[Any]],
        commit: Commit | None = None,
        *,
        in_turn: bool = True,
    ) -> list[Any]:
        """Apply commands in a transaction, announce it, and return the outcomes."""
        ids, presence = Ids(self._highest), self._presence
        begun = type(commands[0]) is not c.Put  # a put may be a transaction by itself
        if begun:
            connection.execute("BEGIN IMMEDIATE")  # leases begin once the wait for other writers is over
        tx = Transaction(SQLITE, self.clock.wall(), self._topics, self._workers, ids, presence)
        insert, outcomes = (None if begun else put.plain(tx, commands, ids.take)) or (None, [])
        # A signal handler may raise right after the statement: then the outcomes of the other callers would be lost.
        at_once = (
            insert is not None
            and len(insert.rows) <= AT_ONCE
            and not ends_tail(insert.rows)
            and (commit is None or threading.get_ident() != threading.main_thread().ident)
        )
        if not at_once:
            carrier = Carrier(connection, tx.now)
            if not begun:
                connection.execute("BEGIN IMMEDIATE")
                if self._shared:
                    ids.check(carrier)
            if insert is None:
                outcomes = drive(carrier.send, apply(tx, commands))
            else:
                carrier.send((insert,))
            drive(carrier.send, SQLITE.count(tx))
            presence.page.whole()
        telling = Telling(tx, presence, in_turn=in_turn)
        telling.begin()
        try:
            if insert is not None and at_once:
                insert_at_once(connection, insert, ids.guess if self._shared else None)
            else:
                if tx.changes.leases < NEVER:
                    presence.leased(tx.changes.leases)
                _end(connection, commit, outcomes)
        except (WrongGuess, sqlite3.Error):
            telling.failed()
            raise
        tx.committed()
        self._highest = ids.highest
        telling.tell()
        if (tx.changes.expired or presence.page.words[at.LEASE] == at.UNKNOWN) and tx.lapsed:
            presence.find_lease(connection)
        return outcomes

    def _apart(self) -> Transaction:
        """Return a transaction that shares no knowledge with the others."""
        return Transaction(SQLITE, self.clock.wall(), Names("topic"), Names("worker"), Ids(), self._presence)

    def _forget(self) -> None:
        """Forget the numbers of names, as some may have been rolled back, and the highest id."""
        self._highest = None
        self._topics.forget()
        self._workers.forget()

    # ---- reading ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _alone(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work(connection, ...)` between the commits of this process."""

    @abstractmethod
    def _reading(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work(connection, ...)`, which only reads."""

    def _read_steps(self, begin: Callable[[], Steps[_R]]) -> _R:
        now = self.clock.wall()
        found: _R = self._reading(_in_one_moment, lambda connection: drive(Carrier(connection, now).send, begin()))
        return found

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults of the stored data. O(jobs); a repair keeps others from writing."""
        if not repair:
            return self._reading(_in_one_moment, maintenance.find, self.clock.wall())
        self._open()
        tx = self._apart()
        return self._alone(maintenance.mended, tx)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        return self._presence.notifier(name)

    def _list_workers(self) -> list[Member]:
        """Return all workers that have announced topics."""
        self._open()
        self._presence.look(at_once=True)
        return workers(self._presence.members())

    def _first_lease_end(self) -> int | None:
        """Return the earliest time at which a lease may be over. Mostly no query."""
        self._open()
        return self._presence.next_lease()

    # ---- life -------------------------------------------------------------------------------------------------------

    def before_exit(self) -> None:
        """Send the news that is still pending: the program ends without closing the store."""

    @abstractmethod
    def before_fork(self) -> None:
        """Let no thread be within SQLite. Either of the next two follows, perhaps twice."""

    @abstractmethod
    def after_fork_in_parent(self) -> None:
        """Go on."""

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Go on without the parent's threads."""


def _in_one_moment(connection: sqlite3.Connection, work: Callable[..., _R], *args: Any) -> _R:
    connection.execute("BEGIN")
    try:
        return work(connection, *args)
    finally:
        connection.execute("COMMIT")


def rows_of(connection: sqlite3.Connection, text: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
    """Return the rows of a statement."""
    return connection.execute(text, values).fetchall()


def _end(connection: sqlite3.Connection, commit: Commit | None, outcomes: list[Any]) -> None:
    """Commit, and note for the callers, if there are several, whether it happened.

    Between the end of COMMIT and the note nothing is called: no signal handler can run there.
    """
    if commit is None:
        connection.execute("COMMIT")
        return
    commit.outcomes, commit.stored = outcomes, None
    try:
        connection.execute("COMMIT")
    except sqlite3.Error:
        commit.stored = False
        raise
    except BaseException:
        commit.stored = not connection.in_transaction
        raise
    commit.stored = True
