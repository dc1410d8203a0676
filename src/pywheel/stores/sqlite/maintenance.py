"""Maintenance of the file beside running writers: its size, its copies, its integrity, and that of its tables."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from ..._errors import NotAStore, StoreError
from .. import verify as faults
from ..sql import verify as tables
from ..sql.statement import drive
from ..sql.transaction import Names, Transaction
from ..verify import Finding, verified
from .connection import schema_of, translated
from .dialect import NOTE_HIGHEST, SQLITE, Carrier
from .side_files import side_errors

_INCREMENTAL: Final = 2
_COPIED: Final = 256  # pages in one step
_REST: Final = 0.001  # seconds between steps, for others
_TIMES: Final = tables.Check(faults.TIMES, "SELECT id FROM job WHERE typeof(next) <> 'integer'")


def about(connection: sqlite3.Connection, path: str) -> dict[str, Any]:
    """Return where the file is, the version of its schema, and its size."""
    schema = schema_of(connection).version
    files = {"file_bytes": Path(path), "wal_bytes": Path(f"{path}-wal")}
    sizes = {name: file.stat().st_size if file.exists() else 0 for name, file in files.items()}
    return {"path": path, "schema": schema, **sizes, "sqlite": sqlite3.sqlite_version}


def vacuum(connection: sqlite3.Connection, pages: int) -> int:
    """Free about `pages` unused pages; return how many were freed. 0 in a database that another program began."""
    [[before]] = connection.execute("PRAGMA page_count").fetchall()
    connection.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` would give back a single one
    [[after]] = connection.execute("PRAGMA page_count").fetchall()
    return int(before - after)


def rewrite(connection: sqlite3.Connection) -> None:
    """Write the whole file anew without free pages, so that `vacuum` can give back those to come. O(jobs)."""
    connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    connection.execute("VACUUM")


def backup(source: sqlite3.Connection, path: str, target: str, look: Callable[[], None]) -> None:
    """Copy the database as it is now, in steps. StoreError if there is a file at `target` already.

    Args:
        look: called after each step; the copy ends with what it raises.
    """
    part = f"{target}-partial"
    if Path(target).exists():
        raise StoreError(f"{target} exists: give the path of a new file for the backup")
    _make(part)  # before the try: a file that is there already may be another backup's
    try:
        with translated(target):
            with side_errors(part):
                os.chmod(part, os.stat(path).st_mode & 0o666)  # noqa: PTH101, PTH116
            with closing(sqlite3.connect(part)) as copy:
                source.execute("BEGIN")  # one state of the jobs, whatever is written meanwhile
                source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
                source.backup(copy, pages=_COPIED, sleep=_REST, progress=lambda *_: look())
                source.execute("COMMIT")
            with side_errors(target):
                os.link(part, target)  # never over another file
    finally:
        for name in (part, f"{part}-wal", f"{part}-shm", f"{part}-journal"):
            with suppress(OSError):
                Path(name).unlink()
    _keep(target)


def _make(path: str) -> None:
    """Make an empty file. StoreError if there is one already."""
    with side_errors(path):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError as error:
            raise StoreError(f"{path} exists: remove it if no other backup is under way") from error
        except FileNotFoundError as error:
            raise NotAStore(f"there is no folder {Path(path).parent}: create it") from error


def _keep(path: str) -> None:
    """Make the name of a new file survive a loss of power."""
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check(connection: sqlite3.Connection) -> list[str]:
    """Return the faults of the file, [] if there are none. O(file)."""
    found = [row[0] for row in connection.execute("PRAGMA quick_check").fetchall()]
    return [] if found == ["ok"] else found


def find(connection: sqlite3.Connection, now: int) -> list[Finding]:
    """Return the faults of the file and its tables. In a transaction."""
    said = [row[0] for row in connection.execute("PRAGMA integrity_check").fetchall()]
    found = [] if said == ["ok"] else faults.INDEXES.found(said)
    if not connection.execute("SELECT 1 FROM counted").fetchall():
        found += faults.ROWS.found(["counted"])
    look = tables.find(Names("topic"), SQLITE.tallies(), (_TIMES,), "CAST(headers AS BLOB)")  # maybe not UTF-8
    return found + drive(Carrier(connection, now).send, look)


def mended(connection: sqlite3.Connection, tx: Transaction) -> list[Finding]:
    """Mend the file; return its faults, and which of them are mended. In a turn to write."""
    connection.execute("BEGIN IMMEDIATE")
    found = verified(lambda: find(connection, tx.now), lambda: _mend(connection, tx))
    connection.execute("COMMIT")
    return found


def _mend(connection: sqlite3.Connection, tx: Transaction) -> None:
    connection.execute("REINDEX")
    connection.execute(NOTE_HIGHEST)  # before the counts are compared, which are then of all jobs
    carrier = Carrier(connection, tx.now)
    tx.tally.rows = drive(carrier.send, tables.mend(SQLITE.tallies()))
    drive(carrier.send, SQLITE.count(tx))
