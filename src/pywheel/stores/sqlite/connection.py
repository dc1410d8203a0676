"""Opening a database file: settings, version, and SQLite's errors as pywheel's."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from ..._errors import BadJob, NotAStore, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from ..schema import Schema, of_migrations
from . import forks
from .dialect import SCHEMA
from .side_files import NO_ROOM, said_by_system

MIGRATIONS: Final = [SCHEMA]
"""The scripts that lead from one version of a file to the next, from version 0 on."""
APPLICATION: Final = 0x70797768  # "pywh": marks the file as ours
BUSY_SECONDS: Final = 5.0
_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",  # a commit is on the disk when it returns
    "PRAGMA cache_size = -65536",  # KiB, taken only as pages are read
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = FAST",
    "PRAGMA mmap_size = 0",
    "PRAGMA wal_autocheckpoint = 4000",  # pages, 8 MB: where `Checkpoints` falls behind
)
FOREIGN: Final = (sqlite3.Error, UnicodeError, json.JSONDecodeError, KeyError, IndexError, OverflowError)
"""The errors that Python's sqlite3, and rows of a damaged file, may raise."""
_OLDEST: Final = (3, 38)
_HALF: Final = 1 << 16
_PAGE_SIZE: Final = 2048  # jobs are small: fewer bytes to log for each


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a file with pywheel's settings. Any thread may use the connection, one at a time."""
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: use a Python with SQLite 3.38 or later")
    with translated(path):
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            for setting in _SETTINGS:
                connection.execute(setting)
            if read_only:
                connection.execute("PRAGMA query_only = 1")
        except BaseException:
            connection.close()
            raise
    return connection


def refuse_unusable(path: str) -> None:
    """Raise StoreReadOnly for a file that may not be written: SQLite would make read-only files beside it, which stay.

    NotAStore for a device or a pipe: it would be written to.
    """
    with suppress(OSError):  # SQLite says what is wrong
        mode = os.stat(path).st_mode  # noqa: PTH116
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise NotAStore(f"{path} is a device or a pipe: give the path of a file")
        if stat.S_ISREG(mode) and not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise StoreReadOnly(_UNWRITABLE.format(path=path))


def upgrade(connection: sqlite3.Connection, path: str, *, create: bool) -> None:
    """Bring the file to this version: a new one from nothing, an older one with all its jobs, a copy without a log.

    Each step is one transaction. NotAStore for another program's database, and for an empty one unless `create` is set;
    StoreTooNew for one of a later version.
    """
    with translated(path):
        found, application = schema_of(connection), _application(connection)
        if application != APPLICATION or found.version != len(MIGRATIONS):
            [tables] = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if application != APPLICATION and (tables or found.version or application):
                unmarked = not (application or found.version)
                beside = f"; for both in one, pywheel.stores.sqlite.adopt({path!r})" if unmarked else ""
                raise NotAStore(f"{path} is a database of another program: give the jobs a file of their own{beside}")
            found.refuse(len(MIGRATIONS), path)
        if found.version == 0:
            if not create:
                raise NotAStore(f"{path} is empty: put a job first, or give the right address")
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table, or never
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            [mode] = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(f"{path}: SQLite cannot keep a write-ahead log here: use a folder on a local disk")
        for number in range(found.version, len(MIGRATIONS)):
            _step(connection, number)


def adopt(path: str | Path) -> None:
    """Mark a SQLite database as one in which the jobs' tables may be made. A store that opens it then makes them.

    One transaction. A file that is a store, or empty, does not change. The other program's tables stay as they are. The
    database gets a write-ahead log, which SQLite keeps in files beside it.

    Raises:
        NotAStore: another program has marked the file, or has a table by a name that the jobs' tables have.
        StoreError: the file cannot be used.
    """
    path = str(path)
    with forks.gate(), closing(connect(path)) as connection, translated(path):
        connection.execute("BEGIN IMMEDIATE")
        names = {name for [name] in connection.execute("SELECT name FROM sqlite_schema")}
        application = _application(connection)
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if names and application != APPLICATION:
            if application or version:
                raise NotAStore(f"{path} belongs to another program: give the jobs a file of their own")
            if taken := sorted(names & _ours()):
                raise NotAStore(f"{path} already has a table {taken[0]!r}: give the jobs a file of their own")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("COMMIT")


def _ours() -> set[str]:
    """Return the names of all that the schema makes."""
    return set(re.findall(r"^CREATE (?:UNIQUE )?[A-Z]+ (\w+)", "\n".join(MIGRATIONS), re.MULTILINE))


def check_version(connection: sqlite3.Connection, path: str) -> None:
    """Raise StoreTooNew if a newer pywheel has upgraded the file meanwhile."""
    with translated(path):
        found = schema_of(connection)
    found.refuse(len(MIGRATIONS), path)


def schema_of(connection: sqlite3.Connection) -> Schema:
    """Return the file's schema: its version and, in the upper half of the number, the least version that can use it."""
    [number] = connection.execute("PRAGMA user_version").fetchone()
    least, version = divmod(number, _HALF)
    return Schema(version, least or version)


def _application(connection: sqlite3.Connection) -> int:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    return int(application)


def _step(connection: sqlite3.Connection, number: int) -> None:
    """Apply one migration, unless another process has meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if schema_of(connection).version == number:
            for statement in MIGRATIONS[number].split(";\n"):  # `executescript` would commit first
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            made = of_migrations(MIGRATIONS[: number + 1])
            least = made.least if made.least < made.version else 0
            connection.execute(f"PRAGMA user_version = {made.version + least * _HALF}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise SQLite's errors as pywheel's, with advice."""
    try:
        yield
    except FOREIGN as error:
        raise ours(error, path) from error


def ours(error: Exception, path: str) -> StoreError | BadJob:
    """Return the pywheel error for one of the FOREIGN errors."""
    if isinstance(error, OverflowError | UnicodeEncodeError):
        return BadJob(f"a value that cannot be stored: {error}")
    undecodable = isinstance(error, sqlite3.OperationalError) and "Could not decode to UTF-8" in str(error)
    if undecodable or not isinstance(error, sqlite3.Error):  # sqlite3 has no code for invalid UTF-8
        return StoreCorrupt(_DAMAGED.format(path=path, error=error))
    code = getattr(error, "sqlite_errorcode", None) or 0
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(path)
    kind, said = _SAID.get(code) or _SAID.get(code & 0xFF) or (StoreError, "{path}: {error} {name}")
    name = getattr(error, "sqlite_errorname", "") or ""
    return kind(said.format(path=path, error=error, name=name).rstrip())


_DAMAGED: Final = "{path} is damaged ({error}): restore it from a backup, or try `sqlite3 {path} .recover`"
_MEND: Final = "mend the permissions of the file and its folder, or mount its disk for writing"
_UNWRITABLE: Final = f"{{path}} cannot be written: {_MEND}"
_LOCKED: Final = (
    f"{{path}} was locked for {BUSY_SECONDS:g} s by another transaction, of this program or another one: end it, or "
    "try again; a put inside it takes connection="
)
_UNSYNCED: Final = (
    "{path}: the disk did not confirm what was written ({error} {name}): look at the disk; if the program ends before "
    "it stores anything else, this may have happened all the same"
)
_SAID: Final[dict[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_FULL: (StoreFull, NO_ROOM),
    sqlite3.SQLITE_IOERR_SHMSIZE: (StoreFull, NO_ROOM),  # SQLite could not lengthen its -shm file
    sqlite3.SQLITE_IOERR_FSYNC: (StoreError, _UNSYNCED),
    sqlite3.SQLITE_IOERR_DIR_FSYNC: (StoreError, _UNSYNCED),
    sqlite3.SQLITE_BUSY: (StoreBusy, _LOCKED),
    sqlite3.SQLITE_LOCKED: (StoreBusy, _LOCKED),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, _UNWRITABLE),
    sqlite3.SQLITE_PERM: (StoreReadOnly, _UNWRITABLE),
    sqlite3.SQLITE_NOTADB: (NotAStore, "{path} is not a SQLite database: give another file"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, _DAMAGED),
}


def _cannot_open(path: str) -> StoreError:
    folder = Path(path).parent
    try:
        if os.path.isdir(path):  # noqa: PTH112  (Path's raises where this one returns False)
            return NotAStore(f"{path} is a folder: give the path of a file in it")
        # The system's error, where SQLite has none. Opening and closing the file itself would end SQLite's locks on it.
        os.close(os.open(os.devnull, os.O_RDONLY))
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        if not folder.is_dir():
            return NotAStore(f"{path} cannot be opened: there is no folder {folder}: create it")
    except OSError as error:
        return said_by_system(error, path)
    return StoreReadOnly(
        f"{path} cannot be opened: mend the permissions of the file and its folder, or mount its disk for writing"
    )
