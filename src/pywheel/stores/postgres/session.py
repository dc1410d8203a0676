"""Transactions on PostgreSQL: the store's own, each batch a pipeline, and a put in a caller's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import tuple_row

from ..._errors import BadJob, OutcomeUnknown
from ..relational.session import Conflict, OwnSession, SessionWithin
from ..sql import read
from ..sql.statement import Batch, Do, Insert, Select, Statement, drive
from ..sql.transaction import Taken
from ..within import module_of, wait
from .pipeline import numbered

if TYPE_CHECKING:
    from .store import PostgresStore

_PIPELINE: Final = "connection=: it is in pipeline mode: leave that first"
_BYTES: Final = "connection=: its client_encoding is SQL_ASCII: set it to utf8"
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGUN: Final = "SELECT pg_current_xact_id()::text, pg_postmaster_start_time()::text"
_CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_STATUS: Final = (
    "SELECT CASE WHEN pg_postmaster_start_time()::text = :born THEN pg_xact_status(:id::xid8) ELSE 'restarted' END"
)
"""The fate of a transaction. A server that was started anew may have given its number to another."""


class PostgresSession(OwnSession):
    """The trips of one transaction."""

    _store: PostgresStore
    _id = _born = ""
    """The number of the transaction, and the start time of the server."""

    def _begin(self, batch: Batch) -> list[Any]:
        [_, [(self._id, self._born)], *rows] = self._send((Do(_BEGIN), Select(_BEGUN), *batch))
        return rows

    def _commit(self, batch: Batch) -> None:
        self._send((*batch, Do("COMMIT")))

    def _fate(self, put: Insert | None) -> bool | None:
        asked = Select(_STATUS, {"id": self._id, "born": self._born})
        [[(status,)]] = self._store.run(asked, until=self._until)
        if status == "restarted":
            if put is not None:
                with suppress(Taken):
                    return bool(self._store._read_steps(partial(read.stored, put)))
            raise OutcomeUnknown("the server crashed during a commit, and its outcome is not known")
        return None if status == "in progress" else bool(status == "committed")

    def _mark(self) -> Statement:
        return Select("SELECT pg_logical_emit_message(true, 'pywheel', '')::text")

    def _put(self, insert: Insert, *, again: bool) -> Sequence[int] | None:
        try:
            with self._store.translated:
                [rows] = self._connection.ask([self._store.dialect.put(insert, self._now)])
        except Conflict:
            if not again:
                raise  # else the first was under way until now
        return self._there(insert) if again else [id for [id] in rows] if insert.unless_taken else None

    def _there(self, insert: Insert) -> Sequence[int]:
        return drive(self._send, read.stored(insert))


class PostgresWithin(SessionWithin):
    """The statements of a change, one by one: the caller's connection is not in pipeline mode."""

    _lent: PostgresStore

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        """Whether the transaction sees one moment: in REPEATABLE READ and SERIALIZABLE."""
        [(level,)] = self._execute("SELECT current_setting('transaction_isolation')")
        return level in ("repeatable read", "serializable")

    def _is_in_transaction(self) -> bool:
        if module_of(self._theirs) == "asyncpg":
            return bool(self._theirs.is_in_transaction())
        idle = self._theirs.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return not (self._theirs.autocommit and idle)

    def _begin(self) -> None:
        theirs = self._theirs
        if isinstance(theirs, psycopg.Connection | psycopg.AsyncConnection):
            if theirs.pgconn.pipeline_status:  # an answer would come later
                raise BadJob(_PIPELINE)
            if theirs.info.encoding == "ascii":  # texts would come as bytes
                raise BadJob(_BYTES)
        super()._begin()
        if self._now is None:  # else the time would be that of the transaction's begin
            [(self._now,)] = self._execute(_CLOCK)

    def _rows(self, one: Statement) -> Sequence[Any]:
        answers = [self._execute(*asked) for asked in self._lent.dialect_within.said(one, self._now)]
        return answers[-1] if answers else ()

    def _execute(self, text: str, values: Any = None) -> Sequence[Any]:
        """Run a statement; return its rows as tuples, whatever the caller's row factory."""
        try:
            return self._executed(text, values)
        except UnicodeEncodeError as error:
            raise BadJob(f"connection=: its encoding lacks a character: {error}") from error

    def _executed(self, text: str, values: Any) -> Sequence[Any]:
        theirs = self._theirs
        with self._lent.translated:
            if isinstance(theirs, psycopg.Connection):
                return _fetched(psycopg.Cursor(theirs, row_factory=tuple_row).execute(text, values, binary=True))
            if isinstance(theirs, psycopg.AsyncConnection):
                return wait(_awaited(theirs, text, values))
            try:  # of other drivers' errors only the code is known
                if module_of(theirs) == "asyncpg":
                    return wait(_by_asyncpg(theirs, text, values or {}))
                cursor = theirs.cursor()
                cursor.execute(text.replace(")b::bytea", ")s::bytea"), values)  # psycopg2 knows no binary values
                return _fetched(cursor)
            except (OSError, UnicodeEncodeError):
                raise
            except Exception as error:
                code = getattr(error, "pgcode", None) or getattr(error, "sqlstate", None)
                kind = psycopg.errors.lookup(code) if code else psycopg.InterfaceError
                raise kind(str(error)) from error


def _fetched(cursor: Any) -> Sequence[Any]:
    return cursor.fetchall() if cursor.description else ()


async def _awaited(connection: psycopg.AsyncConnection[Any], text: str, values: Any) -> Sequence[Any]:
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(text, values, binary=True)
        return await cursor.fetchall() if cursor.description else ()


async def _by_asyncpg(connection: Any, text: str, values: Mapping[str, Any]) -> Sequence[Any]:
    text, names, _ = numbered(text)
    text = _ARRAY.sub(r"\1::text\2", text)  # arrays of numbers are sent as text
    return await connection.fetch(text, *map(values.__getitem__, names))  # type: ignore[no-any-return]


_ARRAY: Final = re.compile(r"(\$[0-9]+)(::(?:bigint|int|smallint|boolean)\[\])")
