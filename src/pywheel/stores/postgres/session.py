"""Transactions on PostgreSQL: the store's own, each batch a pipeline, and a put in a caller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import tuple_row

from ..._errors import StoreAway
from ..relational.session import Conflict, OwnSession, SessionWithin, Unknown, drive
from ..sql import read
from ..sql.statement import Batch, Do, Each, Insert, Select, Statement
from .dialect import PostgresDialect

if TYPE_CHECKING:
    from .store import PostgresStore

__all__ = ["PostgresSession", "PostgresWithin", "rows_of", "started"]

_LOOK: Final = 0.1  # seconds between looks what became of a commit
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGUN: Final = "SELECT pg_current_xact_id()::text, pg_postmaster_start_time()::text"
_CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_STATUS: Final = (
    "SELECT CASE WHEN pg_postmaster_start_time()::text = :born THEN pg_xact_status(:id::xid8) ELSE 'restarted' END"
)
"""What became of a transaction. A server that was started anew may have given its number to another."""


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
        [_, [(self._id, self._born)], *rows] = self._send((Do(_BEGIN), Select(_BEGUN), *batch))
        return rows

    def _commit(self, batch: Batch) -> None:
        self._send((*batch, Do("COMMIT")))

    def _happened(self, put: int | None) -> bool:
        asked = Select(_STATUS, {"id": self._id, "born": self._born})
        while True:
            status = "in progress"
            with suppress(StoreAway):
                [[(status,)]] = self._store.run(asked, until=self._until)
            if status == "restarted":
                if put is not None:  # nobody else has its id
                    return bool(self._store._present((put,)))
                raise Unknown("the server broke down in a commit, and whether it happened is not known")
            if status != "in progress":
                return status == "committed"
            if time.monotonic() >= self._until:
                raise Unknown("the connection broke in a commit, and whether it happened is not known yet")
            time.sleep(_LOOK)

    def _put(self, insert: Insert, *, again: bool) -> Sequence[int] | None:
        text, values = self._store.dialect.put(insert)
        if again and (there := self._there(insert)):
            return there
        try:
            with self._store.translated():
                cursor = self._connection.execute(text, {**values, "now": self._now})
        except Conflict:
            if not again:
                raise  # else the first was under way until now
        return self._there(insert) if again else [id for [id] in cursor.fetchall()] if cursor.description else None

    def _there(self, insert: Insert) -> list[int]:
        """Return which of some new jobs are stored."""
        return sorted(drive(self._send, read.there([row[0] for row in insert.rows])))


class PostgresWithin(SessionWithin):
    """The statements of a put, one by one: the caller's connection is in no pipeline of ours."""

    _lent: PostgresStore

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        """Whether it sees what there was at a moment: in REPEATABLE READ and SERIALIZABLE."""
        [(level,)] = self._execute("SELECT current_setting('transaction_isolation')").fetchall()
        return level in ("repeatable read", "serializable")

    def _is_in_transaction(self) -> bool:
        idle = self._theirs.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return not (self._theirs.autocommit and idle)

    def _begin(self) -> None:
        super()._begin()
        if self._now is None:  # else it would be the time at which the caller began
            [(self._now,)] = self._execute(_CLOCK).fetchall()

    def _rows(self, one: Statement) -> Sequence[Any]:
        return rows_of(started(self._execute, self._lent.dialect, (one,), self._now))[0]  # type: ignore[no-any-return]

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
