"""The store in one SQLite file, shared by the threads of many processes of one host."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar, cast
from urllib.parse import quote

from ..._errors import BadJob, BadOption, StoreBusy, StoreClosed, StoreError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs.checks import whole
from ..checks import sound
from ..contract import CLOSED, Durability
from ..group_commit import Commit, GroupCommit
from ..sql.engine import apply
from ..sql.statement import drive
from ..within import NO_TRANSACTION, CommitWatch, driver_connection, is_async, wait
from . import forks, maintenance
from .connection import BUSY_SECONDS, FOREIGN, ours, translated
from .database import ORDINARY, Database
from .dialect import SQLITE, Carrier, WrongGuess
from .engine import SqliteEngine, rows_of
from .page import Page
from .presence import Presence, Telling
from .side_files import side_errors

_R = TypeVar("_R")
_STALE: Final = "connection=: others have written since this transaction began to read: begin anew, by BEGIN IMMEDIATE"
_ROLLED_BACK: Final = "; SQLite has rolled back the whole transaction on connection="


class SqliteStore(SqliteEngine):
    """Jobs in a file: WAL, synchronous=FULL, so applied commands survive a loss of power.

    Beside the file lie SQLite's ``-wal`` and ``-shm``, and ``-workers``: the present workers, and the turn to write.
    Only ``-wal`` has lasting data. They lie where the file is, not where links to it are.
    """

    durability: Durability = "fsync"
    _shared = True

    def __init__(self, path: str | Path, *, clock: Clock | None = None, create: bool = True) -> None:
        self.path = os.path.realpath(path)
        super().__init__(f"sqlite:///{quote(os.fsencode(self.path))}", clock)
        self._new = True
        """Whether this process has not used the store yet: `_presence` is still to be made, or is the parent's."""
        self._renewing = threading.RLock()
        self._group_commit = GroupCommit(self._transact, _separate, BUSY_SECONDS)
        self._watch = CommitWatch(self._present)
        self._database = Database(self.path, create=create, forget=self._forget, page=self._page)
        with forks.gate():
            try:
                self._database.open(time.monotonic() + BUSY_SECONDS)
            except BaseException:
                self._database.close()
                raise
            forks.add(self)

    # ---- writing --------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that call meanwhile share one commit."""
        if not commands:
            return []
        try:
            return sound(commands, self._group_commit.apply)
        except FOREIGN as error:
            raise ours(error, self.path) from error
        finally:
            if self._database.over:
                self.close()  # a signal handler closed the store in the middle of this

    def _transact(self, commands: Sequence[c.Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        """Apply the commands of one or more callers."""
        return self._database.write(until, self._work, commands, commit)

    def _work(
        self, connection: sqlite3.Connection, commands: Sequence[c.Command[Any]], commit: Commit | None
    ) -> list[Any]:
        page = self._presence.page
        if not page.alone:
            self._highest = None  # others have given ids
        try:
            return self._commit(connection, commands, commit, in_turn=page.held)
        except WrongGuess:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._forget()
            return self._commit(connection, commands, commit, in_turn=page.held)

    def apply_within(self, connection: object, command: c.Command[_R]) -> _R:
        """Apply a command in the caller's own transaction. The application's tables are then in the store's file.

        Nobody else can write to the file until that transaction has ended.
        """
        self._open()
        theirs = _borrowed(connection, self.path)
        with translated(self.path):
            [outcome] = sound([command], partial(self._apply_within, theirs))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def _apply_within(self, connection: sqlite3.Connection, commands: Sequence[c.Command[Any]]) -> list[Any]:
        tx = self._apart()
        with _in_savepoint(connection, self.path):
            carrier = Carrier(connection, tx.now)
            outcomes: list[Any] = drive(carrier.send, apply(tx, commands))
            drive(carrier.send, SQLITE.count(tx))
            telling = Telling(tx, self._presence, in_turn=False)
            telling.begin()
        if tx.changes.moved:
            _, id, due = tx.changes.moved[0]
            self._watch.add(id, due, telling.tell)
        return outcomes

    # ---- the file -------------------------------------------------------------------------------------------------

    def vacuum(self, pages: int) -> int:
        """Free about `pages` pages of 2 KiB that purged jobs left, for the system; return how many were freed.

        In one turn to write, some microseconds a page. 0 in a database that another program began (`adopt`): it uses
        the space again, but keeps it until `rewrite`.
        """
        return self._alone(maintenance.vacuum, whole(pages, "the number of pages", 2**31 - 1, error=BadOption))

    def rewrite(self) -> None:
        """Write the file anew, without free pages. O(jobs): nobody can write meanwhile; it takes as much disk again."""
        self._alone(maintenance.rewrite)

    def backup(self, path: str | Path) -> None:
        """Copy all jobs as they are now into a new file, a store like this one, while others write. O(jobs).

        StoreError if the file exists already. A fork waits for it for a second; then the copy begins anew.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"a backup goes to a path, not {path!r:.40}")
        self._open()
        self._database.read(maintenance.backup, self.path, os.path.realpath(path), self._database.refuse_to_go_on)

    def check(self) -> list[str]:
        """Return the faults of the file, [] if there are none. O(file); others may read and write meanwhile."""
        return self._database.read(maintenance.check)

    def about(self) -> dict[str, Any]:
        """Return where the file is, its schema, its size, and the version of SQLite."""
        return self._database.read(maintenance.about, self.path)

    def _alone(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work(connection, ...)` between the commits of this process, in a turn to write."""

        def alone(connection: sqlite3.Connection) -> _R:
            found = work(connection, *args)
            self._presence.page.whole()
            return found

        with translated(self.path):
            result: _R = self._group_commit.alone(self._database.write, time.monotonic() + BUSY_SECONDS, alone)
            return result

    def _reading(self, work: Callable[..., _R], *args: Any) -> _R:
        return self._database.read(work, *args)

    # ---- life -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file, after the transaction under way, if any. Idempotent; all else then raises StoreClosed."""
        self._watch.close()
        self._database.over = True
        if not self._closed:
            with suppress(StoreError):  # busy: then the call under way closes it at its end
                self._group_commit.alone(self._shut)

    def _shut(self) -> None:
        if not self._closed:
            self._database.close()
            self._closed = True
            if not self._new:
                self._presence.close()

    def _open(self) -> None:
        """Raise StoreClosed if the store is closed; in a forked child, open the parent's resources anew.

        An idle worker reads nothing, but calls this: so it learns if its files are gone.
        """
        if self._database.over:
            raise StoreClosed(CLOSED)
        if self._new:
            self._renew()
        self._presence.page.whole()
        self._database.look()

    def _renew(self) -> None:
        with self._renewing, side_errors(self.path):
            if self._new:
                self._presence = Presence(self.path, self.clock, self._rows)
                self._new = False

    def _page(self) -> Page:
        """Return the page with the store's turn; made with the first connection."""
        if self._new:
            self._renew()
        self._presence.page.whole()
        self._presence.look()
        return self._presence.page

    def _rows(self, text: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
        """Return the rows of a statement. A commit under way can still read while another thread closes the store."""
        read = self._database.read_still if self._group_commit.leads() else self._database.read
        return read(rows_of, text, values)

    def before_exit(self) -> None:
        """Tell the workers of commits in callers' transactions: the program ends without closing the store."""
        self._watch.flush()

    def before_fork(self) -> None:
        """Let no commit be under way."""
        if self._group_commit.pause():
            self._database.before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._group_commit.paused:  # else a signal handler forked in the middle of this thread's own commit
            self._database.after_fork_in_parent()
            self._group_commit.resume()

    def after_fork_in_child(self) -> None:
        """Leave the parent's resources; open new ones when they are needed."""
        self._watch = CommitWatch(self._present)
        self._new = True
        self._renewing = threading.RLock()
        self._group_commit.renew()
        self._database.after_fork_in_child()
        self._presence.after_fork()


# ---- in the transaction that a caller has under way -----------------------------------------------------------------


def _borrowed(connection: object, path: str) -> sqlite3.Connection:
    """Return a cursor on the caller's connection to the file at a path, with a transaction open.

    Its rows are tuples, whatever the caller's row factory. BadJob if the connection leads elsewhere, or commits each
    statement by itself.
    """
    theirs = driver_connection(connection, ("sqlite3", "aiosqlite"))
    with translated(path):
        cursor: Any = wait(theirs.cursor()) if is_async(theirs) else theirs.cursor()
        cursor.row_factory = None
        cursor = _Awaited(cursor) if is_async(theirs) else cursor
        files = [file for _, name, file in cursor.execute("PRAGMA database_list").fetchall() if name == "main"]
        if not files[0] or os.path.realpath(files[0]) != path:
            raise BadJob(f"connection=: it is one to {files[0] or 'no file'}, and the jobs are in {path}")
        if theirs.text_factory is not str:
            raise BadJob("connection=: its text_factory must be str")
        if not theirs.in_transaction:
            if theirs.isolation_level is None and getattr(theirs, "autocommit", True) is not False:
                raise BadJob(NO_TRANSACTION)
            cursor.execute("BEGIN IMMEDIATE")
    try:  # takes the file's lock before anything is read: SQLite then waits for another writer, and sees its writes
        with translated(path):
            cursor.execute("DELETE FROM topic WHERE 0")
    except StoreBusy as error:
        if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
            raise StoreBusy(_STALE) from error
        raise
    return cast("sqlite3.Connection", cursor)


class _Awaited:
    """A cursor of aiosqlite, for use as a cursor of sqlite3 by the thread that waits for it."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.connection = cursor.connection

    def execute(self, text: str, values: Any = ()) -> Self:
        wait(self._cursor.execute(text, values))
        return self

    def executemany(self, text: str, values: Any) -> Self:
        wait(self._cursor.executemany(text, values))
        return self

    def fetchone(self) -> Any:
        return wait(self._cursor.fetchone())

    def fetchall(self) -> list[Any]:
        return list(wait(self._cursor.fetchall()))


@contextmanager
def _in_savepoint(cursor: Any, path: str) -> Iterator[None]:
    """Undo the changes made within, if it raises, and leave the transaction open.

    Where SQLite itself has rolled back the whole transaction, as at a full disk or an interrupt, the error says so.
    """
    cursor.execute("SAVEPOINT pywheel")
    try:
        yield
    except BaseException as error:
        if cursor.connection.in_transaction:
            cursor.execute("ROLLBACK TO pywheel")
            cursor.execute("RELEASE pywheel")
        elif isinstance(error, sqlite3.Error):
            said = ours(error, path)
            raise type(said)(f"{said}{_ROLLED_BACK}") from error
        raise
    cursor.execute("RELEASE pywheel")


def _separate(error: BaseException) -> bool:
    """Whether one caller's commands may have caused an error: a value that SQLite does not take."""
    return isinstance(error, ORDINARY) and not isinstance(error, StoreError)
