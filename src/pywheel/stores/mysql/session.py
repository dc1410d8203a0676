"""Transactions on MySQL: the store's own, each batch in one packet if it fits, and a put in a caller's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from ..._errors import StoreBusy
from ..relational.session import OwnSession, SessionWithin
from ..sql import read
from ..sql.dialect import EACH
from ..sql.statement import Batch, Do, Insert, Rows, Select, Statement
from ..within import is_async, module_of, wait
from .connection import AlreadyThere
from .dialect import MOMENT, NOW, SET_MOMENT

if TYPE_CHECKING:
    from .store import MysqlStore

_FORGOTTEN: Final = 256  # transactions of this client after which the earlier ones are forgotten
_OVER: Final = "connection=: the server has ended this transaction, as it and another waited for each other: begin anew"
_CHANGED: Final = (
    "connection=: the server has ended this transaction, as others changed the same since its snapshot: begin anew, "
    "best in READ COMMITTED"
)
_GONE: Final = "connection=: the server has ended this transaction, as by innodb_rollback_on_timeout: begin anew"
_LOCKED: Final = "{lock j}"
_LOCKS: Final = re.compile(r"(?: FOR UPDATE.*| LOCK IN SHARE MODE)?$")
_LIMITED: Final = re.compile(r" LIMIT [0-9]+ *$")
_ENDED: Final = {1213: _OVER, 1020: _CHANGED, 1305: _GONE}
"""Messages by the server's error number when it has rolled back a whole transaction; 1020 comes from
`innodb_snapshot_isolation`, 1305 says that the savepoint is gone."""
# Waits for the transaction if it is under way. If it has not happened, it never will; the second row records that.
_BAR: Final = f"INSERT INTO request (client, number, at) VALUES (:client, :number, {NOW}), (:client, -:number, {NOW})"
_BARRED: Final = "SELECT 1 FROM request WHERE client = :client AND number = -:number"


def requested(client: bytes, number: int) -> Do:
    """Return the statement that records that a transaction happened."""
    text = f"INSERT INTO request (client, number, at) VALUES (:client, :number, {NOW})"
    return Do(text, {"client": client, "number": number})


def forgotten(client: bytes, number: int) -> Do:
    """Return the statement that deletes the records of a client's transactions before a number."""
    return Do("DELETE FROM request WHERE client = :client AND number < :number", {"client": client, "number": number})


class MysqlSession(OwnSession):
    """The trips of one transaction. The connection is always in a transaction."""

    _store: MysqlStore
    _number = 0  # of the transaction: its record tells whether it happened

    def _commit(self, batch: Batch) -> None:
        client, self._number = self._lane.client, next(self._lane.requests)
        first: list[Statement] = [requested(client, self._number)]
        if self._number % _FORGOTTEN == 0:
            first.append(forgotten(client, self._number))
        texts, _ = self._store.dialect.texts([*first, *batch], self._now)
        with self._store.translated:
            self._connection.one([*texts, "COMMIT"])

    def _fate(self, put: Insert | None) -> bool:  # noqa: ARG002
        asked = {"client": self._lane.client, "number": self._number}
        with suppress(AlreadyThere):
            self._store.run(Do(_BAR, asked))
        return not self._store.run(Select(_BARRED, asked))[0]

    def _mark(self) -> Statement:
        return requested(self._lane.client, next(self._lane.requests))

    def _put(self, insert: Insert, *, again: bool) -> Sequence[int] | None:
        # For a single job, or at the second try, an error shows that it is stored; else rows show which are.
        plain = again or len(insert.rows) == 1 or not insert.unless_taken
        try:
            with self._store.translated:
                rows = self._connection.one(self._put_texts(insert, plain=plain))
        except AlreadyThere as error:
            self.abandon()
            if again:
                return self._there(insert)
            if insert.unless_taken and not error.primary:
                return ()
            raise
        return None if plain else [id for [id] in rows]

    def _there(self, insert: Insert) -> Sequence[int]:
        return self._store._read_steps(partial(read.stored, insert))

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


class MysqlWithin(SessionWithin):
    """The statements of a change, one by one: the caller's connection may take only one at once.

    In REPEATABLE READ, the server's default, a statement without locks sees the state at the transaction's begin. One
    with locks also locks the gap where a row would be: until the caller's commit others could neither put nor claim. So
    rows that only others can have stored are read on a connection of the store's own. The holder of a key is looked for
    without a lock, and then locked by its id. If others have put the key since, the INSERT fails: then their committed
    rows are read as well.
    """

    _lent: MysqlStore
    _begins = 0

    def _begin(self) -> None:
        super()._begin()
        self._begins += 1

    def _is_in_transaction(self) -> bool:
        inside = self._theirs.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS
        return bool(inside or not self._theirs.get_autocommit())

    def _rows(self, one: Statement) -> Sequence[Any]:
        if isinstance(one, Select | Rows):
            if _is_committed(one):
                return self._lent.run(one)[0]  # type: ignore[no-any-return]
            if isinstance(one, Rows) and one.text.endswith(_LOCKED):
                return self._locked(one)
            if self._begins > 1:
                one = Select(f"{one.text} LOCK IN SHARE MODE", one.values)
        return self._read(one)

    def _locked(self, one: Rows) -> Sequence[Any]:
        """Find jobs without a lock, also those that others have stored since the snapshot; then lock their rows."""
        loose = Rows(one.columns, one.text.removesuffix(_LOCKED), one.values)
        place = one.columns.split().index("id")
        found = self._read(loose)
        ids = {row[place] for row in (*found, *(self._lent.run(loose)[0] if self._begins > 1 else ()))}
        if not ids:
            return ()
        chosen, _, source = one.text.partition(" FROM ")
        table = "finished" if " finished j " in f" {source}" else "job"
        each = EACH.search(source)
        if each is None:
            where = source.partition(" WHERE ")[2]
        else:  # the row of the list is found: what stands for the job alone must still be true
            where = " AND ".join(one for one in each[3].split(" AND ") if "w." not in one) + f" {_LOCKED}"
        text = f"{chosen} FROM {table} j WHERE j.id {{in ids}} AND {where}"
        return self._read(Rows(one.columns, text, {**one.values, "ids": sorted(ids)}))

    def _read(self, one: Statement) -> Sequence[Any]:
        texts, [place] = self._lent.dialect_within.texts((one,), self._now)
        results = [self._execute(_whole(text)) for text in texts]
        return () if place is None else results[place]

    def _execute(self, text: str) -> Sequence[Any]:
        """Run a statement; return its rows as tuples, whatever the caller's cursor class."""
        with self._lent.translated:
            try:
                if is_async(self._theirs):
                    return wait(_awaited(self._theirs, text))
                with Cursor(self._theirs) as cursor:
                    cursor.execute(text)
                    return cursor.fetchall() if cursor.description else ()
            except pymysql.OperationalError as error:
                if error.args[0] in _ENDED:
                    self._begun = False
                    raise StoreBusy(_ENDED[error.args[0]]) from error
                raise


async def _awaited(connection: Any, text: str) -> Sequence[Any]:
    """Return the rows of a statement on a connection of aiomysql or asyncmy. Its errors have PyMySQL's names."""
    driver = module_of(connection)
    try:
        async with connection.cursor(import_module(f"{driver}.cursors").Cursor) as cursor:
            await cursor.execute(text)
            return await cursor.fetchall() if cursor.description else ()
    except Exception as error:
        kind = getattr(pymysql.err, type(error).__name__, None)
        if kind is None or module_of(error) != driver:
            raise
        raise kind(*error.args) from error


def _whole(text: str) -> str:
    """Return a statement that reads all rows, whatever the connection's `sql_select_limit`."""
    at = _LOCKS.search(text).start()  # type: ignore[union-attr]  # it may match nothing
    if not text.startswith("SELECT ") or _LIMITED.search(text, 0, at):
        return text
    return f"{text[:at]} LIMIT {2**64 - 1}{text[at:]}"


def _is_committed(one: Select | Rows) -> bool:
    """Whether a statement reads only rows of other transactions: names, and jobs that have ended."""
    return one.columns == "id name" if isinstance(one, Rows) else "FROM finished" in one.text
