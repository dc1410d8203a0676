"""The store on PostgreSQL, shared by as many hosts as there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

import psycopg

from ..._errors import StoreAway, StoreError
from ...clock import Clock
from ..address import Address, flag, identifier, seconds
from ..relational.notifier import RelationalNotifier
from ..relational.presence import WorkerQueries
from ..relational.store import RelationalStore
from ..sql.statement import Insert, NewNames, NewPriorities, Steps
from ..verify import Finding
from . import migrate, verify
from .connection import Timed, connect
from .dialect import PostgresDialect, numbers
from .notifier import LookingNotifier, PostgresNotifier
from .sayings import translated
from .session import PostgresSession, PostgresWithin, rows_of, started
from .statements import statements
from .workers import PostgresWorkers

__all__ = ["PostgresStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOCKS: Final = (10, 100)  # ms that a statement waits for a lock, where it is to wait the least, and else
_DRIVER: Final = (
    "host hostaddr port dbname user password passfile connect_timeout application_name service options client_encoding "
    "sslmode sslrootcert sslcert sslkey sslcrl sslpassword sslnegotiation channel_binding require_auth gssencmode "
    "krbsrvname target_session_attrs load_balance_hosts keepalives keepalives_idle keepalives_interval "
    "keepalives_count tcp_user_timeout"
).split()


class PostgresStore(RelationalStore):
    """Jobs in tables of one schema of a PostgreSQL database, 13 or later.

    What was applied survives what PostgreSQL's commits survive: with `synchronous_commit` on, as it is unless somebody
    changed it, the loss of power. Options after the ``?``, beside those of libpq:

    schema      where the tables are; it is made if it is missing. Default: the user's own, mostly ``public``
    prefix      how their names begin; default ``pywheel_``
    timeout     seconds after which an answer is not waited for any longer; default 10
    prepare     ``off``: no prepared statements; behind a pooler that is noticed there are none
    notify      ``off``: workers look for hints, up to fifty times a second, where they cannot listen: behind a pooler
    """

    dialect: PostgresDialect
    own = PostgresSession
    within = PostgresWithin
    drivers = ("psycopg", "psycopg2")

    def __init__(self, address: Address, *, clock: Clock | None = None, create: bool = True) -> None:
        self._configure(address)
        super().__init__(clock)
        with self._use() as connection:
            migrate.upgrade(connection, self._schema, self._prefix, self.shown, create=create)
        self._hear()

    def _configure(self, address: Address) -> None:
        """Take in what the address says."""
        known, self._passed = address.split(
            {"schema": identifier, "prefix": identifier, "timeout": seconds, "prepare": flag, "notify": flag}, _DRIVER
        )
        self._reach(address, known)
        self._prepare = known.get("prepare", True)
        self._schema: str | None = known.get("schema")
        self._tables = self._prefix if self._schema is None else f'"{self._schema}".{self._prefix}'
        self.dialect = PostgresDialect(self._tables)
        self._sql = statements(self._tables)

    @classmethod
    def migration(cls, address: Address) -> str:
        """Return the statements that make the tables, or bring them up to date; "" if they are."""
        store = cls.__new__(cls)
        store._configure(address)
        try:
            with store._use() as connection:
                version = migrate.schema_of(connection, store._schema, store._prefix).version
        finally:
            store._connections.close()
        return migrate.script(store._schema, store._prefix, version)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect(self, until: float, *, light: bool = False) -> Timed:
        with self.translated():
            return connect(self._conninfo(), until, light=light, prepare=self._prepare)

    def _conninfo(self) -> str:
        address = self.address
        values: dict[str, Any] = {"application_name": "pywheel", "client_encoding": "utf8", **self._passed}
        if address.hosts:
            values["host"] = ",".join(host.name for host in address.hosts)
            if any(host.port for host in address.hosts):
                values["port"] = ",".join(str(host.port or "") for host in address.hosts)
        if address.user is not None:
            values["user"] = address.user
        if address.password is not None:
            values["password"] = address.password
        if address.database:
            values["dbname"] = address.database
        return psycopg.conninfo.make_conninfo("", **values)

    def _translating(self) -> AbstractContextManager[None]:
        return translated(self.address.hide, self.shown)

    def _begin_writing(self, connection: Timed) -> None:
        if not connection.pooled:  # settings of a pooler's session are left to whoever has it next
            connection.execute(f"SET lock_timeout = {_LOCKS[not self._spared]}")

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _read(self, name: str, /, until: float | None = None, **values: Any) -> list[Any]:
        """Return the rows of a statement."""
        values = {"now": self.now, **values}
        return self._reading(lambda connection: connection.execute(self._sql[name], values).fetchall(), until)

    def _read_steps(self, begin: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what a query comes to: all of its statements see one moment."""

        def read(connection: Timed) -> _R:
            steps = begin(*args, **kwargs)
            try:
                batch = next(steps)
                with connection.pipeline():
                    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    cursors = started(connection.execute, self.dialect, batch, self.now)
                while True:
                    batch = steps.send(rows_of(cursors))
                    with connection.pipeline():
                        cursors = started(connection.execute, self.dialect, batch, self.now)
            except StopIteration as end:
                if not connection.ready:
                    with suppress(psycopg.Error):  # all is read
                        connection.execute("COMMIT")
                return end.value  # type: ignore[no-any-return]

        return self._reading(read)

    @cached_property
    def database(self) -> str:  # type: ignore[override]
        """The name of the database, as the server says it."""
        [(name,)] = self._read("database")
        return str(name)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def status(self, transaction: str, born: str, until: float) -> str | None:
        """Return what became of a transaction of a server that was started then, whose connection broke."""
        try:
            [(status,)] = self._read("status", until, id=transaction, born=born)
        except StoreAway:
            return "in progress"
        return None if status is None else str(status)

    def is_there(self, id: int, until: float) -> bool:
        """Return whether there is a job."""
        return bool(self._read("present", until, ids=numbers([id])))

    def there(self, connection: Timed, insert: Insert) -> list[int]:
        """Return which of some new jobs are stored."""
        with self.translated():
            ids = {"ids": numbers(row[0] for row in insert.rows)}
            return [id for [id] in connection.execute(self._sql["present"], ids).fetchall()]

    def _draw_ids(self, count: int) -> Sequence[int]:
        return [id for [id] in self._read("ids", count=count)]

    def commit_alone(self, one: NewNames | NewPriorities) -> None:
        """Store names or priorities, and commit. StoreBusy: others hold what this waits for beyond the time limit."""
        with self._use() as connection:
            started(connection.execute, self.dialect, (one,), self.now)

    def _fold(self) -> None:
        with self._use() as connection:
            connection.execute(self._sql["fold"])

    def _met_lock(self, error: StoreError) -> bool:
        return isinstance(error.__cause__, psycopg.errors.LockNotAvailable)

    def _verified(self, connection: Timed, *, repair: bool) -> list[Finding]:
        return verify.mended(connection, self.dialect, self.now) if repair else verify.find(connection, self.dialect)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _workers_queries(self) -> WorkerQueries:
        return PostgresWorkers(self)

    def _new_notifier(self, name: str) -> RelationalNotifier:
        return (PostgresNotifier if self.notifies else LookingNotifier)(self, name)

    def _due_now(self, ids: Sequence[int]) -> list[tuple[int, int, str, int]]:
        return [tuple(row) for row in self._read("due_now", ids=numbers(ids))]
