"""The store on MySQL and MariaDB, shared by as many hosts as there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import count
from secrets import token_bytes
from typing import Any, Final, ParamSpec, TypeVar

import pymysql

from ..._errors import StoreAway, StoreError
from ...clock import Clock
from ..address import Address, file, flag, identifier, seconds
from ..relational.notifier import RelationalNotifier
from ..relational.presence import WorkerQueries
from ..relational.session import Unknown
from ..relational.store import RelationalStore
from ..sql.statement import NewNames, NewPriorities, Rows, Select, Steps
from ..verify import Finding
from . import migrate, verify
from .connection import AlreadyThere, Interrupted, Result, Timed, connect, translated
from .dialect import MysqlDialect, hashed, in_parts
from .notifier import MysqlNotifier
from .session import MysqlSession, MysqlWithin
from .statements import Raw, Statements
from .workers import Workers

__all__ = ["MysqlStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PORT: Final = 3306
_KEPT: Final = 86_400_000  # ms for which it is known of a transaction that it happened
_LARGEST: Final = 2**62
_SNAPSHOT: Final = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
_LOCK_WAIT_TIMEOUT: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
_TLS: Final[dict[str, Callable[[str], Any]]] = {
    "ssl_ca": file,
    "ssl_cert": file,
    "ssl_key": file,
    "ssl_verify_cert": flag,
    "ssl_verify_identity": flag,
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
    drivers = ("pymysql",)
    broken = (StoreAway, Interrupted)

    @classmethod
    def migration(cls, address: Address) -> str:
        """Return the statements that make the tables, or bring them up to date; "" if they are."""
        store = cls.__new__(cls)
        store._configure(address)
        try:
            with store._use() as connection:
                version = migrate.schema_of(connection, store._prefix).version
                return migrate.script(store._prefix, version, mariadb=connection.mariadb)
        finally:
            store._connections.close()

    def __init__(self, address: Address, *, clock: Clock | None = None, create: bool = True) -> None:
        self._configure(address)
        super().__init__(clock)
        with self._use() as connection:
            migrate.upgrade(connection, self._prefix, self.shown, create=create)
            [flushed, place] = connection.ask(["SELECT @@innodb_flush_log_at_trx_commit", "SELECT database()"])
        self.durability = "fsync" if flushed.rows[0][0] == 1 else "everysec"
        self.database = str(place.rows[0][0])
        self.lock = f"pywheel.{hashed(self.database + '.' + self._prefix).hex()[:16]}."
        """How the names of the workers' locks begin: they are the server's, not the database's."""
        self._hear()

    def _configure(self, address: Address) -> None:
        """Take in what the address says."""
        known, passed = address.split(
            {"prefix": identifier, "timeout": seconds, "notify": flag} | _TLS, ("unix_socket",)
        )
        self._reach(address, known)
        self._options: dict[str, Any] = passed | {name: known[name] for name in known.keys() & _TLS.keys()}
        if "ssl_ca" in known:  # PyMySQL would not look who it talks to
            self._options = {"ssl_verify_cert": True, "ssl_verify_identity": True} | self._options
        if "unix_socket" in passed:
            self._options["ssl_disabled"] = True  # nobody listens there, and TLS takes long to begin
        self._sql = Statements(self._prefix)
        self.dialect = MysqlDialect(self._prefix)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect(self, until: float) -> Timed:
        address = self.address
        host = address.hosts[0] if address.hosts else None
        with self.translated():
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

    def _translating(self) -> AbstractContextManager[None]:
        return translated(self.address.hide, self.shown)

    def _begin_writing(self, connection: Timed) -> None:
        # MySQL cannot wait for less. MariaDB can for 0, but then some of its commits fail.
        connection.ask(["SET SESSION autocommit = 0, innodb_lock_wait_timeout = 1"])

    # ---- reading ----------------------------------------------------------------------------------------------------

    def run(self, texts: Sequence[str]) -> list[Result]:
        """Return what statements give; once more if a connection was found closed: they may be run twice."""
        return self._reading(lambda connection: connection.ask(texts))

    def run_one(self, texts: Sequence[str]) -> Sequence[Sequence[Any]]:
        """Return the rows of several statements, of which one may give some; they may be run twice."""
        return self._reading(lambda connection: connection.one(texts))

    def _read_steps(self, begin: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what a query comes to: all of its statements see one moment."""

        def read_all(connection: Timed) -> _R:
            steps = begin(*args, **kwargs)
            opening: Sequence[str] = _SNAPSHOT
            try:
                batch = next(steps)
                while True:
                    texts, places = self.dialect.texts(batch, self.now)
                    results = connection.ask([*opening, *texts])[len(opening) :]
                    opening = ()
                    batch = steps.send([() if place is None else results[place].rows for place in places])
            except StopIteration as end:
                if not opening:
                    self._end_reading(connection)
                return end.value  # type: ignore[no-any-return]

        return self._reading(read_all)

    def _end_reading(self, connection: Timed) -> None:
        try:
            connection.ask(["COMMIT"])
        except (pymysql.Error, OSError):  # all is read
            connection.end()

    def _read(self, name: str, /, **values: Any) -> list[Any]:
        """Return the rows of a statement."""
        [result] = self.run([self._sql(name, now=self.now, **values)])
        return list(result.rows)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def new_request(self) -> tuple[bytes, int]:
        """Return what a transaction is known by: this process, and a number."""
        return self._client, next(self._requests)

    def happened(self, number: int, until: float) -> bool:
        """Return whether a transaction whose connection broke in its commit has happened; else it never will."""
        values = {"client": self._client, "number": number}
        while True:
            try:
                with suppress(AlreadyThere), self._use() as connection:
                    connection.ask([self._sql("bar_request", now=self.now, **values)])
                return not self._read("barred", **values)
            except StoreError as error:  # it is under way, or the server still away
                if time.monotonic() >= until:
                    raise Unknown(
                        "the connection broke in a commit, and whether it happened is not known yet"
                    ) from error
                time.sleep(0.1)

    def present(self, ids: Sequence[int]) -> set[int]:
        """Return those of some ids of which there are jobs."""
        return {id for [id] in self._read("present", ids=sorted(ids))}

    def _draw_ids(self, count: int) -> Sequence[int]:
        [taken] = self.run([self._sql("take_ids", count=count)])
        return range(taken.last_id - count + 1, taken.last_id + 1)

    def commit_alone(self, one: NewNames | NewPriorities) -> None:
        """Store names or priorities, and commit. StoreBusy: others hold what this waits for beyond the time limit."""
        with self._use() as connection:
            connection.ask(self.dialect.texts((one,), self.now)[0])

    def read(self, one: Select | Rows) -> Sequence[Any]:
        """Return the rows of a statement, as they are committed."""
        texts, [place] = self.dialect.texts((one,), self.now)
        assert place is not None
        return self.run(texts)[place].rows

    def _fold(self) -> None:
        with self._use() as connection:
            _, found = connection.ask(["BEGIN", self._sql("fold")])
            sums: dict[int, list[int]] = {}
            for _, topic, *counts in found.rows:
                sums[topic] = [sum(pair) for pair in zip(sums.get(topic, [0] * 4), counts, strict=True)]
            texts = [self._sql("unfold", seqs=[row[0] for row in found.rows])]
            rows = ((topic, *counts) for topic, counts in sorted(sums.items()))
            texts += [self._sql("folded", rows=Raw(some)) for some in in_parts(rows)]
            connection.ask([*texts, "COMMIT"])

    def _own_connection(self) -> None:
        super()._own_connection()
        self._take_new_name()

    def _take_new_name(self) -> None:
        self._requests = count(1)
        self._client = token_bytes(16)

    def _met_lock(self, error: StoreError) -> bool:
        return getattr(error.__cause__, "args", (0,))[:1] == (_LOCK_WAIT_TIMEOUT,)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _workers_queries(self) -> WorkerQueries:
        return Workers(self)

    def _new_notifier(self, name: str) -> RelationalNotifier:
        return MysqlNotifier(self, name)

    def _due_now(self, ids: Sequence[int]) -> list[tuple[int, int, str, int]]:
        rows = self._read("due_now", ids=sorted(ids))
        names = self.topic_names({row[1] for row in rows})
        order = {id: place for place, id in enumerate(ids)}
        rows = sorted(rows, key=lambda row: order[row[2]])
        return [(due, id, names[topic], priority) for due, topic, id, priority in rows]

    def topic_names(self, numbers: set[int]) -> Mapping[int, str]:
        """Return the names of topics."""
        if numbers <= self._known.names.keys():
            return self._known.names
        return self._read_steps(self._known.named, numbers)

    def _clear_away(self, age: int) -> None:
        """Delete what those left behind that have been silent for so many ms."""
        texts = [self._sql("forget_workers", age=age, now=self.now), self._sql("forget_hints")]
        texts.append(self._sql("forget_old_requests", age=_KEPT, now=self.now))
        with self._use() as connection:
            connection.ask(texts)

    # ---- life -------------------------------------------------------------------------------------------------------

    def _verified(self, connection: Timed, *, repair: bool) -> list[Finding]:
        return verify.mended(connection, self.dialect, self.now) if repair else verify.find(connection, self.dialect)

    def _end_writing(self) -> None:
        with suppress(StoreError, pymysql.Error, OSError):
            if self._writer is not None:
                self._writer.until = time.monotonic() + self._seconds
                self._writer.ask([self._sql("forget_requests", client=self._client, number=_LARGEST), "COMMIT"])
        super()._end_writing()
