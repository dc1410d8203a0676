"""Transactions on PostgreSQL: the store's own, each batch a pipeline, and a put in a caller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import tuple_row

from ..relational.session import Conflict, OwnSession, SessionWithin, Unknown
from ..sql.statement import Batch, Drop, Each, Insert, NewNames, NewPriorities
from .dialect import PostgresDialect

if TYPE_CHECKING:
    from .store import PostgresStore

__all__ = ["PostgresSession", "PostgresWithin", "rows_of", "started"]

_ANYHOW: Final = 2**62  # how far some worker may look, if that is not known
_LOOK: Final = 0.1  # seconds between looks what became of a commit
_BEGUN: Final = "SELECT {now}, pg_current_xact_id()::text, pg_postmaster_start_time()::text"
_CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_NOTHING: Final = Drop(())


def started(execute: Callable[..., Any], dialect: PostgresDialect, batch: Batch, now: int | None) -> list[Any]:
    """Send statements; return a cursor for each, None where there is nothing to send."""
    cursors: list[Any] = []
    for one in batch:
        if isinstance(one, Each):
            text = dialect.text(one.text)
            for values in one.values:
                execute(text, {**values, "now": now})
            cursors.append(None)
            continue
        said = dialect.statement(one)
        cursors.append(None if said is None else execute(said[0], {**said[1], "now": now}, binary=True))
    return cursors


def rows_of(cursors: Sequence[Any]) -> list[Any]:
    """Return the rows of each."""
    return [cursor.fetchall() if cursor is not None and cursor.description else [] for cursor in cursors]


class PostgresSession(OwnSession):
    """The trips of one transaction."""

    _store: PostgresStore
    _id = _born = ""
    """The number of the transaction, and since when the server has been up."""

    def _begin(self, batch: Batch) -> list[Any]:
        with self._pipeline():
            self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            begun = self._connection.execute(self._store.dialect.text(_BEGUN), {"now": self._now})
            cursors = self._started(batch)
        [(_, self._id, self._born)] = begun.fetchall()
        return rows_of(cursors)

    def _send(self, batch: Batch) -> list[Any]:
        with self._pipeline():
            cursors = self._started(batch)
        return rows_of(cursors)

    def _commit(self, batch: Batch, near: int | None) -> Sequence[Any]:
        seen = None
        with self._pipeline() as pipeline:
            self._started(batch)
            self._connection.execute("COMMIT")
            pipeline.sync()
            if near is not None:
                seen = self._connection.execute(self._store._sql["near"], {"due": near})
        return [] if seen is None else seen.fetchall()

    def _happened(self, put: int | None) -> bool:
        while True:
            status = self._store.status(self._id, self._born, self._until)
            if status == "restarted":
                if put is not None:  # nobody else has its id
                    return self._store.is_there(put, self._until)
                raise Unknown("the server broke down in a commit, and whether it happened is not known")
            if status != "in progress":
                return status == "committed"
            if time.monotonic() >= self._until:
                raise Unknown("the connection broke in a commit, and whether it happened is not known yet")
            time.sleep(_LOOK)

    def _put(self, insert: Insert, *, again: bool) -> tuple[int | None, Sequence[int] | None]:
        text, values = self._store.dialect.put(insert)
        if again and (there := self._store.there(self._connection, insert)):
            return _ANYHOW, there
        try:
            with self._store.translated():
                [(horizon, ids)] = self._connection.execute(text, {**values, "now": self._now}).fetchall()
        except Conflict:
            if not again:
                raise  # else the first was under way until now
        return (_ANYHOW, self._store.there(self._connection, insert)) if again else (horizon, ids)

    def _started(self, batch: Batch) -> list[Any]:
        return started(self._connection.execute, self._store.dialect, batch, self._now)

    @contextmanager
    def _pipeline(self) -> Iterator[Any]:
        with self._store.translated(), self._connection.pipeline() as pipeline:
            yield pipeline


class PostgresWithin(SessionWithin):
    """The statements of a put, one by one: the caller's connection is in no pipeline of ours."""

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        super().__init__(store, connection)
        self._dialect = store.dialect
        self._now = store.now

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        """Whether it sees what there was at a moment: in REPEATABLE READ and SERIALIZABLE."""
        [(level,)] = self._execute("SELECT current_setting('transaction_isolation')").fetchall()
        return level in ("repeatable read", "serializable")

    def _is_in_transaction(self) -> bool:
        idle = self._theirs.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return not (self._theirs.autocommit and idle)

    def _their_database(self) -> str:
        [(name,)] = self._execute("SELECT current_database()").fetchall()
        return str(name)

    def _begin(self) -> None:
        super()._begin()
        if self._now is None:  # else it would be the time at which the caller began
            [(self._now,)] = self._execute(_CLOCK).fetchall()

    def _sent(self, batch: Batch) -> list[Any]:
        named = [isinstance(one, NewNames | NewPriorities) for one in batch]
        for one, new in zip(batch, named, strict=True):
            if new:
                self._lent.commit_alone(one)  # type: ignore[arg-type]
        left = [_NOTHING if new else one for one, new in zip(batch, named, strict=True)]
        return rows_of(started(self._execute, self._dialect, left, self._now))

    def _execute(self, text: str, values: Any = None, *, binary: bool = False) -> Any:
        """Run a statement; rows are tuples, whatever the caller's connection makes of them."""
        with self._lent.translated():
            if isinstance(self._theirs, psycopg.Connection):
                ours = psycopg.Cursor(self._theirs, row_factory=tuple_row)
                return ours.execute(text, values, binary=binary)
            cursor = self._theirs.cursor()
            try:
                cursor.execute(text.replace(")b::bytea", ")s::bytea"), values)  # it knows no binary values
            except Exception as error:  # psycopg2's, of which we know no more than the code
                kind = psycopg.errors.lookup(getattr(error, "pgcode", None) or "")
                raise kind(str(error)) from error
            return cursor
