"""One transaction on PostgreSQL: each batch of statements goes out together, as a pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

import psycopg

from ..._errors import StoreAway, StoreError
from ..relational.session import Conflict, Session, Unknown
from ..sql.statement import Batch, Each, Insert
from .connection import Timed
from .dialect import PostgresDialect

__all__ = ["NEAR", "PostgresSession", "Writing", "rows_of", "started"]

_ANYHOW: Final = 2**62  # how far some worker may look, if that is not known
_LOOK: Final = 0.1  # seconds between looks what became of a commit
_BEGUN: Final = "SELECT {now}, pg_current_xact_id()::text, pg_postmaster_start_time()::text"
NEAR: Final = (
    "SELECT w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped, NULL FROM member w "
    "WHERE EXISTS (SELECT 1 FROM member f WHERE f.topics IS NOT NULL AND f.horizon >= :due) ORDER BY w.name"
)
"""Reads all workers, if one of them looks as far as a due time."""


class Writing(Protocol):
    """What a session needs of its store."""

    dialect: PostgresDialect

    def writing(self, until: float) -> Timed:
        """Return the connection that writes, to be closed by whom it fails."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise what PostgreSQL says as one of our errors."""

    def status(self, transaction: str, born: str, until: float) -> str | None:
        """Return what became of a transaction whose connection broke; "restarted" if the server is a later one."""

    def is_there(self, id: int, until: float) -> bool:
        """Return whether there is a job."""

    def there(self, connection: Timed, insert: Insert) -> list[int]:
        """Return which of some new jobs are stored."""


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


class PostgresSession(Session):
    """The trips of one transaction."""

    def __init__(self, store: Writing, now: int | None, until: float) -> None:
        self._store = store
        self._now = now
        self._until = until
        self._connection: Timed | None = None
        self._id = self._born = ""  # of the transaction, and since when the server has been up

    def send(self, batch: Batch) -> list[Any]:
        """Send statements as a pipeline; before the first, begin."""
        if self._connection is None:
            return self._begin(batch)
        with self._pipeline():
            cursors = self._started(batch)
        return rows_of(cursors)

    def _started(self, batch: Batch) -> list[Any]:
        return started(self._there().execute, self._store.dialect, batch, self._now)

    def _begin(self, batch: Batch) -> list[Any]:
        """Begin in the same trip; once more if that fails on a connection that has been idle."""
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                with self._pipeline():
                    self._start()
                    begun = self._there().execute(self._store.dialect.text(_BEGUN), {"now": self._now})
                    cursors = self._started(batch)
                [(_, self._id, self._born)] = begun.fetchall()
                return rows_of(cursors)
            except StoreAway:
                self.abandon()
                if attempt == 2 or time.monotonic() >= self._until:
                    raise  # else it may have been closed by the server meanwhile
        raise AssertionError

    def _start(self) -> None:
        self._there().execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    def commit(self, batch: Batch, near: int | None, put: int | None) -> tuple[list[Any], Sequence[Any]]:
        """Send the last statements with COMMIT; then read who looks as far as `near`."""
        if self._connection is None:
            if not batch:
                return [], ()
            self.send(())
        dialect = self._store.dialect
        seen = None
        try:
            with self._pipeline() as pipeline:
                cursors = self._started(batch)
                self._there().execute("COMMIT")
                pipeline.sync()
                if near is not None:
                    seen = self._there().execute(dialect.text(NEAR), {"due": near})
            rows = rows_of(cursors)
        except StoreAway as error:
            self.abandon()
            if not self._happened(put):
                raise StoreAway(f"{error}; nothing of it was stored") from error
            rows, seen = [], None
        self._connection = None
        return rows, [] if seen is None else seen.fetchall()

    def put(self, insert: Insert, first: int) -> tuple[int | None, Sequence[int] | None]:  # noqa: ARG002
        """Insert jobs, count them and commit, in one statement."""
        text, values = self._store.dialect.put(insert)
        values["now"] = self._now
        sent = again = False  # it may have happened, though its answer was lost
        for attempt in (1, 2):
            connection = None
            try:
                with self._store.translated():
                    connection = self._store.writing(self._until)
                    again, sent = sent, True
                    if again and (there := self._store.there(connection, insert)):
                        return _ANYHOW, there
                    [(horizon, ids)] = connection.execute(text, values).fetchall()
                    return (_ANYHOW, self._store.there(connection, insert)) if again else (horizon, ids)
            except Conflict:
                if not again or connection is None:
                    raise
                return _ANYHOW, self._store.there(connection, insert)  # the first was under way until now
            except StoreAway as error:
                if connection is not None:
                    connection.close()
                if attempt == 2 or time.monotonic() >= self._until:
                    if sent:
                        raise Unknown(f"{error}; whether it was stored is not known") from error
                    raise
        raise AssertionError

    def _happened(self, put: int | None) -> bool:
        """Whether the commit, in which the connection broke, took place. Unknown if that cannot be learned."""
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

    def abandon(self) -> None:
        """Roll back, if it has begun and not ended."""
        connection = self._connection
        self._connection = None
        if connection is None:
            return
        try:
            connection.execute("ROLLBACK")
        except (psycopg.Error, StoreError):
            connection.close()

    def _there(self) -> Timed:
        connection = self._connection
        assert connection is not None
        return connection

    @contextmanager
    def _pipeline(self) -> Iterator[Any]:
        with self._store.translated(), self._there().pipeline() as pipeline:
            yield pipeline
