"""Connections to PostgreSQL: no answer is waited for beyond a time limit, and every error is one of ours."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors, waiting
from psycopg.generators import PQGen  # type: ignore[attr-defined]
from psycopg.waiting import Ready, Wait
from psycopg.types.string import StrDumper, TextLoader

from ..._errors import (
    BadJob,
    NotAStore,
    PywheelError,
    StoreAway,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from ..relational.session import Conflict

__all__ = ["Timed", "connect", "translated"]

_V = TypeVar("_V")

_OLDEST: Final = 130_000
_CONNECT: Final = 5.0  # seconds that a connection may take to come about


class _Dumper(StrDumper):
    """Text in which NUL, which PostgreSQL's cannot hold, is written as two characters."""

    def dump(self, obj: str) -> Any:
        if "\0" in obj or "\1" in obj:
            obj = obj.replace("\1", "\1\2").replace("\0", "\1\1")
        return super().dump(obj)


class _Loader(TextLoader):
    """The same text, read."""

    def load(self, data: Any) -> Any:
        text = super().load(data)
        return text.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in text else text


class Timed(psycopg.Connection[Any]):
    """A connection that is closed if an answer does not come in time: the server may be stopped, or cut off."""

    until: float = math.inf

    def wait(self, gen: PQGen[_V], interval: float = 0.0, timeout: float | None = None) -> _V:
        """Wait for an answer. StoreAway beyond `until`."""
        left = self.until - time.monotonic()
        if timeout is not None:
            left = min(left, timeout)
        try:
            return waiting.wait(self._all_sent(gen), self.pgconn.socket, interval=0.5, timeout=min(max(left, 0.001), 1e6))
        except errors._WaitTimeout:
            self.pgconn.finish()
            raise StoreAway("the server did not answer in time: the connection was given up; try again") from None
        except (KeyboardInterrupt, SystemExit):
            self.pgconn.finish()  # what it was in the middle of, nobody knows
            raise

    def _all_sent(self, gen: PQGen[_V]) -> PQGen[_V]:
        """Send all that is to be sent before an answer is waited for.

        A pipeline of psycopg 3.3 waits for the answer to what lies in libpq's buffer, if the socket would not take it.
        """
        try:
            wanted = next(gen)
            while True:
                if wanted is Wait.R and self.pgconn.flush():
                    ready = yield Wait.RW
                    if not ready & Ready.R:
                        continue
                else:
                    ready = yield wanted
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def connect(conninfo: str, until: float, *, light: bool = False, prepare: bool = True) -> Timed:
    """Return a new connection. StoreAway, NotAStore. A `light` one need not wait for the disk when it commits."""
    left = max(min(until - time.monotonic(), _CONNECT), 1)
    connection = Timed.connect(
        conninfo, autocommit=True, connect_timeout=math.ceil(left), prepare_threshold=1 if prepare else None
    )
    connection.until = until
    connection.adapters.register_dumper(str, _Dumper)
    connection.adapters.register_loader("text", _Loader)
    try:
        if connection.info.server_version < _OLDEST:
            raise NotAStore(
                f"this is PostgreSQL {connection.info.server_version // 10_000}: the store needs 13 or later"
            )
        # Plans that find rows by their keys, whatever the statistics of a table say that was empty a minute ago.
        connection.execute(
            "SELECT set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false), "
            "set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), "
            "set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false), "
            "set_config('client_min_messages', 'warning', false)"
            + (", set_config('synchronous_commit', 'off', false)" if light else "")
        )
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def translated(hide: Callable[[object], str], shown: str) -> Iterator[None]:
    """Raise what PostgreSQL says as one of our errors. `hide` takes passwords out, `shown` is the address."""
    try:
        yield
    except PywheelError:
        raise
    except psycopg.Error as error:
        raise ours(error, hide(error), shown) from error
    except OSError as error:
        raise StoreAway(f"{shown}: {error}") from error


def ours(error: psycopg.Error, said: str, shown: str) -> PywheelError:
    """Return the error of ours that says what a server's says."""
    said = said or type(error).__name__
    state = error.sqlstate or ""
    match error:
        case errors.UniqueViolation() | errors.SerializationFailure() | errors.DeadlockDetected():
            return Conflict(f"{shown}: others changed the same all the time: try again")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return NotAStore(f"{shown}: {said}: give the right user and password, in the address or in PGPASSWORD")
        case errors.InvalidCatalogName():
            return NotAStore(f"{shown}: {said}: create it (createdb), or give another")
        case errors.InsufficientPrivilege():
            return StoreReadOnly(f"{shown}: {said}: grant what docs/stores-postgres.md lists")
        case errors.ReadOnlySqlTransaction():
            return StoreReadOnly(f"{shown}: the server is a replica, or read-only: give the address of the primary")
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreFull(f"{shown}: {said}: make room on the server")
        case errors.TooManyConnections() | errors.QueryCanceled() | errors.LockNotAvailable():
            return StoreBusy(f"{shown}: {said}: try again")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            return NotAStore(f"{shown}: {said}: run `pywheel migrate`")
        case errors.ProgramLimitExceeded() | psycopg.DataError():
            return BadJob(f"{shown}: {said}")
    if state.startswith("28"):
        return NotAStore(f"{shown}: {said}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        if "authentication failed" in said or "no password supplied" in said or "does not exist" in said:
            return NotAStore(f"{shown}: {said}")
        return StoreAway(f"{shown}: {said}: is the server up, and the address right?")
    return StoreError(f"{shown}: {said}")
