"""The open file: a connection that writes, some that read, and the turn to write.

Opened at first use, and anew after a fork. SQLite knows nothing of forks: its record locks stay with the parent, but
the child would take them for its own, and lose its writes when the parent closes. So the connections are closed before
a fork, when no thread uses one, and both sides open their own. A fork beside a thread that is within SQLite may copy a
mutex that is locked: the child would wait for it for ever. So a read that lasts is interrupted, and begins anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

from ..._errors import BadJob, StoreClosed, StoreError, StoreReplaced
from ..contract import CLOSED
from ..left_alone import leave_alone
from .checkpoints import Checkpoints
from .connection import BUSY_SECONDS, FOREIGN, check_version, connect, ours, refuse_unusable, translated, upgrade
from .page import Page

_R = TypeVar("_R")

ORDINARY: Final = (*FOREIGN, StoreError, BadJob, TypeError, ValueError)
"""Errors of commands and of SQLite; all others come from a signal handler."""
_OUT_OF_TURN: Final = 0.25  # seconds for which a writer waits for SQLite's lock before it waits for its turn again
_LOOK: Final = 0.25  # seconds between looks whether the files are still the same
_IDLE: Final = 4  # readers kept
_FORK_SECONDS: Final = 1.0  # for which a fork waits for reads under way before it interrupts them
_FORK_MOST: Final = 10.0  # for which it waits in all
_NAP: Final = 0.001
_Identities: TypeAlias = tuple[tuple[int, int], ...]
_LOGS: Final = ("-wal", "-shm")
_UNKNOWN: Final = (0, 0)  # the identity of a file that was never opened


class Database:
    """One store's connections. `write` is for one thread at a time, the rest for any."""

    def __init__(self, path: str, *, create: bool, forget: Callable[[], None], page: Callable[[], Page]) -> None:
        self.path = path
        self._page = page  # the present page, which has the turn
        self.over = False
        """Whether the database is closing, or closed."""
        self._create = create
        self._forget = forget  # drops what was cached from a transaction that was rolled back
        self._connection: sqlite3.Connection | None = None
        self._clean = True  # no transaction of the connection was left in the middle
        self._hurried = False  # its time limit was shortened
        self._look_at = 0.0  # when to look again at the files
        self._identity = _UNKNOWN
        self._logs: _Identities = ()  # of -wal and -shm, while a connection keeps others from removing them
        self._idle: list[sqlite3.Connection] = []
        self._reads: dict[object, sqlite3.Connection | None] = {}  # under way; None until it has its connection
        self._forking = False
        self._hasty = False  # a fork has waited long enough for reads under way
        self._checkpoints = Checkpoints(self)

    # ---- writing --------------------------------------------------------------------------------------------------

    def write(self, until: float, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work(connection, *args)` in a turn to write, taken before the monotonic time `until`.

        StoreBusy if the turn did not come, StoreClosed, StoreTooNew; StoreReplaced if the file is not the one that was
        opened. If `work` raises, its transaction is rolled back.
        """
        patience = min(until, time.monotonic() + BUSY_SECONDS)
        while True:
            try:
                return self._write(until, work, args)
            except sqlite3.OperationalError as error:
                # A writer out of turn loses SQLite's lock to those who take turns, again and again.
                met_lock = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY
                if not (met_lock and self._hurried) or time.monotonic() >= patience:
                    raise

    def _write(self, until: float, work: Callable[..., _R], args: tuple[Any, ...]) -> _R:
        connection = self.open(until)
        page = self._page()
        # Twice: a signal handler that raises may end the first `leave` at any point, even before its first step.
        try:
            try:
                page.enter(until)
                now = time.monotonic()
                if now >= self._look_at or not page.alone:  # another process may have upgraded the file
                    self._look(connection)
                seconds = until - now if page.held else min(_OUT_OF_TURN, until - now)
                if self._hurried or seconds < BUSY_SECONDS / 2:
                    self._limit(connection, seconds)
                self._clean = False
                try:
                    result = work(connection, *args)
                except BaseException as error:
                    page.whole()
                    self._undo(connection, error)
                    raise
                self._clean = True
                self._checkpoints.wrote(connection.total_changes)
                return result
            finally:
                page.leave()
        finally:
            if page.held:
                page.leave()

    def _undo(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Roll back. After an interrupt the connection's state is unknown: then a new connection is opened later."""
        self._forget()
        if isinstance(error, ORDINARY):
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass
            else:
                self._clean = True
                return
        self._discard()

    def _limit(self, connection: sqlite3.Connection, seconds: float) -> None:
        """Shorten SQLite's own wait, out of turn or after a long wait; the next turn sets the usual limit again."""
        self._hurried = seconds < BUSY_SECONDS / 2
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * min(max(seconds, 0), BUSY_SECONDS))}")

    # ---- reading --------------------------------------------------------------------------------------------------

    def read(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work(connection, *args)`, on a connection that no other thread uses meanwhile.

        Beside a fork `work` may be interrupted, and then runs again.
        """
        if self.over:
            raise StoreClosed(CLOSED)
        return self.read_still(work, *args)

    def read_still(self, work: Callable[..., _R], *args: Any) -> _R:
        """Read as `read` does, also while the database is closing. Connections opened for it are closed again."""
        ticket = object()
        try:
            while True:
                self._reads[ticket] = None
                if not self._forking:
                    try:
                        return self._read(ticket, work, args)
                    except (sqlite3.Error, StoreError) as error:
                        if not _is_interrupted(error):
                            raise
                del self._reads[ticket]
                time.sleep(_NAP)
        except FOREIGN as error:
            raise ours(error, self.path) from error
        finally:
            self._reads.pop(ticket, None)

    def _read(self, ticket: object, work: Callable[..., _R], args: tuple[Any, ...]) -> _R:
        look = time.monotonic() >= self._look_at
        try:
            reader = self._idle.pop()
        except IndexError:
            self._same()  # else SQLite would make a new file
            reader = connect(self.path, read_only=True)
        try:
            self._reads[ticket] = reader
            if look:
                self._look(reader)
            found = work(reader, *args)
        except BaseException:
            self._shut(reader)  # its state is unknown
            raise
        self._idle.append(reader)
        self._drain(_IDLE)
        return found

    def _drain(self, keep: int = 0) -> None:
        """Close readers that are not in use: all but `keep`, or all of them once the database is closing."""
        while len(self._idle) > (0 if self.over else keep):
            try:
                reader = self._idle.pop()
            except IndexError:
                return
            self._shut(reader)

    def _shut(self, connection: sqlite3.Connection) -> None:
        """Close a connection. If its log was replaced, leave it: closing the last one would remove the new log."""
        if any(now not in (then, _UNKNOWN) for then, now in zip(self._logs, self._found(), strict=False)):
            leave_alone(connection)
        else:
            connection.close()

    # ---- the files ------------------------------------------------------------------------------------------------

    def open(self, until: float) -> sqlite3.Connection:
        """Return the connection that writes, opened if need be. The caller has paused all other writing.

        NotAStore, StoreTooNew, StoreReadOnly, StoreFull, StoreCorrupt, StoreBusy.
        """
        if self.over:
            raise StoreClosed(CLOSED)
        if not self._clean:
            self._discard()
        connection = self._connection
        return self._opened(until) if connection is None else connection

    def _opened(self, until: float) -> sqlite3.Connection:
        if self._identity != _UNKNOWN:
            self._same()  # else SQLite would make a new file
        refuse_unusable(self.path)
        connection = connect(self.path)
        try:
            page = self._page()
            try:
                page.enter(until)
                upgrade(connection, self.path, create=self._create)
            finally:
                page.leave()
            check_version(connection, self.path)  # the first look into the file opens its log
            self._identity = self._same()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._logs = self._found()
        return connection

    def look(self) -> None:
        """Raise StoreReplaced if the files are not those that were opened. Looks four times a second at most."""
        if time.monotonic() >= self._look_at:
            self._same()

    def _look(self, connection: sqlite3.Connection) -> None:
        """Raise if these are not the files that were opened, or have a newer version."""
        self._look_at = 0.0
        check_version(connection, self.path)
        self._same()
        self._look_at = time.monotonic() + _LOOK

    def _same(self) -> tuple[int, int]:
        """Return the identity of the file. StoreReplaced if it is not the one that was opened first.

        SQLite's files beside it must be the same as well, or stored jobs would be lost: while the connection that
        writes is open, nobody else may remove them.
        """
        self._look_at = 0.0
        identity, logs = _identity(self.path), self._logs
        if identity == _UNKNOWN:
            raise StoreReplaced(f"{self.path} was deleted while it was open: bring it back, or open another")
        if self._identity not in (_UNKNOWN, identity):
            raise StoreReplaced(f"{self.path} was replaced by another file while it was open: open it again")
        for end, now, then in zip(_LOGS, self._found(), logs, strict=False):
            if now != then and logs is self._logs:
                what = "deleted" if now == _UNKNOWN else "replaced by another file"
                raise StoreReplaced(
                    f"{self.path}{end} was {what} while it was open: what was stored last may be lost; "
                    "restart all programs that use this store"
                )
        return identity

    def _found(self) -> _Identities:
        return tuple(_identity(self.path + end) for end in _LOGS)

    # ---- life -----------------------------------------------------------------------------------------------------

    def _discard(self) -> None:
        """Close the connection that writes; its uncommitted changes are rolled back."""
        self._forget()
        self._clean = False
        if self._connection is not None:
            with translated(self.path):
                if self._found() == self._logs:  # else the next use raises StoreReplaced again
                    self._logs = ()  # from here on others may remove them
                self._shut(self._connection)
        self._connection = None  # only now: an interrupt before would leave its transaction open
        self._clean = True

    def close(self) -> None:
        """Release everything. The caller has paused all writing. Reads under way end, and close their connections."""
        self.over = True
        self._checkpoints.close()
        self._drain()
        self._discard()

    def before_fork(self) -> None:
        """Close the connections, once no thread reads. The caller has paused all writing."""
        self._forking = True
        began = time.monotonic()
        while self._reads and (lasted := time.monotonic() - began) < _FORK_MOST:
            if lasted > _FORK_SECONDS:
                self._hasty = True
                self._interrupt()
            time.sleep(_NAP)
        self._drain()
        self._discard()

    def _interrupt(self) -> None:
        for reader in list(self._reads.values()):
            if reader is not None:
                with suppress(sqlite3.ProgrammingError):  # it is closed
                    reader.interrupt()

    def refuse_to_go_on(self) -> None:
        """Raise what ends a read that no interrupt ends, if a fork waits for it; then it begins anew."""
        if self._hasty:
            error = sqlite3.OperationalError("interrupted")
            error.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
            raise error

    def after_fork_in_parent(self) -> None:
        """Let reads begin again."""
        self._forking = self._hasty = False

    def after_fork_in_child(self) -> None:
        """Leave the connections alone that the parent could not close; open new ones at the next use."""
        for connection in [self._connection, *self._idle]:
            leave_alone(connection)
        self._connection, self._clean, self._logs = None, True, ()
        self._idle, self._reads = [], {}
        self._forking = self._hasty = False
        self._look_at = 0.0
        self._forget()


def _is_interrupted(error: Exception) -> bool:
    """Whether `_interrupt` ended a read."""
    said = error.__cause__ if isinstance(error, StoreError) else error
    return getattr(said, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def _identity(path: str) -> tuple[int, int]:
    """Return a value that tells a file from others that have had its name."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return _UNKNOWN
    return found.st_dev, found.st_ino
