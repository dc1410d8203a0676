"""The statements of a put, in a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol
from weakref import WeakSet

import psycopg
from psycopg.rows import tuple_row

from ..._errors import BadJob
from ..sql.statement import Batch, Drop, NewNames, NewPriorities
from .session import PostgresSession, Writing, rows_of

__all__ = ["SessionWithin"]

_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"
_CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_NOTHING: Final = Drop(())
_NONE: Final = "connection=: there is no transaction, as it commits each statement: begin one"


class Lent(Writing, Protocol):
    """What it needs of its store."""

    lenders: WeakSet[Any]

    @property
    def database(self) -> str:
        """The name of its database."""

    def commit_alone(self, one: NewNames | NewPriorities) -> None:
        """Store names or priorities on another connection, and commit."""


class SessionWithin(PostgresSession):
    """The same statements, between two savepoints, one by one: the caller's connection is in no pipeline of ours."""

    def __init__(self, connection: Any, store: Lent, now: int | None) -> None:
        super().__init__(store, now, 0.0)
        self._lent = store
        self._theirs: Any = _Borrowed(connection)

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        """Whether it sees what there was at a moment: in REPEATABLE READ and SERIALIZABLE."""
        with self._store.translated():
            [(level,)] = self._theirs.execute("SELECT current_setting('transaction_isolation')").fetchall()
        return level in ("repeatable read", "serializable")

    def send(self, batch: Batch) -> list[Any]:
        """Run statements; before the first, set a savepoint."""
        if self._connection is None:
            self._begin_within()
        for one in batch:
            if isinstance(one, NewNames | NewPriorities):
                self._lent.commit_alone(one)
        with self._store.translated():
            return rows_of(
                self._started([_NOTHING if isinstance(one, NewNames | NewPriorities) else one for one in batch])
            )

    def _begin_within(self) -> None:
        connection = self._theirs.connection
        if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise BadJob(_NONE)
        with self._store.translated():
            self._theirs.execute("SAVEPOINT pywheel")
        self._connection = self._theirs
        self._refuse_another_database()
        if self._now is None:  # else it would be the time at which the caller began
            with self._store.translated():
                [(self._now,)] = self._theirs.execute(_CLOCK).fetchall()

    def _refuse_another_database(self) -> None:
        """Raise BadJob for one in which the job would be among others. One query for each connection."""
        theirs, store = self._theirs.connection, self._lent
        if theirs not in store.lenders:
            with store.translated():
                [(name,)] = self._theirs.execute("SELECT current_database()").fetchall()
            if name != store.database:
                raise BadJob(_OTHER.format(name, store.database))
            store.lenders.add(theirs)

    def commit(self, batch: Batch, near: int | None, put: int | None) -> tuple[list[Any], Sequence[Any]]:  # noqa: ARG002
        """Write; the caller commits."""
        rows = self.send(batch)
        with self._store.translated():
            self._there().execute("RELEASE SAVEPOINT pywheel")
        self._connection = None
        return rows, ()

    def abandon(self) -> None:
        """Go back to the savepoint, if it is there still."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            with self._store.translated():
                connection.execute("ROLLBACK TO SAVEPOINT pywheel")
                connection.execute("RELEASE SAVEPOINT pywheel")


class _Borrowed:
    """The caller's connection: rows are tuples whatever it makes of them."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Any = None, *, binary: bool = False) -> Any:
        """Run a statement."""
        if isinstance(self.connection, psycopg.Connection):
            ours = psycopg.Cursor(self.connection, row_factory=tuple_row)
            return ours.execute(statement, values, binary=binary)
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement.replace(")b::bytea", ")s::bytea"), values)  # it knows no binary values
        except Exception as error:  # psycopg2's, of which we know no more than the code
            kind = psycopg.errors.lookup(getattr(error, "pgcode", None) or "")
            raise kind(str(error)) from error
        return cursor
