"""The store on PostgreSQL, shared by as many hosts as there are."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, NoReturn

import psycopg

from ..._errors import StoreAway, StoreError
from ...clock import Clock
from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, NewJob, State, Topic
from ..address import Address, flag, identifier, seconds
from ..checks import clamped, in_range
from ..contract import Filter, Span
from ..relational import reading
from ..relational.changes import headers_text
from ..relational.connections import Connections, leave_alone
from ..relational.notifier import RelationalNotifier
from ..relational.part import FINISHED
from ..relational.presence import WorkerQueries
from ..relational.session import Session
from ..relational.store import RelationalStore
from ..verify import Finding
from ..within import driver_connection
from . import migrate, verify
from .arrays import numbers
from .connection import Timed, connect, translated
from .notifier import PostgresNotifier, channel
from .session import PostgresSession
from .session_within import SessionWithin
from .statements import statements

__all__ = ["PostgresStore"]

_SECONDS: Final = 10.0
_MOST: Final = 8  # connections, beside one for each worker
_PAYLOAD: Final = 7_000  # bytes; the server takes 8 000
_PATIENCE: Final = 3_600.0  # seconds that a look at all jobs may take
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
    prepare     ``off`` behind pgbouncer before 1.22 in transaction mode
    """

    address: Address

    def __init__(self, address: Address, *, clock: Clock | None = None, create: bool = True) -> None:
        known, passed = address.split(
            {"schema": identifier, "prefix": identifier, "timeout": seconds, "prepare": flag}, _DRIVER
        )
        self.shown = address.shown
        self.address = address
        self._passed = passed
        self._prepare = known.get("prepare", True)
        self._schema: str | None = known.get("schema")
        self._prefix: str = known.get("prefix", "pywheel_")
        self._tables = self._prefix if self._schema is None else f'"{self._schema}".{self._prefix}'
        self._sql = statements(self._tables)
        limit = known.get("timeout", _SECONDS)
        self._writer: Timed | None = None
        self._connections: Connections[Timed] = Connections(self._connect, _MOST, limit)
        super().__init__(address.shown, clock, limit)
        with self._use() as connection:
            migrate.upgrade(connection, self._schema, self._prefix, self.shown, create=create)
        self._hear()

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

    @contextmanager
    def _use(self, until: float | None = None) -> Iterator[Timed]:
        with self.translated(), self._connections.use(until) as connection:
            yield connection

    def translated(self) -> AbstractContextManager[None]:
        """Raise what PostgreSQL says as one of our errors."""
        return translated(self.address.hide, self.shown)

    def _read(self, name: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement; once more if a connection was found closed."""
        self._open()
        for attempt in (1, 2):
            try:
                with self._use() as connection:
                    return connection.execute(self._sql[name], {"now": self.now, **values}).fetchall()
            except StoreAway:
                self._connections.drop_idle()
                if attempt == 2:
                    raise
        raise AssertionError

    def _hear(self) -> int:
        """Return the time, and learn it."""
        if self.now is not None:
            return self.now
        sent = time.monotonic()
        [(now,)] = self._read("now", {})
        self._heard(now, sent, time.monotonic())
        return int(now)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _session(self, until: float) -> Session:
        return PostgresSession(self, self._sql, self.now, until)

    def _session_within(self, connection: object) -> Session:
        return SessionWithin(driver_connection(connection, ("psycopg", "psycopg2")), self, self._sql, self.now)

    def _present(self, ids: Sequence[int]) -> set[int]:
        return {id for [id] in self._read("present", {"ids": numbers(ids)})}

    def writing(self, until: float) -> Timed:
        """Return the connection that writes: only whoever commits for all uses it."""
        connection = self._writer
        if connection is None or connection.closed:
            connection = self._writer = self._connect(until)
        connection.until = until
        return connection

    def status(self, transaction: str) -> str | None:
        """Return what became of a transaction whose connection broke."""
        try:
            [(status,)] = self._read("status", {"id": transaction})
        except StoreAway:
            return "in progress"
        return None if status is None else str(status)

    def _put_direct(
        self, jobs: Sequence[NewJob], ids: Sequence[int], near: int, until: float
    ) -> tuple[Collection[int] | None, Sequence[Sequence[Any]]]:
        name, values = self._put_values(jobs, ids)
        for again in (False, True):
            connection: Timed | None = None
            try:
                connection = self.writing(until)
                if again:  # the first may have happened, though its answer was lost
                    rows = connection.execute(self._sql["present"], {"ids": numbers(ids)}).fetchall()
                    if rows:
                        return [id for [id] in rows], self._near(near)
                [(horizon, stored)] = connection.execute(self._sql[name], values).fetchall()
                break
            except (psycopg.Error, StoreAway) as error:
                if connection is not None and not connection.broken and not connection.closed:
                    self._raise(error)
                self._drop(connection)
                if again:
                    self._raise(error)
        return stored, () if horizon is None or horizon < near else self._near(near)

    def _near(self, due: int) -> Sequence[Sequence[Any]]:
        """Return the rows of the workers, if one of them looks as far as this."""
        with suppress(StoreError):  # what is to be told of is stored
            return self._read("near", {"due": due})
        return ()

    def _raise(self, error: Exception) -> NoReturn:
        with self.translated():
            raise error
        raise AssertionError

    def _drop(self, connection: Timed | None) -> None:
        """Close a connection that broke, and those that wait: they may have broken too."""
        self._connections.drop_idle()
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _put_values(self, jobs: Sequence[NewJob], ids: Sequence[int]) -> tuple[str, dict[str, Any]]:
        topics = self._topics.numbers
        keyed = any(job.key is not None for job in jobs)
        if len(jobs) == 1:
            job = jobs[0]
            return "put_one_keyed" if keyed else "put_one", {
                "now": self.now,
                "id": ids[0],
                "topic": topics[job.topic],
                "due": job.due,
                "delay": job.delay,
                "key": job.key,
                "ttr": job.ttr,
                "limit": job.max_attempts,
                "headers": headers_text(job),
                "body": job.body,
            }
        return "put_many_keyed" if keyed else "put_many", {
            "now": self.now,
            "ids": numbers(ids),
            "topics": numbers(topics[job.topic] for job in jobs),
            "dues": numbers(job.due for job in jobs),
            "delays": numbers(job.delay for job in jobs),
            "ttrs": numbers(job.ttr for job in jobs),
            "limits": numbers(job.max_attempts for job in jobs),
            "headers": [headers_text(job) for job in jobs],
            "keys": [job.key for job in jobs] if keyed else None,
            "bodies": [job.body for job in jobs],
        }

    def _draw_ids(self, count: int) -> Sequence[int]:
        return [id for [id] in self._read("ids", {"count": count})]

    def _fold(self) -> None:
        with self._use() as connection:
            connection.execute(self._sql["fold"])

    def _separate(self, error: BaseException) -> bool:
        return isinstance(error, Exception) and not isinstance(error, StoreError)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _moment(self) -> int:
        return self.clock.wall()

    def _names(self, rows: Sequence[Sequence[Any]]) -> Mapping[int, str]:
        """Return the names of topics by number, those of the rows among them."""
        if any(row[1] not in self._topics.names for row in rows):
            self._topics.learn({name: number for number, name in self._read("all_topics", {})})
        return self._topics.names

    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""
        name = "all_topics" if names is None else "topics_of"
        return {row[1]: row[0] for row in self._read(name, {"names": None if names is None else list(names)})}

    def _number(self, topic: str) -> int | None:
        if self._topics.number(topic) is None:
            self._topics.learn({name: number for number, name, _ in self._read("topics_of", {"names": [topic]})})
        return self._topics.number(topic)

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        if isinstance(ref, int):
            rows = self._read("look_ids_given", {"ids": numbers([ref])}) if in_range(ref) else []
        else:
            topic = self._number(ref[0])
            rows = [] if topic is None else self._read("look_ids_named", {"topic": topic, "key": ref[1]})
        return reading.found(rows, self._names(rows), self._moment(), ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        topic = None if filter.topic is None else self._number(filter.topic)
        if topic is None and filter.topic is not None:
            self._open()
            return []
        values = {"topic": topic, "key": filter.key}

        def page(state: State | None, after: int, size: int) -> list[Job]:
            now = self._moment()
            number = -1 if state not in FINISHED else FINISHED.index(state)
            span = {**values, "state": number, "after": after, "limit": size, "now": now}
            rows = self._read(f"look_ids_{_kind(filter, topic)}", span)
            return reading.records(rows, self._names(rows), now)

        return reading.listed(page, filter, after, limit)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        now = self._moment()
        return reading.counted(self._read("counts", {"now": now}), now)

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return [Topic(name, paused) for name, paused in self._read("topics", {})]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        if not in_range(an_id(id)):
            self._open()
            return []
        with self._use() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            rows = connection.execute(self._sql["look_ids_given"], {"ids": numbers([id])}).fetchall()
            earlier = connection.execute(self._sql["history"], {"id": id}).fetchall()
        return reading.attempts(rows, self._names(rows), self._moment(), earlier)

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id)."""
        asked = [(number, span) for span in spans if (number := self._number(span.topic)) is not None]
        if not asked:
            self._open()
            return []
        rows = self._read(
            "windows",
            {
                "topics": numbers(number for number, _ in asked),
                "shards": numbers(span.shards for _, span in asked),
                "dues": numbers(clamped(span.after[0]) for _, span in asked),
                "ids": numbers(clamped(span.after[1]) for _, span in asked),
                "untils": numbers(clamped(span.until) for _, span in asked),
                "limit": min(max(clamped(limit), 0), 2**31),
            },
        )
        return [Due(due, id, asked[place - 1][1].topic) for due, id, place in rows]

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        asked = [self._number(span.topic) for span in spans]
        found = numbers(-1 if number is None else number for number in asked)
        rows = self._read(
            "first_dues",
            {
                "topics": found,
                "shards": numbers(span.shards for span in spans),
                "untils": numbers(clamped(span.until) for span in spans),
            },
        )
        lost = self._read("lost", {"now": self._moment(), "topics": found})
        return reading.with_lost([due for _, due in sorted(rows)], spans, asked, lost)

    def _read_lease(self) -> int | None:
        [(lease,)] = self._read("next_lease", {})
        return None if lease is None else int(lease)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _workers(self) -> WorkerQueries:
        return _Workers(self)

    def _new_notifier(self, name: str) -> RelationalNotifier:
        return PostgresNotifier(self, name)

    def _due_now(self, ids: Sequence[int]) -> list[tuple[int, int, str]]:
        rows = [(due, topic, id) for due, id, topic in self._read("due_now", {"ids": numbers(ids)})]
        names = self._names(rows)
        return [(due, id, names[topic]) for due, topic, id in rows]

    def _stirred(self) -> int:
        [(stirred,)] = self._read("stirred", {})
        return int(stirred)

    # ---- life -------------------------------------------------------------------------------------------------------

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the tables. A repair locks them: others wait, and may meet their time limit."""
        self._open()
        until = time.monotonic() + _PATIENCE
        with self.translated():
            connection = self._connect(until)
            try:
                return verify.mended(connection, self._sql, self.now) if repair else verify.find(connection, self._sql)
            finally:
                connection.close()

    def _shut(self) -> None:
        self._drop(self._writer)
        self._connections.close()

    def _leave(self) -> None:
        leave_alone(self._writer)
        self._writer = None
        self._connections.after_fork()


class _Workers(WorkerQueries):
    """What PostgreSQL does for the workers."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def roster(self) -> list[Sequence[Any]]:
        """Return the rows of all workers."""
        return [row[:7] for row in self._store._read("roster", {})]

    def pause_of(self, topic: str) -> tuple[bool, int] | None:
        """Return whether a topic is paused, and since which number."""
        rows = self._store._read("pause_of", {"topic": topic})
        return (bool(rows[0][0]), int(rows[0][1])) if rows else None

    def forget(self, age: int) -> None:
        """Delete the rows of workers that are gone."""
        with self._store._use() as connection:
            connection.execute(self._store._sql["forget_workers"], {"age": age, "now": self._store.now})

    def ring(self, hints: dict[str, set[int] | None]) -> None:
        """Notify workers."""
        channels, payloads = [], []
        for worker, ids in hints.items():
            for payload in _payloads(ids):
                channels.append(channel(self._store._tables, worker))
                payloads.append(payload)
        self._store._read("notify", {"channels": channels, "payloads": payloads})


def _payloads(ids: set[int] | None) -> Iterator[str]:
    """Yield what a worker is told: ids, as many as fit; "!" for all; "" for who is there."""
    if ids is None:
        yield "!"
        return
    some: list[str] = []
    size = 0
    for id in sorted(ids):
        text = str(id)
        if size + len(text) > _PAYLOAD:
            yield ",".join(some)
            some, size = [], 0
        some.append(text)
        size += len(text) + 1
    yield ",".join(some)


def _kind(filter: Filter, topic: int | None) -> str:
    """Return which list of ids a filter needs."""
    if filter.key is not None:
        return "of_key"
    match filter.state:
        case None:
            return "all" if topic is None else "of_topic"
        case State.DELAYED:
            return "delayed"
        case State.RUNNING:
            return "running"
    return "finished"
