"""What PostgreSQL says, as one of our errors: in one line, with what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg import errors as e

from ..._errors import (
    BadJob,
    NotAStore,
    PywheelError,
    StoreAway,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from ..relational.session import Conflict, MetLock

__all__ = ["meaning"]

_Kinds = tuple[type[psycopg.Error], ...]

_USER: Final = "give the right user and password, in the address or in PGPASSWORD"
_CROWDED: Final = "raise max_connections on the server, or let fewer processes connect"
_DATABASE: Final = "create the database, or give the name of another"
_GRANT: Final = "grant what docs/stores-postgres.md lists"
_REPLICA: Final = "this is a replica, or read-only: give the primary's address"
_MIGRATE: Final = "run `pywheel migrate`"

_SAYINGS: Final[tuple[tuple[_Kinds, type[PywheelError], str], ...]] = (
    ((e.UniqueViolation, e.SerializationFailure, e.DeadlockDetected), Conflict, "others change the same: try again"),
    ((e.InvalidPassword, e.InvalidAuthorizationSpecification), NotAStore, _USER),
    ((e.InvalidCatalogName,), NotAStore, _DATABASE),
    ((e.InsufficientPrivilege,), StoreReadOnly, _GRANT),
    ((e.ReadOnlySqlTransaction,), StoreReadOnly, _REPLICA),
    ((e.DiskFull,), StoreFull, "make room on the server"),
    ((e.OutOfMemory,), StoreFull, "give the server more memory, or max_locks_per_transaction if it says so"),
    ((e.TooManyConnections,), StoreBusy, _CROWDED),
    ((e.QueryCanceled,), StoreBusy, "try again; if it was statement_timeout, set it to 0 for this role"),
    ((e.LockNotAvailable,), MetLock, "try again; if it was lock_timeout, set it to 0 for this role"),
    ((e.IdleInTransactionSessionTimeout, e.IdleSessionTimeout), StoreAway, "this process was stopped: try again"),
    ((e.UndefinedTable, e.UndefinedColumn, e.InvalidSchemaName), NotAStore, _MIGRATE),
    ((e.InvalidSqlStatementName, e.DuplicatePreparedStatement), NotAStore, "behind a pooler add ?prepare=off"),
    ((e.DataCorrupted, e.IndexCorrupted), StoreCorrupt, "restore it, or REINDEX"),
    ((e.ProgramLimitExceeded, psycopg.DataError), BadJob, "the server does not take it"),
)
# Of what is said while a connection comes about, the text is all there is.
_TEXTS: Final[tuple[tuple[str, type[PywheelError], str], ...]] = (
    ("too many clients|too many connections|connection slots", StoreBusy, _CROWDED),
    ('database ".*" does not exist', NotAStore, _DATABASE),
    ('authentication failed|password|role ".*" does not exist|pg_hba.conf', NotAStore, _USER),
    ("permission denied", NotAStore, _GRANT),
    ("starting up|shutting down|recovery mode|not yet accepting", StoreAway, "try again when it is up"),
    ("during recovery", StoreReadOnly, _REPLICA),
    ("SSL|certificate|sslmode|invalid", NotAStore, "see sslmode, sslrootcert and the other options of libpq"),
)
_NOISE: Final = re.compile(
    r" This probably means the server terminated.*?request\.| Is the server running.*?\?| LINE [0-9]+: .*"
)


def meaning(error: psycopg.Error, hide: Callable[[object], str]) -> tuple[type[PywheelError], str, str]:
    """Return which error of ours this is, what it says, and what to do. `hide` takes passwords out."""
    said = _NOISE.sub("", hide(error.diag.message_primary or error)) or type(error).__name__
    for kinds, kind, todo in _SAYINGS:
        if isinstance(error, kinds):
            return kind, said, todo
    if error.sqlstate is None or "recovery" in said:
        for text, kind, todo in _TEXTS:
            if re.search(text, said):
                return kind, said, todo
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreAway, said, "is the server up, and the address right?"
    return StoreError, said, ""
