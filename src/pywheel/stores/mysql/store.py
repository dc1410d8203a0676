"""The store on MySQL and MariaDB, shared by as many hosts as there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from secrets import token_bytes
from typing import Any, Final, TypeVar

import pymysql

from ..._errors import StoreAway, StoreClosed, StoreError
from ...clock import Clock
from ...jobs.job import NewJob
from ..address import Address, file, flag, identifier, seconds
from ..outage import Outage
from ..relational.connections import CLOSED, Connections
from ..relational.notifier import RelationalNotifier
from ..relational.presence import WorkerQueries
from ..relational.session import Conflict, Session, Unknown
from ..verify import Finding
from ..within import driver_connection
from . import migrate, verify
from .connection import AlreadyThere, Interrupted, Result, Timed, connect, translated
from .notifier import MysqlNotifier
from .puts import Row, first_of_each_key, names_of, put_trip
from .queries import MysqlQueries
from .session import MysqlSession, Trip
from .session_within import SessionWithin
from .statements import Statements, hashed, rows
from .workers import Workers

__all__ = ["MysqlStore"]

_R = TypeVar("_R")

_SECONDS: Final = 10.0
_MOST: Final = 8  # connections, beside one for each worker
_PORT: Final = 3306
_PATIENCE: Final = 3_600.0  # seconds that a look at all jobs may take
_KEPT: Final = 86_400_000  # ms for which it is known of a transaction that it happened
_LARGEST: Final = 2**62
_LOCK_WAIT_TIMEOUT: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
_TLS: Final[dict[str, Callable[[str], Any]]] = {
    "ssl_ca": file,
    "ssl_cert": file,
    "ssl_key": file,
    "ssl_verify_cert": flag,
    "ssl_verify_identity": flag,
}


class MysqlStore(MysqlQueries):
    """Jobs in tables of a MySQL database, 8.0 or later, or MariaDB, 10.6 or later.

    `durability` is "fsync" where the server has innodb_flush_log_at_trx_commit = 1, else "everysec". Options after the
    ``?``:

    prefix        how the names of the tables begin; default ``pywheel_``
    timeout       seconds after which an answer is not waited for any longer; default 10
    notify        ``off``: workers look for changes, instead of being woken; needed behind a proxy
    unix_socket   the path of the server's socket
    ssl_ca, ssl_cert, ssl_key, ssl_verify_cert, ssl_verify_identity   as PyMySQL has them
    """

    address: Address

    @classmethod
    def migration(cls, address: Address) -> str:
        """Return the statements that make the tables, or bring them up to date; "" if they are."""
        store = cls.__new__(cls)
        store._configure(address)
        try:
            with store._use() as connection:
                return migrate.script(store._prefix, migrate.schema_of(connection, store._prefix).version)
        finally:
            store._connections.close()

    def __init__(self, address: Address, *, clock: Clock | None = None, create: bool = True) -> None:
        self._configure(address)
        super().__init__(address.shown, clock, self._limit)
        with self._use() as connection:
            migrate.upgrade(connection, self._prefix, self.shown, create=create)
            [flushed, place] = connection.ask(["SELECT @@innodb_flush_log_at_trx_commit", "SELECT database()"])
        self.durability = "fsync" if flushed.rows[0][0] == 1 else "everysec"
        self.database: str = place.rows[0][0]
        self.lock = f"pywheel.{hashed(self.database + '.' + self._prefix).hex()[:16]}."
        """How the names of the workers' locks begin: they are the server's, not the database's."""
        self._hear()

    def _configure(self, address: Address) -> None:
        """Take in what the address says."""
        known, passed = address.split(
            {"prefix": identifier, "timeout": seconds, "notify": flag} | _TLS, ("unix_socket",)
        )
        self.shown = address.shown
        self.address = address
        self._outage = Outage(address.shown)
        self._writer: Timed | None = None
        self._options: dict[str, Any] = passed | {name: known[name] for name in known.keys() & _TLS.keys()}
        if "ssl_ca" in known:  # PyMySQL would not look who it talks to
            self._options = {"ssl_verify_cert": True, "ssl_verify_identity": True} | self._options
        if "unix_socket" in passed:
            self._options["ssl_disabled"] = True  # nobody listens there, and TLS takes long to begin
        self.notifies: bool = known.get("notify", True)
        self._prefix: str = known.get("prefix", "pywheel_")
        self._sql = Statements(self._prefix)
        self._limit: float = known.get("timeout", _SECONDS)
        self._connections: Connections[Timed] = Connections(self._connect, _MOST, self._limit)

    # ---- connections ------------------------------------------------------------------------------------------------

    def _connect(self, until: float) -> Timed:
        address = self.address
        host = address.hosts[0] if address.hosts else None
        with self.translated():
            return connect(
                until,
                host=(host and host.name) or "localhost",
                port=(host and host.port) or _PORT,
                user=address.user,
                password=address.password or "",
                database=address.database or None,
                **self._options,
            )

    @contextmanager
    def _use(self, until: float | None = None) -> Iterator[Timed]:
        with self.translated(), self._connections.use(until) as connection:
            yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what the server says as one of our errors."""
        try:
            with self._outage.noted(), translated(self.address.hide, self.shown):
                yield
        except (StoreAway, AttributeError):  # PyMySQL looks for the socket that another thread has closed
            if self._connections.closed:
                raise StoreClosed(CLOSED) from None
            raise

    def _trip(self) -> Trip:
        return Trip(self._sql, self.now)

    def _ask(self, texts: Sequence[str]) -> list[Result]:
        """Return what statements give; once more if a connection was found closed: they may be run twice."""
        return self._twice(lambda connection: connection.ask(texts))

    def ask_one(self, texts: Sequence[str]) -> Sequence[Sequence[Any]]:
        """Return the rows of several statements, of which one may give some; they may be run twice."""
        return self._twice(lambda connection: connection.one(texts))

    def _twice(self, ask: Callable[[Timed], _R]) -> _R:
        self._open()
        for attempt in (1, 2):
            try:
                with self._use() as connection:
                    return ask(connection)
            except (StoreAway, Interrupted):
                self._connections.drop_idle()
                if attempt == 2:
                    raise
        raise AssertionError

    def _read(self, name: str, /, **values: Any) -> list[Any]:
        """Return the rows of a statement."""
        [result] = self._ask([self._sql(name, now=self.now, **values)])
        return list(result.rows)

    def _hear(self) -> None:
        """Learn the time."""
        if self.now is None:
            sent = time.monotonic()
            [[now]] = self._read("now")
            self._heard(now, sent, time.monotonic())

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _session(self, until: float) -> Session:
        return MysqlSession(self, self._sql, self.now, until)

    def _session_within(self, connection: object) -> Session:
        return SessionWithin(driver_connection(connection, ("pymysql",)), self, self._sql, self.now)

    def writing(self, until: float) -> Timed:
        """Return the connection that writes: only whoever commits for all uses it."""
        connection = self._writer
        if connection is not None and not connection.ready:  # it broke, or an interrupt came in the middle of its use
            self._writer = None
            connection.end()
            connection = None
        if connection is None:
            connection = self._connect(until)
            with self.translated():
                # MySQL cannot wait for less. MariaDB can for 0, but then some of its commits fail.
                connection.ask(["SET SESSION autocommit = 0, innodb_lock_wait_timeout = 1"])
            self._writer = connection
        connection.until = until
        return connection

    def _drop(self, connection: Timed | None) -> None:
        """Close a connection that broke, and those that wait: they may have broken too."""
        self._connections.drop_idle()
        if connection is not None:
            connection.end()

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

    def _put_direct(
        self,
        jobs: Sequence[NewJob],
        ids: Sequence[int],
        near: int,  # noqa: ARG002  (a look at the workers would double what a put takes)
        until: float,
    ) -> tuple[Collection[int] | None, None]:
        lost: list[StoreAway] = []
        try:
            return self._put_rows(first_of_each_key(zip(ids, jobs, strict=True)), ids, until, lost), None
        except StoreError as error:
            if lost:
                raise Unknown(
                    f"{error}; the connection broke in a commit, and whether it happened is not known"
                ) from error
            raise

    def _put_rows(
        self, rows: list[Row], ids: Sequence[int], until: float, lost: list[StoreAway]
    ) -> Collection[int] | None:
        """Store jobs; return which, None for all. `lost` gets the tries of which it is not known how they ended."""
        again = False
        while rows:
            connection: Timed | None = None
            trip = put_trip(self._trip(), rows, self._topics.numbers, self.now)
            try:
                with self.translated():
                    connection = self.writing(until)
                    connection.one(trip.texts)
                return None if len(rows) == len(ids) else [id for id, _ in rows]
            except AlreadyThere:
                self._roll_back(connection)
                present = self._present(ids) if lost else ()
                if present:  # it happened, though its answer was lost
                    return present
                rows = self._without_taken(rows)
            except Conflict as error:
                self._roll_back(connection)
                if self._met_lock(error) or time.monotonic() >= until:
                    raise
            except StoreAway as error:
                self._drop(connection)
                if connection is not None:
                    lost.append(error)
                if again:
                    raise
                again = True
            except BaseException:
                self._roll_back(connection)
                raise
        return []

    def _without_taken(self, rows: list[Row]) -> list[Row]:
        """Return the jobs without those whose keys are taken; none if that was so only for a moment."""
        numbers = self._topics.numbers
        taken = {name for name in names_of(rows, numbers) if self._read("holders", topic=name[0], hashes=[name[1]])}
        free = [row for row in rows if taken.isdisjoint(names_of([row], numbers))]
        return free if len(free) < len(rows) else []

    def _roll_back(self, connection: Timed | None) -> None:
        try:
            if connection is not None and connection.interrupted:  # an answer is on its way: it is no use any more
                connection.end()
            elif connection is not None:
                connection.ask(["ROLLBACK"])
        except (pymysql.Error, StoreError, OSError):
            self._drop(connection)

    def _present(self, ids: Sequence[int]) -> set[int]:
        return {id for [id] in self._read("ids_given", ids=sorted(ids))}

    def _draw_ids(self, count: int) -> Sequence[int]:
        [taken] = self._ask([self._sql("take_ids", count=count)])
        return range(taken.last_id - count + 1, taken.last_id + 1)

    def _fold(self) -> None:
        with self._use() as connection:
            _, found = connection.ask(["BEGIN", self._sql("fold")])
            sums: dict[int, list[int]] = {}
            for _, topic, *counts in found.rows:
                sums[topic] = [sum(pair) for pair in zip(sums.get(topic, [0] * 4), counts, strict=True)]
            trip = self._trip()
            trip.add("", "delete_count", ids=[row[0] for row in found.rows])
            trip.many("insert_count", [(topic, *counts) for topic, counts in sorted(sums.items())])
            connection.ask([*trip.texts, "COMMIT"])

    def _own_connection(self) -> None:
        super()._own_connection()
        self._take_new_name()

    def _take_new_name(self) -> None:
        self._requests = count(1)
        self._client = token_bytes(16)

    def _add_topics(self, names: Sequence[str], until: float) -> Mapping[str, int]:
        trip = self._trip()
        trip.add("", "topic_add", rows=rows(sorted((hashed(name), name) for name in names)))
        connection: Timed | None = None
        try:
            with self.translated():
                connection = self.writing(until)
                connection.ask([*trip.texts, "COMMIT"])
        except BaseException:
            self._roll_back(connection)
            raise
        return self.known_topics(names)

    def _met_lock(self, error: StoreError) -> bool:
        return getattr(error.__cause__, "args", (0,))[:1] == (_LOCK_WAIT_TIMEOUT,)

    def _separate(self, error: BaseException) -> bool:
        return isinstance(error, Exception) and not isinstance(error, StoreError)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _workers(self) -> WorkerQueries:
        return Workers(self)

    def _new_notifier(self, name: str) -> RelationalNotifier:
        return MysqlNotifier(self, name)

    def _due_now(self, ids: Sequence[int]) -> list[tuple[int, int, str, int]]:
        rows = self._read("due_now", ids=sorted(ids))
        names = self._names(rows)
        order = {id: place for place, id in enumerate(ids)}
        rows = sorted(rows, key=lambda row: order[row[2]])
        return [(due, id, names[topic], priority) for due, topic, id, priority in rows]

    def _stirred(self) -> int:
        [[stirred]] = self._read("stirred")
        return int(stirred)

    def _clear_away(self, age: int) -> None:
        """Delete what those left behind that have been silent for so many ms."""
        trip = self._trip()
        trip.add("", "forget_workers", age=age)
        trip.add("", "forget_hints")
        trip.add("", "forget_old_requests", age=_KEPT)
        with self._use() as connection:
            connection.ask(trip.texts)

    # ---- life -------------------------------------------------------------------------------------------------------

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables. What a repair reads is locked: others wait, and try again."""
        self._open()
        with self.translated():
            connection = self._connect(time.monotonic() + _PATIENCE)
            try:
                return verify.mended(connection, self._sql, self.now) if repair else verify.find(connection, self._sql)
            finally:
                connection.end()

    def _end_writing(self) -> None:
        with suppress(StoreError, pymysql.Error, OSError):
            if self._writer is not None:
                self._writer.until = time.monotonic() + self._seconds
                self._writer.ask([self._sql("forget_requests", client=self._client, number=_LARGEST), "COMMIT"])
        self._drop(self._writer)

    def _shut(self) -> None:
        self._connections.close()

    def _leave(self) -> None:
        self._connections.after_fork()
