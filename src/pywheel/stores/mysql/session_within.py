"""The statements of a put, in a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol
from weakref import WeakSet

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from ..._errors import BadJob, StoreBusy
from ..sql.statement import Batch, NewNames, NewPriorities, Rows, Select, Statement
from .connection import Result
from .session import MysqlSession, Writing
from .statements import Statements

__all__ = ["SessionWithin"]

_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"
_NONE: Final = "connection=: there is no transaction, as it commits each statement: begin one"
_OVER: Final = "connection=: the server has ended this transaction, as it and another waited for each other: begin anew"
_CHANGED: Final = (
    "connection=: the server has ended this transaction, as others changed the same since its snapshot: begin anew, "
    "best in READ COMMITTED"
)
_LOCKED: Final = "{lock j}"
_ENDED: Final = {1213: _OVER, 1020: _CHANGED}
"""What the server says when it has rolled back all of a transaction; 1020: by `innodb_snapshot_isolation`."""


class Lent(Writing, Protocol):
    """What it needs of its store."""

    lenders: WeakSet[Any]

    @property
    def database(self) -> str:
        """The name of its database."""

    def commit_alone(self, one: NewNames | NewPriorities) -> None:
        """Store names or priorities on another connection, and commit."""

    def read(self, one: Select | Rows) -> Sequence[Any]:
        """Return the rows of a statement, as they are committed."""


class SessionWithin(MysqlSession):
    """The same statements, between two savepoints, one by one: the caller's connection may run no more at once.

    In REPEATABLE READ, the server's default, a statement that locks nothing sees what there was when the transaction
    began, and one that locks also locks the gap where a row would be: until the caller's commit others could neither
    put nor claim. So what only others can have stored is read on a connection of the store's own. Who has a key is
    looked for without a lock, and its row is locked by its id. If others have put it since, the INSERT says so: then
    theirs is read, too, as it is committed.
    """

    def __init__(self, connection: Any, store: Lent, sql: Statements, now: int | None) -> None:
        super().__init__(store, sql, now, 0.0)
        self._lent = store
        self._theirs = connection
        self._begun = False
        self._begins = 0

    def send(self, batch: Batch) -> list[Any]:
        """Run statements; before the first, set a savepoint."""
        if not self._begun:
            self._begin()
        return [self._one(statement) for statement in batch]

    def _one(self, one: Statement) -> Sequence[Any]:
        if isinstance(one, NewNames | NewPriorities):
            self._lent.commit_alone(one)
            return ()
        if not isinstance(one, Select | Rows):
            [rows] = self._send((one,))
            return rows  # type: ignore[no-any-return]
        if _is_committed(one):
            return self._lent.read(one)
        if isinstance(one, Rows) and one.text.endswith(_LOCKED):
            return self._locked(one)
        if self._begins > 1:
            one = Select(f"{one.text} LOCK IN SHARE MODE", one.values)
        [rows] = self._send((one,))
        return rows  # type: ignore[no-any-return]

    def _locked(self, one: Rows) -> Sequence[Any]:
        """Find live jobs without a lock, those too that others have stored since the snapshot; then lock those rows."""
        loose = Rows(one.columns, one.text.removesuffix(_LOCKED), one.values)
        [found] = self._send((loose,))
        place = one.columns.split().index("id")
        ids = {row[place] for row in (*found, *(self._lent.read(loose) if self._begins > 1 else ()))}
        if not ids:
            return ()
        chosen = one.text.partition(" FROM ")[0]
        text = f"{chosen} FROM job j WHERE j.id {{in ids}} AND j.passed = 0 {_LOCKED}"
        [rows] = self._send((Rows(one.columns, text, {"ids": sorted(ids)}),))
        return rows  # type: ignore[no-any-return]

    def _begin(self) -> None:
        theirs = self._theirs
        if theirs.get_autocommit() and not theirs.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            raise BadJob(_NONE)
        self._execute("SAVEPOINT pywheel")
        self._begun = True
        self._begins += 1
        self._refuse_another_database()

    def _refuse_another_database(self) -> None:
        """Raise BadJob for one in which the job would be among others. One query for each connection."""
        theirs, store = self._theirs, self._lent
        if theirs not in store.lenders:
            [[name]] = self._execute("SELECT database()").rows
            if str(name).lower() != store.database.lower():  # a server may write it in either way
                raise BadJob(_OTHER.format(name, store.database))
            store.lenders.add(theirs)

    def commit(self, batch: Batch, near: int | None, put: int | None) -> tuple[list[Any], Sequence[Any]]:  # noqa: ARG002
        """Write; the caller commits."""
        rows = self.send(batch)
        self._execute("RELEASE SAVEPOINT pywheel")
        self._begun = False
        return rows, ()

    def abandon(self) -> None:
        """Go back to the savepoint, if it is there still."""
        if self._begun:
            self._begun = False
            self._execute("ROLLBACK TO SAVEPOINT pywheel")
            self._execute("RELEASE SAVEPOINT pywheel")

    def _run(self, texts: Sequence[str]) -> list[Any]:
        return [self._execute(text).rows for text in texts]

    def _execute(self, text: str) -> Result:
        """Run a statement; rows are tuples, whatever the caller's connection makes of them."""
        with self._store.translated(), Cursor(self._theirs) as cursor:
            try:
                matched = cursor.execute(text)
            except pymysql.OperationalError as error:
                if error.args[0] in _ENDED:
                    self._begun = False
                    raise StoreBusy(_ENDED[error.args[0]]) from error
                raise
            return Result(cursor.fetchall() if cursor.description else (), matched, cursor.lastrowid or 0)


def _is_committed(one: Select | Rows) -> bool:
    """Whether only other transactions can have stored what a statement reads: names, and jobs that have ended."""
    return one.columns == "id name" if isinstance(one, Rows) else "FROM finished" in one.text
