"""The statements of a put, in a transaction of the caller's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from weakref import WeakSet

import pymysql
from pymysql.constants import SERVER_STATUS
from pymysql.cursors import Cursor

from ..._errors import BadJob, StoreBusy
from ..relational.changes import Changes
from ..relational.session import Answer, Asked
from .connection import Result
from .session import MysqlSession, Trip, Writing
from .statements import Statements

__all__ = ["SessionWithin"]

_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"
_NONE: Final = "connection=: there is no transaction, as it commits each statement: begin one"
_OVER: Final = "connection=: the server has ended this transaction, as it and another waited for each other: begin anew"
_CHANGED: Final = (
    "connection=: the server has ended this transaction, as others changed the same since its snapshot: begin anew, "
    "best in READ COMMITTED"
)
_ENDED: Final = {1213: _OVER, 1020: _CHANGED}
"""What the server says when it has rolled back all of a transaction; 1020: by `innodb_snapshot_isolation`."""
_READS: Final = frozenset({"topics_of", "holders", "named", "nonces"})


class Lent(Writing, Protocol):
    """What it needs of its store."""

    lenders: WeakSet[Any]

    @property
    def database(self) -> str:
        """The name of its database."""


class SessionWithin(MysqlSession):
    """The same statements, between two savepoints, one by one: the caller's connection may run no more at once."""

    def __init__(self, connection: Any, store: Lent, sql: Statements, now: int | None) -> None:
        super().__init__(store, sql, now, 0.0)
        self._lent = store
        self._theirs = connection
        self._begun = False
        self._begins = 0

    def begin(self, asked: Asked) -> Answer:
        """Set a savepoint, and read and lock what is asked for."""
        theirs = self._theirs
        if theirs.get_autocommit() and not theirs.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            raise BadJob(_NONE)
        self._run("SAVEPOINT pywheel")
        self._begun = True
        self._begins += 1
        self._refuse_another_database()
        return self._ask(asked, begin=True)

    def _refuse_another_database(self) -> None:
        """Raise BadJob for one in which the job would be among others. One query for each connection."""
        theirs, store = self._theirs, self._lent
        if theirs not in store.lenders:
            [[name]] = self._run("SELECT database()").rows
            if str(name).lower() != store.database.lower():  # a server may write it in either way
                raise BadJob(_OTHER.format(name, store.database))
            store.lenders.add(theirs)

    def _ask(self, asked: Asked, *, begin: bool) -> Answer:
        """Read and lock. A job that was found is looked for nowhere else.

        In REPEATABLE READ, the server's default, who looks for a row that is not there locks the gap where it would be:
        until the caller's commit no worker could claim.
        """
        answer = super()._ask(asked._replace(run=(), finished=()), begin=begin)
        left = {id for id, _ in asked.run} - {row[0] for row in answer.due}
        if left:
            answer = answer._replace(run=super()._ask(Asked(run=[(id, False) for id in left]), begin=False).run)
            left -= {row[0] for row in answer.run}
        if left:
            answer = answer._replace(finished=super()._ask(Asked(finished=sorted(left)), begin=False).finished)
        return answer

    def _trip(self) -> Trip:
        """Who has a key is read without a lock at first, as that would lock the gap: other keys' puts would wait.

        If others have put it since the caller's transaction began, that conflicts, and is begun anew.
        """
        return _LockingTrip(self._sql, self._now, _READS if self._begins > 1 else _READS - {"holders"})

    def numbers(self, names: Sequence[str] | None, *, add: bool = False) -> Mapping[str, int]:
        """Return the numbers of topics; before the savepoint from a connection of the store's."""
        if not self._begun or names is None:
            return self._store.known_topics(names)
        return super().numbers(names, add=add)

    def commit(self, changes: Changes, near: int | None) -> Sequence[Sequence[Any]]:  # noqa: ARG002
        """Write; the caller commits."""
        trip = self._trip()
        self._write(trip, changes)
        trip.say("", "RELEASE SAVEPOINT pywheel")
        self._send(trip)
        self._begun = False
        return ()

    def abandon(self) -> None:
        """Go back to the savepoint, if it is there still."""
        if self._begun:
            self._begun = False
            self._run("ROLLBACK TO SAVEPOINT pywheel")
            self._run("RELEASE SAVEPOINT pywheel")

    def _send(self, trip: Trip) -> dict[str, list[Any]]:
        return trip.sorted([self._run(text) for text in trip.texts])

    def _run(self, text: str) -> Result:
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


class _LockingTrip(Trip):
    """Reads what is there now, and not what was when the caller's transaction began."""

    def __init__(self, sql: Statements, now: int | None, locking: frozenset[str]) -> None:
        super().__init__(sql, now)
        self._locking = locking

    def add(self, field: str, statement: str, /, **values: Any) -> None:
        """Add a statement by its name."""
        text = self._sql(statement, now=self._now, **values)
        self.say(field, text + " LOCK IN SHARE MODE" if statement in self._locking else text)
