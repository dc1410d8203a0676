"""One transaction on MySQL: each batch of statements goes out together, in one packet if it fits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import pymysql

from ..._errors import StoreAway, StoreError
from ..relational.session import LATER, Session, Unknown
from ..sql.statement import Batch, Insert
from .connection import AlreadyThere, Timed
from .dialect import MOMENT, NOW, SET_MOMENT, MysqlDialect
from .statements import Statements

__all__ = ["MysqlSession", "Writing"]

_FORGOTTEN: Final = 256  # transactions of this client after which the earlier ones are forgotten


class Writing(Protocol):
    """What a session needs of its store."""

    dialect: MysqlDialect

    def writing(self, until: float) -> Timed:
        """Return the connection that writes, to be closed by whom it fails. It is in a transaction always."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise what the server says as one of our errors."""

    def happened(self, number: int, until: float) -> bool:
        """Return whether a transaction whose connection broke in its commit has happened; else it never will."""

    def present(self, ids: Sequence[int]) -> set[int]:
        """Return those of some ids of which there are jobs."""

    def new_request(self) -> tuple[bytes, int]:
        """Return what a transaction is known by."""


class MysqlSession(Session):
    """The trips of one transaction."""

    def __init__(self, store: Writing, sql: Statements, now: int | None, until: float) -> None:
        self._store = store
        self._sql = sql
        self._now = now
        self._until = until
        self._connection: Timed | None = None

    def send(self, batch: Batch) -> list[Any]:
        """Send statements; the first ones begin, once more if that fails on a connection that has been idle."""
        if self._connection is not None:
            return self._send(batch)
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                return self._send(batch)
            except StoreAway:
                self.abandon()
                if attempt == 2 or time.monotonic() >= self._until:
                    raise  # else it may have been closed by the server meanwhile
        raise AssertionError

    def _send(self, batch: Batch) -> list[Any]:
        texts, places = self._store.dialect.texts(batch, self._now)
        results = self._run(texts) if texts else []
        return [() if place is None else results[place] for place in places]

    def _run(self, texts: Sequence[str]) -> list[Any]:
        """Return the rows that each text gives."""
        connection = self._connection
        assert connection is not None
        with self._store.translated():
            return [result.rows for result in connection.ask(texts)]

    def commit(self, batch: Batch, near: int | None, put: int | None) -> tuple[list[Any], Sequence[Any]]:  # noqa: ARG002
        """Send the last statements with COMMIT; then read who looks as far as `near`."""
        if self._connection is None:
            if not batch:
                return [], ()
            self._connection = self._store.writing(self._until)
        client, number = self._store.new_request()
        texts = [self._sql("request", client=client, number=number, now=self._now)]
        if number % _FORGOTTEN == 0:
            texts.append(self._sql("forget_requests", client=client, number=number))
        texts += self._store.dialect.texts(batch, self._now)[0]
        texts.append("COMMIT")
        if near is not None:  # the connection is in a transaction always: one that has read would stay open
            texts += [self._sql("near", due=near), "COMMIT"]
        seen: Sequence[Any] = ()
        try:
            with self._store.translated():
                seen = self._connection.one(texts)
        except StoreAway as error:
            self.abandon()
            if not self._store.happened(number, self._until):
                raise StoreAway(f"{error}; nothing of it was stored") from error
        self._connection = None
        return [()] * len(batch), sorted(seen)

    def put(self, insert: Insert, first: int) -> tuple[int | None, Sequence[int] | None]:  # noqa: ARG002
        """Insert jobs, count them and commit, in one packet. A look at the workers would take half as long again."""
        try:
            return LATER, self._put(insert, again=False)
        except StoreAway as error:
            sent = self._connection is not None
            self.abandon()
            if time.monotonic() >= self._until:
                if sent:
                    raise Unknown(f"{error}; whether it was stored is not known") from error
                raise
        try:
            return LATER, self._put(insert, again=sent)
        except StoreError as error:
            if sent:
                raise Unknown(f"{error}; whether it was stored is not known") from error
            raise

    def _put(self, insert: Insert, *, again: bool) -> Sequence[int] | None:
        """Send a put; return the ids of those that were stored, None for all. `again`: it may have happened before."""
        # Of one alone, or the second time, an error says that it is there; else rows say which are.
        plain = again or len(insert.rows) == 1 or not insert.unless_taken
        try:
            self._connection = self._store.writing(self._until)
            with self._store.translated():
                rows = self._connection.one(self._put_texts(insert, plain=plain))
        except AlreadyThere as error:
            self.abandon()
            there = self._store.present([row[0] for row in insert.rows]) if again else set()
            if there or (insert.unless_taken and not error.primary):
                return sorted(there)
            raise
        self._connection = None
        return None if plain else [id for [id] in rows]

    def _put_texts(self, insert: Insert, *, plain: bool) -> list[str]:
        dialect, moment = self._store.dialect, str(self._now)
        texts: list[str] = []
        if self._now is None and len(insert.rows) == 1:
            moment = NOW
        elif self._now is None:
            moment, texts = MOMENT, [SET_MOMENT]
        texts += dialect.inserts(insert, moment, plain=plain)
        texts += dialect.counting(insert) if plain else dialect.counting_those_there(insert)
        return [*texts, "COMMIT"]

    def abandon(self) -> None:
        """Roll back, if it has begun and not ended."""
        connection = self._connection
        self._connection = None
        if connection is None:
            return
        try:
            if connection.interrupted:  # an answer is on its way: it is no use any more
                connection.end()
            else:
                connection.ask(["ROLLBACK"])
        except (pymysql.Error, StoreError, OSError):
            connection.end()
