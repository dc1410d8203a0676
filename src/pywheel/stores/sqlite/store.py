"""The store in one SQLite file, shared by the threads of many processes of one host."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from ..._errors import BadJob, StoreClosed, StoreError
from ...clock import Clock, MonotonicClock
from ...jobs import commands as o
from ...jobs.checks import whole
from ..checks import sound
from ..contract import Durability
from ..group_commit import Commit, GroupCommit
from ..notifier import Member, Notifier, workers
from ..sql.engine import apply
from ..sql.statement import Steps
from ..sql.store import SqlStore
from ..sql.transaction import Names, Transaction
from ..verify import Finding
from ..within import CommitWatch
from . import maintenance, process, verify
from .borrowed import borrowed, in_savepoint
from .connection import BUSY_SECONDS, FOREIGN, ours, translated
from .database import CLOSED, ORDINARY, Database
from .dialect import SQLITE, Carrier, Ids, WrongGuess
from .presence import Presence
from .queries import Reader
from .side_files import side_errors
from .telling import Telling

__all__ = ["SqliteStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class SqliteStore(SqlStore):
    """Jobs in a file: WAL, synchronous=FULL, so what was applied survives the loss of power.

    Beside the file lie ``-wal`` and ``-shm`` of SQLite, ``-lock`` (who writes next), ``-workers`` and ``-bell-*`` (who
    is there and wants to be woken). All but ``-wal`` hold nothing that lasts. They lie where the file is, not where
    links to it are.
    """

    durability: Durability = "fsync"
    dialect = SQLITE

    def __init__(self, path: str | Path, *, clock: Clock | None = None, create: bool = True) -> None:
        self.path = os.path.realpath(path)
        self.url = f"sqlite:///{quote(os.fsencode(self.path))}"
        self.clock = clock or MonotonicClock()
        self._forked = False
        """Whether this is a child that has not used the store yet."""
        self._closed = False
        self._paused = False  # while a fork is under way
        self._renewing = threading.RLock()
        self._topics, self._workers = Names("topic"), Names("worker")
        self._known, self._known_workers = Names("topic"), Names("worker")
        """The names that readers know: what they read is committed."""
        self._group_commit = GroupCommit(self._transact, _separate, BUSY_SECONDS)
        self._watch = CommitWatch(self._present)
        self._database = Database(self.path, create=create, forget=self._forget)
        try:
            self._database.open(time.monotonic() + BUSY_SECONDS)
            self._presence = self._new_presence()
        except BaseException:
            self._database.close()
            raise
        process.STORES.add(self)

    # ---- writing --------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[o.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that come meanwhile share one commit."""
        if not commands:
            return []
        try:
            return sound(commands, self._group_commit.apply)
        except FOREIGN as error:
            raise ours(error, self.path) from error
        finally:
            if self._database.over:
                self.close()  # what a signal handler closed in the middle of this

    def _transact(self, commands: Sequence[o.Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        """Apply the commands of one or more callers; wake whom it concerns."""
        if self._forked:
            self._renew()
        outcomes, telling = self._database.write(until, self._work, commands, commit)
        # The bells after the commit: then a horizon that moved meanwhile is seen here, or the one who moved it sees it.
        telling.tell()
        return outcomes

    def _work(
        self, connection: sqlite3.Connection, commands: Sequence[o.Command[Any]], commit: Commit | None
    ) -> tuple[list[Any], Telling]:
        """Apply the commands in a transaction; return the outcomes, and what is to be told of them."""
        try:
            return self._commit(connection, commands, commit, Ids(self._database.highest))
        except WrongGuess:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._forget()
            return self._commit(connection, commands, commit, Ids())

    def _commit(
        self, connection: sqlite3.Connection, commands: Sequence[o.Command[Any]], commit: Commit | None, ids: Ids
    ) -> tuple[list[Any], Telling]:
        tx = self._transaction(self._topics, self._workers, ids)
        carrier = Carrier(connection, tx.now, begin=True, guess=ids.guess)
        outcomes = carrier.drive(apply(tx, commands))
        carrier.drive(SQLITE.count(tx))
        telling = Telling(connection, tx, self._presence)
        # Where a signal handler may raise right after the statement, the outcomes of the other callers would be lost.
        alone = commit is None or threading.get_ident() != threading.main_thread().ident
        if alone and carrier.waiting is not None and telling.nothing:
            carrier.flush()
        else:
            carrier.begin()
            telling.finish()
            if commit is None:
                connection.execute("COMMIT")
            else:
                _note(connection, commit, outcomes)
            telling.committed()
        self._database.highest = ids.highest
        tx.committed()
        return outcomes, telling

    def _transaction(self, topics: Names, workers: Names, ids: Ids) -> Transaction:
        return Transaction(SQLITE, self.clock.wall(), topics, workers, ids, gone=self._presence.gone)

    def put_within(self, connection: object, put: o.Put) -> list[int]:
        """Apply a put in the caller's own transaction. The application's tables are in the store's file then.

        Nobody else can write to the file until that has ended.
        """
        self._open()
        theirs = borrowed(connection, self.path)
        with translated(self.path):
            [outcome] = sound([put], partial(self._put_within, theirs))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _put_within(self, connection: sqlite3.Connection, commands: Sequence[o.Command[Any]]) -> list[Any]:
        tx = self._transaction(Names("topic"), Names("worker"), Ids())
        with in_savepoint(connection):
            carrier = Carrier(connection, tx.now)
            outcomes: list[Any] = carrier.drive(apply(tx, commands))
            carrier.drive(SQLITE.count(tx))
            telling = Telling(connection, tx, self._presence)
            telling.finish()
        for ids in outcomes:
            if isinstance(ids, list) and ids:
                self._watch.add(ids[0], telling.tell)
        return outcomes

    def _forget(self) -> None:
        """Know no numbers of names any more: some may have been rolled back. Nor the highest id."""
        self._database.highest = None
        self._topics.forget()
        self._workers.forget()

    # ---- reading --------------------------------------------------------------------------------------------------

    def _read_steps(self, begin: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._read(Reader.ask, begin(*args, **kwargs), self.clock.wall())

    def _first_lease_end(self) -> int | None:
        """Return when some lease may be over at the earliest. No query.

        A worker asks this all the time, and reads nothing while it is idle: so here it learns if its files are gone.
        """
        self._open()
        self._database.look()
        return self._presence.next_lease()

    # ---- the file -------------------------------------------------------------------------------------------------

    def vacuum(self, pages: int) -> int:
        """Give about so many pages of 2 KiB that purged jobs left back to the system; return how many were.

        In one turn to write, some microseconds a page. 0 in a database that another program began (`adopt`): that uses
        the room again, but keeps it until `rewrite`.
        """
        return self._alone(maintenance.vacuum, whole(pages, "the number of pages", 2**31 - 1))

    def rewrite(self) -> None:
        """Write the file anew, without free room. O(jobs): nobody can write meanwhile, and it takes as much disk."""
        self._alone(maintenance.rewrite)

    def backup(self, path: str | Path) -> None:
        """Copy all jobs as they are now into a new file, a store like this one, while others write. O(jobs).

        StoreError if the file exists already.
        """
        if not isinstance(path, str | os.PathLike):
            raise BadJob(f"a backup goes to a path, not {path!r:.40}")
        self._open()
        maintenance.backup(self.path, os.path.realpath(path))

    def check(self) -> list[str]:
        """Return what is wrong with the file, [] if nothing is. O(file); others may read and write meanwhile."""
        return self._read(lambda reader: maintenance.check(reader._connection))

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the file and with what is in it. O(file); a repair keeps others from writing."""
        if repair:
            return self._alone(
                verify.mended, self.clock.wall(), self._transaction(Names("topic"), Names("worker"), Ids())
            )
        return self._read(lambda reader: verify.find(reader._connection, self.clock.wall()))

    def about(self) -> dict[str, Any]:
        """Return where the file is, its schema, its size, and which SQLite reads it."""
        return self._read(lambda reader: maintenance.about(reader._connection, self.path))

    def _alone(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return what `work(connection, ...)` does between the commits of this process, in a turn to write."""
        with translated(self.path):
            until = time.monotonic() + BUSY_SECONDS
            result: _R = self._group_commit.alone(self._database.write, until, work, *args)
            return result

    # ---- life -----------------------------------------------------------------------------------------------------

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

    def close(self) -> None:
        """Close the file, after the transaction under way, if any. Idempotent; all else raises StoreClosed then."""
        self._watch.close()
        self._database.over = True
        if not self._closed:
            with suppress(StoreError):  # busy: then the call that is under way closes it when it ends
                self._group_commit.alone(self._shut)

    def _shut(self) -> None:
        if not self._closed:
            self._database.close()
            self._closed = True
            if not self._forked:  # else it is the parent's
                self._presence.close()

    @property
    def _connection(self) -> sqlite3.Connection:
        """The connection that writes, for tests and measurements."""
        return self._database.connection

    def _read(self, method: Callable[Concatenate[Reader, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._database.read(method, *args, **kwargs)

    def _open(self) -> None:
        """Raise StoreClosed if it is; in a forked child, open what was the parent's anew."""
        if self._database.over:
            raise StoreClosed(CLOSED)
        if self._forked:
            self._renew()

    def _renew(self) -> None:
        with self._renewing:
            if self._forked:
                self._presence = self._new_presence()
                self._forked = False

    def _new_presence(self) -> Presence:
        with side_errors(self.path):
            return Presence(self.path, self.clock, self._rows)

    def _rows(self, name: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
        """Return what a statement finds. A commit that is under way ends, whoever closes the store meanwhile."""
        read = self._database.read_still if self._group_commit.leads() else self._database.read
        return read(Reader.rows, name, values)

    def before_exit(self) -> None:
        """Tell the workers of what others have committed: the program ends without closing the store."""
        self._watch.flush()

    def before_fork(self) -> None:
        """Let no commit be under way."""
        self._paused = self._group_commit.pause()
        if self._paused:
            self._database.before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._paused:  # else a signal handler forked in the middle of this thread's own commit
            self._database.after_fork_in_parent()
            self._group_commit.resume()

    def after_fork_in_child(self) -> None:
        """Leave what is the parent's; the rest is opened anew when it is needed."""
        self._watch = CommitWatch(self._present)
        self._forked = True  # the presence leaves its parent's files and sockets alone by itself
        self._renewing = threading.RLock()
        self._group_commit.renew()
        self._database.after_fork_in_child()


def _note(connection: sqlite3.Connection, commit: Commit, outcomes: list[Any]) -> None:
    """Commit for several callers, and note for them whether it happened.

    Between the end of COMMIT and what is noted nothing is called: there no signal handler can come in.
    """
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


def _separate(error: BaseException) -> bool:
    """Whether one caller's commands may be the reason: a value that SQLite does not take."""
    return isinstance(error, ORDINARY) and not isinstance(error, StoreError)
