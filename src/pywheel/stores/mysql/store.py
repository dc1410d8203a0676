"""The store on MySQL and MariaDB, shared by any number of hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import pymysql

from ..._errors import StoreAway, StoreError
from ..address import file, flag
from ..relational.lanes import Lane
from ..relational.store import RelationalStore
from ..sql.statement import Batch, Do, Select
from .connection import Interrupted, Timed, connect, meaning
from .dialect import MysqlDialect
from .migrate import Migration
from .notifier import MysqlNotifier, ring
from .session import MysqlSession, MysqlWithin, forgotten

_PORT: Final = 3306
_LARGEST: Final = 2**62
_TLS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("ssl_ca", "ssl_cert", "ssl_key"), file),
    **dict.fromkeys(("ssl_verify_cert", "ssl_verify_identity"), flag),
}


class MysqlStore(RelationalStore):
    """Jobs in tables of a MySQL database, 8.0 or later, or MariaDB, 10.6 or later.

    `durability` is "fsync" where the server has innodb_flush_log_at_trx_commit = 1, else "everysec". Options after the
    ``?``:

    prefix        how the names of the tables begin; default ``pywheel_``
    timeout       seconds after which an answer is not waited for any longer; default 10
    notify        ``off``: workers look for changes, instead of being woken; needed behind a proxy
    unix_socket   the path of the server's socket
    ssl_ca, ssl_cert, ssl_key, ssl_verify_cert, ssl_verify_identity   as PyMySQL has them
    """

    dialect: MysqlDialect
    own = MysqlSession
    within = MysqlWithin
    hears = MysqlNotifier
    migrate = Migration
    options = _TLS
    driver_options = ("unix_socket",)
    drivers = ("pymysql", "aiomysql", "asyncmy")
    driver_error = pymysql.Error
    meaning = staticmethod(meaning)
    ring = ring
    broken = (StoreAway, Interrupted)

    def _configure(self, known: dict[str, Any], passed: dict[str, str]) -> None:
        self._options: dict[str, Any] = passed | {name: known[name] for name in known.keys() & _TLS.keys()}
        if "ssl_ca" in known:  # PyMySQL would not check the server's identity
            self._options = {"ssl_verify_cert": True, "ssl_verify_identity": True} | self._options
        if "unix_socket" in passed:
            self._options["ssl_disabled"] = True  # nobody can listen on the socket, and TLS takes long to begin
        self.dialect = MysqlDialect(self._prefix)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect(self, until: float) -> Timed:
        address = self.address
        host = address.hosts[0] if address.hosts else None
        with self.translated:
            connection = connect(
                until,
                host=(host and host.name) or "localhost",
                port=(host and host.port) or _PORT,
                user=address.user,
                password=address.password or "",
                database=address.database or None,
                **self._options,
            )
        self.dialect.returning = connection.mariadb
        return connection

    def _begin_writing(self, connection: Timed, lane: Lane) -> None:  # noqa: ARG002
        # MySQL cannot wait for less. MariaDB can for 0, but then some of its commits fail.
        connection.ask(["SET SESSION autocommit = 0, innodb_lock_wait_timeout = 1"])

    def _end_writing(self, lane: Lane) -> None:
        with suppress(StoreError, pymysql.Error, OSError):
            if lane.writer is not None:
                lane.writer.until = time.monotonic() + self._seconds
                self.send(lane.writer, (forgotten(lane.client, _LARGEST), Do("COMMIT")), None)
        super()._end_writing(lane)

    def send(self, connection: Timed, batch: Batch, now: int | None) -> list[Any]:
        """Run statements in order on a connection, in one trip if they fit; return the rows of each."""
        texts, places = self.dialect.texts(batch, now)
        results = connection.ask(texts) if texts else []
        return [() if place is None else results[place] for place in places]

    def raw(self, texts: Sequence[str]) -> list[Sequence[Any]]:
        """Return the rows of each statement. The statements may run twice."""
        return self.reading(lambda connection: connection.ask(texts))

    @cached_property
    def dialect_within(self) -> MysqlDialect:
        """The dialect on callers' connections: it names the database."""
        dialect = MysqlDialect(self._prefix)
        dialect.tables = f"`{self.address.database.replace('`', '``')}`.{self._prefix}"
        dialect.returning = self.dialect.returning
        return dialect

    def _draw_ids(self, count: int, until: float) -> Sequence[int]:
        text = "UPDATE number SET value = last_insert_id(value + :count) WHERE name = 'id';\nSELECT last_insert_id()"
        [[(last,)]] = self.run(Select(text, {"count": count}), until=until)
        return range(last - count + 1, last + 1)
