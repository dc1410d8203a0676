"""The statements of a put, in a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol
from weakref import WeakSet

import psycopg
from psycopg.rows import tuple_row

from ..._errors import BadJob
from ..relational.changes import Changes
from ..relational.session import Answer, Asked
from .connection import adapt
from .session import PostgresSession, Writing

__all__ = ["SessionWithin"]

_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"
_NONE: Final = "connection=: there is no transaction, as it commits each statement: begin one"


class Lent(Writing, Protocol):
    """What it needs of its store."""

    lenders: WeakSet[Any]

    @property
    def database(self) -> str:
        """The name of its database."""


class SessionWithin(PostgresSession):
    """The same statements, between two savepoints, one by one: the caller's connection is in no pipeline of ours."""

    def __init__(self, connection: Any, store: Lent, sql: Mapping[str, str], now: int | None) -> None:
        super().__init__(store, sql, now, 0.0)
        self._lent = store
        self._theirs: Any = _Borrowed(connection)

    def fixed(self) -> bool:
        """Whether it sees what there was at a moment: in REPEATABLE READ and SERIALIZABLE."""
        with self._store.translated():
            [(level,)] = self._theirs.execute("SELECT current_setting('transaction_isolation')").fetchall()
        return level in ("repeatable read", "serializable")

    def begin(self, asked: Asked) -> Answer:
        """Set a savepoint, and read and lock what is asked for."""
        connection = self._theirs.connection
        if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise BadJob(_NONE)
        with self._store.translated():
            self._theirs.execute("SAVEPOINT pywheel")
        self._connection = self._theirs
        self._refuse_another_database()
        return self._opened(lambda: self._ask(asked))()

    def _refuse_another_database(self) -> None:
        """Raise BadJob for one in which the job would be among others. One query for each connection."""
        theirs, store = self._theirs.connection, self._lent
        if theirs not in store.lenders:
            with store.translated():
                [(name,)] = self._theirs.execute("SELECT current_database()").fetchall()
            if name != store.database:
                raise BadJob(_OTHER.format(name, store.database))
            store.lenders.add(theirs)

    def _start(self) -> None:
        """The transaction is there."""

    def numbers(self, names: Sequence[str] | None, *, add: bool = False) -> Mapping[str, int]:
        """Return the numbers of topics; before the savepoint from a connection of the store's."""
        if self._connection is None:
            return self._store.known_topics(names)
        return super().numbers(names, add=add)

    def commit(self, changes: Changes, near: int | None) -> Sequence[Sequence[Any]]:  # noqa: ARG002
        """Write; the caller commits."""
        with self._pipeline():
            self._write(changes)
            self._there().execute("RELEASE SAVEPOINT pywheel")
        self._connection = None
        return ()

    def abandon(self) -> None:
        """Go back to the savepoint, if it is there still."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            with self._store.translated():
                connection.execute("ROLLBACK TO SAVEPOINT pywheel")
                connection.execute("RELEASE SAVEPOINT pywheel")


class _Borrowed:
    """The caller's connection: rows are tuples whatever it makes of them, and text may have NUL."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Any = None) -> Any:
        """Run a statement."""
        if isinstance(self.connection, psycopg.Connection):
            ours = psycopg.Cursor(self.connection, row_factory=tuple_row)
            adapt(ours)
            return ours.execute(statement, values)
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement, values)
        except Exception as error:  # psycopg2's, of which we know no more than the code
            kind = psycopg.errors.lookup(getattr(error, "pgcode", None) or "")
            raise kind(str(error)) from error
        return cursor

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Run statements one by one."""
        yield None
