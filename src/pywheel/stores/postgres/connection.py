"""Connections to PostgreSQL. Every wait for an answer has a limit, and every error is one of pywheel's."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors, waiting
from psycopg.generators import PQGen  # type: ignore[attr-defined]

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
from .pipeline import ADAPTERS, Asked, Pipeline, Row

_V = TypeVar("_V")

_OLDEST: Final = 130_000
_CONNECT: Final = 5.0  # seconds to wait for a connection
# Plans that find rows by their keys, whatever the statistics say of a table that was empty a minute ago.
_SETTINGS: Final = (
    "SELECT pid, CASE WHEN pid = %(pid)s THEN concat("
    "set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false), "
    "set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), "
    "set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false), "
    "set_config('client_min_messages', 'warning', false), "
    # A process that is stopped in the middle of a transaction keeps its locks no longer.
    "set_config('idle_in_transaction_session_timeout', '3000', false)) END FROM pg_backend_pid() AS p (pid)"
)
_LIGHT: Final = "set_config('synchronous_commit', 'off', false), "
_LASTING: Final = "set_config('idle_session_timeout', '0', false), "  # a listening worker is idle on purpose
# A session that was given up ends though it waits for a lock. Servers on some systems refuse the setting.
_NOTICED: Final = (
    "set_config('client_connection_check_interval', CASE WHEN version() LIKE '%%linux%%' THEN '1000' "
    "ELSE current_setting('client_connection_check_interval') END, false), "
)
_SINCE: Final = 140_000  # the version that has these two


class Timed(psycopg.Connection[Any]):
    """A connection that is closed if an answer does not come in time: the server may be stopped, or cut off."""

    until: float = math.inf
    pooled = False
    """Whether a pooler such as pgbouncer may give it another session for each transaction."""
    trips: Pipeline

    def wait(self, gen: PQGen[_V], interval: float = 0.5, timeout: float | None = None) -> _V:
        """Wait for an answer. StoreAway beyond `until`."""
        left = self.until - time.monotonic()
        if timeout is not None:
            left = min(left, timeout)
        left = min(max(left, 0.001), 1e6)
        try:
            return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=left)
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise StoreAway("the server did not answer in time: the connection was given up") from None
        except psycopg.Error:
            raise
        except BaseException:  # from a signal handler: the answer under way would be taken for another statement's
            self.pgconn.finish()
            raise

    def ask(self, statements: Sequence[Asked]) -> list[list[Row]]:
        """Run statements in order, in one trip; return the rows of each. None runs after one that fails."""
        return self.wait(self.trips.answers(statements))

    @property
    def ready(self) -> bool:
        """Whether the connection is open and idle, as libpq sees it."""
        return self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def end(self) -> None:
        """Close the connection, whatever is under way."""
        with suppress(psycopg.Error):
            self.close()

    def roll_back(self) -> None:
        """Roll back; close it if that fails."""
        try:
            self.execute("ROLLBACK")
        except (psycopg.Error, StoreError):
            self.close()


def connect(conninfo: str, until: float, *, light: bool = False, prepare: bool = True) -> Timed:
    """Return a new connection. StoreAway, NotAStore. A `light` one need not wait for the disk when it commits."""
    left = max(min(until - time.monotonic(), _CONNECT), 1)
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "context": ADAPTERS}
    connection = Timed.connect(conninfo, connect_timeout=math.ceil(left), **options)
    version = connection.info.server_version
    if version < _OLDEST:
        connection.close()
        raise NotAStore(f"this is PostgreSQL {version // 10_000}: the store needs 13 or later")
    connection.until = until
    try:
        # A pooler makes up the session's number. Its sessions keep no settings, as the next client would have them.
        more = (_LIGHT if light else "") + (_LASTING + _NOTICED if version >= _SINCE else "")
        settings = _SETTINGS.replace("concat(", f"concat({more}")
        [(pid, _)] = connection.execute(settings.encode(), {"pid": connection.info.backend_pid}).fetchall()
        if pid != connection.info.backend_pid:
            connection.pooled = True
        connection.trips = Pipeline(connection.pgconn, prepares=prepare and not connection.pooled)
    except BaseException:
        connection.close()
        raise
    if connection.pooled and light:
        connection.close()
        raise NotAStore(
            "a pooler such as pgbouncer stands before the server, and notifications do not pass it: give workers "
            "the address of the server itself, or ?notify=off, and they look for hints"
        )
    return connection


_USER: Final = "give the right user and password, in the address or in PGPASSWORD"
_CROWDED: Final = "raise max_connections on the server, or let fewer processes connect"
_DATABASE: Final = "create the database, or give the name of another"
_GRANT: Final = "grant what docs/stores-postgres.md lists"
_PREPARED: Final = "behind a pooler add ?prepare=off, and give a connection of your own prepare_threshold=None"
_REPLICA: Final = "this is a replica, or read-only: give the primary's address"
_SAYINGS: Final[tuple[tuple[str, type[PywheelError], str], ...]] = (
    ("UniqueViolation SerializationFailure DeadlockDetected", Conflict, "others change the same: try again"),
    ("FeatureNotSupported", Conflict, "others have altered the tables: try again"),  # of a prepared statement
    ("InvalidPassword InvalidAuthorizationSpecification", NotAStore, _USER),
    ("InvalidCatalogName", NotAStore, _DATABASE),
    ("InsufficientPrivilege", StoreReadOnly, _GRANT),
    ("ReadOnlySqlTransaction", StoreReadOnly, _REPLICA),
    ("DiskFull", StoreFull, "make room on the server"),
    ("OutOfMemory", StoreFull, "give the server more memory, or max_locks_per_transaction if it says so"),
    ("TooManyConnections", StoreBusy, _CROWDED),
    ("QueryCanceled", StoreBusy, "try again; if it was statement_timeout, set it to 0 for this role"),
    ("LockNotAvailable", MetLock, "try again; if it was lock_timeout, set it to 0 for this role"),
    ("IdleInTransactionSessionTimeout IdleSessionTimeout", StoreAway, "this process was stopped: try again"),
    ("UndefinedTable UndefinedColumn InvalidSchemaName", NotAStore, "run `pywheel migrate`"),
    ("InvalidSqlStatementName DuplicatePreparedStatement", NotAStore, _PREPARED),
    ("DataCorrupted IndexCorrupted", StoreCorrupt, "restore it, or REINDEX"),
    ("ProgramLimitExceeded DataError", BadJob, "the server does not take it"),
)
# While a connection is made, errors have only a text.
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
    """Return the pywheel error for a driver's error, its message, and the advice. `hide` takes passwords out."""
    said = _NOISE.sub("", hide(error.diag.message_primary or error)) or type(error).__name__
    for names, kind, todo in _SAYINGS:
        if isinstance(error, tuple(getattr(errors, name) for name in names.split())):
            return kind, said, todo
    if error.sqlstate is None or "recovery" in said:
        for text, kind, todo in _TEXTS:
            if re.search(text, said):
                return kind, said, todo
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreAway, said, "is the server up, and the address right?"
    return StoreError, said, ""
