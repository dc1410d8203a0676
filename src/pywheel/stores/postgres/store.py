"""The store on PostgreSQL, shared by any number of hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, Final

import psycopg

from ..._errors import StoreAway
from ..address import flag, identifier
from ..relational.lanes import Lane
from ..relational.session import Conflict
from ..relational.store import RelationalStore
from ..sql.statement import Batch, Select
from .connection import Timed, connect, meaning
from .dialect import PostgresDialect
from .migrate import Migration
from .notifier import PostgresNotifier, ring
from .session import PostgresSession, PostgresWithin

_LOCKS: Final = (10, 100)  # ms that a statement waits for a lock, on lanes with `spared`, and on others
_DRIVER: Final = (
    "host hostaddr port dbname user password passfile connect_timeout application_name service options client_encoding "
    "sslmode sslrootcert sslcert sslkey sslcrl sslpassword sslnegotiation channel_binding require_auth gssencmode "
    "krbsrvname target_session_attrs load_balance_hosts keepalives keepalives_idle keepalives_interval "
    "keepalives_count tcp_user_timeout"
).split()


class PostgresStore(RelationalStore):
    """Jobs in tables of one schema of a PostgreSQL database, 13 or later.

    Applied commands are as durable as PostgreSQL's commits: with `synchronous_commit` on, the default, they survive a
    loss of power. `durability` is "fsync" then, "everysec" with it off, and "memory" with `fsync` off. Options after
    the ``?``, besides those of libpq:

    schema      where the tables are; it is made if it is missing. Default: the user's own, mostly ``public``
    prefix      how their names begin; default ``pywheel_``
    timeout     seconds after which an answer is not waited for any longer; default 10
    prepare     ``off``: no prepared statements; behind a pooler that is noticed there are none
    notify      ``off``: workers look for hints, up to fifty times a second, where they cannot listen: behind a pooler
    """

    dialect: PostgresDialect
    own = PostgresSession
    within = PostgresWithin
    hears = PostgresNotifier
    migrate = Migration
    options: ClassVar[dict[str, Callable[[str], Any]]] = {"schema": identifier, "prepare": flag}
    driver_options = _DRIVER
    drivers = ("psycopg", "psycopg2", "asyncpg")
    driver_error = psycopg.Error
    broken = (StoreAway, Conflict)
    meaning = staticmethod(meaning)
    ring = ring

    def _configure(self, known: dict[str, Any], passed: dict[str, str]) -> None:
        self._passed = passed
        self._prepare = known.get("prepare", True)
        schema = f'"{known["schema"]}".' if "schema" in known else ""
        self.dialect = PostgresDialect(schema + self._prefix)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect(self, until: float, *, light: bool = False) -> Timed:
        with self.translated:
            return connect(self._conninfo(), until, light=light, prepare=self._prepare)

    def _conninfo(self) -> str:
        hosts, address = self.address.hosts, self.address
        told = {
            "host": ",".join(host.name for host in hosts) if hosts else None,
            "port": ",".join(str(host.port or "") for host in hosts) if any(host.port for host in hosts) else None,
            "user": address.user,
            "password": address.password,
            "dbname": address.database or None,
        }
        # The encoding in which the pipeline sends texts, whatever the address says.
        values: dict[str, Any] = {"application_name": "pywheel", **self._passed, "client_encoding": "utf8"}
        values |= {name: value for name, value in told.items() if value is not None}
        return psycopg.conninfo.make_conninfo("", **values)

    def _begin_writing(self, connection: Timed, lane: Lane) -> None:
        if not connection.pooled:  # the next client of a pooler's session would have the setting
            connection.execute(f"SET lock_timeout = {_LOCKS[not lane.spared]}")

    def send(self, connection: Timed, batch: Batch, now: int | None) -> list[Any]:
        """Run statements in order on a connection, in one trip; return the rows of each."""
        said = [self.dialect.said(one, now) for one in batch]
        asked = [one for some in said for one in some]
        rows = iter(connection.ask(asked) if asked else ())
        return [([], *islice(rows, len(some)))[-1] for some in said]

    @cached_property
    def dialect_within(self) -> PostgresDialect:
        """The dialect on callers' connections: it names the schema."""
        text = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = :job::text::regclass"
        [[(schema,)]] = self.run(Select(text, {"job": f"{self.dialect.tables}job"}))
        return PostgresDialect(f"{schema}.{self._prefix}")

    def _draw_ids(self, count: int, until: float) -> Sequence[int]:
        text = f"SELECT array(SELECT nextval('{self.dialect.tables}id') FROM generate_series(1, :count))"
        [[(ids,)]] = self.run(Select(text, {"count": count}), until=until)
        return ids  # type: ignore[no-any-return]
