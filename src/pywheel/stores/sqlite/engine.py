"""What the stores on SQLite share, with a file and without: transactions, presence, and the forks of their process."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import weakref
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ...clock import Clock, MonotonicClock
from ...jobs import commands as c
from ..group_commit import Commit
from ..notifier import Member, Notifier, workers
from ..sql import put
from ..sql.engine import apply
from ..sql.store import SqlStore
from ..sql.transaction import Names, Transaction
from .dialect import SQLITE, Carrier, Ids, WrongGuess
from .presence import Presence
from .telling import Telling

__all__ = ["SqliteEngine"]


class SqliteEngine(SqlStore):
    """A store whose tables are SQLite's. All that a transaction does to them, and what is told of it."""

    dialect = SQLITE
    _presence: Presence
    _shared: ClassVar[bool]
    """Whether other processes write to it."""

    def __init__(self, url: str, clock: Clock | None) -> None:
        self.url = url
        self.clock = clock or MonotonicClock()
        self._highest: int | None = None
        """The highest id that was given, as far as is known."""
        self._topics, self._workers = Names("topic"), Names("worker")
        self._known, self._known_workers = self._topics, self._workers
        if self._shared:  # readers have connections of their own: what they read is committed
            self._known, self._known_workers = Names("topic"), Names("worker")
        _STORES.add(self)

    # ---- transactions -----------------------------------------------------------------------------------------------

    def _commit(
        self,
        connection: sqlite3.Connection,
        commands: Sequence[c.Command[Any]],
        commit: Commit | None = None,
        *,
        in_turn: bool = True,
    ) -> list[Any]:
        """Apply commands in a transaction, tell of it, and return the outcomes."""
        ids = Ids(self._highest)
        tx = self._transaction(self._topics, self._workers, ids)
        carrier = Carrier(connection, tx.now, begin=True, guess=ids.guess if self._shared else None)
        outcomes: list[Any]
        plain = put.plain(tx, commands, ids.take)
        if plain is None:
            outcomes = carrier.drive(apply(tx, commands))
        else:
            insert, outcomes = plain
            carrier.send((insert,))
        if SQLITE.counts(tx.tally):
            carrier.drive(SQLITE.count(tx))
        telling = Telling(tx, self._presence, in_turn=in_turn)
        leases = telling.leases
        # Where a signal handler may raise right after the statement, the outcomes of the other callers would be lost.
        alone = commit is None or threading.get_ident() != threading.main_thread().ident
        try:
            if alone and carrier.waiting is not None and not leases:
                telling.begin()
                carrier.flush()
            else:
                carrier.begin()
                telling.begin()
                if leases:
                    telling.note_leases(connection)
                _end(connection, commit, outcomes)
        except (WrongGuess, sqlite3.Error):
            telling.failed()
            raise
        tx.committed()
        self._highest = ids.highest
        telling.tell()
        return outcomes

    def _transaction(self, topics: Names, workers: Names, ids: Ids) -> Transaction:
        now, presence = self.clock.wall(), self._presence
        return Transaction(SQLITE, now, topics, workers, ids, gone=presence.gone, lapsed=presence.lapsed(now))

    def _forget(self) -> None:
        """Know no numbers of names any more: some may have been rolled back. Nor the highest id."""
        self._highest = None
        self._topics.forget()
        self._workers.forget()

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

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        self._open()
        return self._presence.quiet(topic, seconds)

    def _first_lease_end(self) -> int | None:
        """Return when some lease may be over at the earliest. Mostly no query."""
        self._open()
        return self._presence.next_lease()

    # ---- life -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Raise StoreClosed if it is closed; in a forked child, open what was the parent's anew."""

    def before_exit(self) -> None:
        """Tell what is still to be told: the program ends without closing the store."""

    @abstractmethod
    def before_fork(self) -> None:
        """Let no transaction be under way."""

    @abstractmethod
    def after_fork_in_parent(self) -> None:
        """Go on."""

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Leave what is the parent's."""


def _end(connection: sqlite3.Connection, commit: Commit | None, outcomes: list[Any]) -> None:
    """Commit, and note for the callers, if there are several, whether it happened.

    Between the end of COMMIT and what is noted nothing is called: there no signal handler can come in.
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


# ---- the stores of this process, around its forks and at its end ----------------------------------------------------

_STORES: Final[weakref.WeakSet[SqliteEngine]] = weakref.WeakSet()
_paused: list[SqliteEngine] = []


def _before_fork() -> None:
    _paused[:] = _STORES
    for store in _paused:
        store.before_fork()


def _after_fork_in_parent() -> None:
    for store in _paused:
        store.after_fork_in_parent()
    _paused.clear()


def _after_fork_in_child() -> None:
    for store in _STORES:
        store.after_fork_in_child()
    _paused.clear()


@atexit.register
def _before_exit() -> None:
    for store in list(_STORES):
        store.before_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
