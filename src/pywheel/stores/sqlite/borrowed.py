"""A put on a connection of the caller's own, in the transaction that it has under way."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from ..._errors import BadJob, StoreBusy
from ..within import driver_connection
from .connection import translated

__all__ = ["borrowed", "in_savepoint"]

_STALE: Final = "connection=: others have written since this transaction began to read: begin anew, by BEGIN IMMEDIATE"
_NONE: Final = "connection=: there is no transaction, as it commits each statement: begin one"


class _Borrowed:
    """The caller's connection; rows are tuples, whatever it makes of them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._cursor().execute(statement, values)

    def executemany(self, statement: str, rows: Any) -> sqlite3.Cursor:
        """Run a statement for each of some rows."""
        return self._cursor().executemany(statement, rows)

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor


def borrowed(connection: object, path: str) -> sqlite3.Connection:
    """Return what stands for the caller's connection to the file at a path, with a transaction open.

    BadJob if it is a connection to something else, or commits each statement by itself.
    """
    theirs: sqlite3.Connection = driver_connection(connection, ("sqlite3",))
    ours = cast("sqlite3.Connection", _Borrowed(theirs))
    with translated(path):
        files = [file for _, name, file in ours.execute("PRAGMA database_list") if name == "main"]
        if not files[0] or os.path.realpath(files[0]) != path:
            raise BadJob(f"connection=: it is one to {files[0] or 'no file'}, and the jobs are in {path}")
        if theirs.text_factory is not str:
            raise BadJob("connection=: its text_factory must be str")
        if not theirs.in_transaction:
            if theirs.isolation_level is None and getattr(theirs, "autocommit", True) is not False:
                raise BadJob(_NONE)
            ours.execute("BEGIN IMMEDIATE")
    _begin_to_write(ours, path)
    return ours


def _begin_to_write(ours: sqlite3.Connection, path: str) -> None:
    """Take the file's lock before anything is read: then SQLite waits for another writer, and sees what it wrote."""
    try:
        with translated(path):
            ours.execute("DELETE FROM topic WHERE 0")
    except StoreBusy as error:
        if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
            raise StoreBusy(_STALE) from error
        raise


@contextmanager
def in_savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Undo what is done within, if it raises, and leave the transaction open."""
    connection.execute("SAVEPOINT pywheel")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO pywheel")
        raise
    finally:
        connection.execute("RELEASE pywheel")
