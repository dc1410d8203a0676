"""Checking the tables against each other, all of one moment."""

from __future__ import annotations

import time
from typing import Any, Final

import pymysql

from ..sql import verify as tables
from ..sql.statement import Steps
from ..sql.transaction import Names, Tally
from ..verify import IDS, Finding, verified
from .connection import Timed
from .dialect import MysqlDialect

__all__ = ["find", "mended"]

_TRIES: Final = 12
_CONFLICTS: Final = (1213, 1205)  # ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT


def find(connection: Timed, dialect: MysqlDialect) -> list[Finding]:
    """Return what is wrong with the tables."""
    connection.ask(
        ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"]
    )
    found = _find(connection, dialect)
    connection.ask(["COMMIT"])
    return found


def mended(connection: Timed, dialect: MysqlDialect, now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. What is read is locked."""

    def mend() -> None:
        tally = Tally()
        tally.rows = _driven(connection, dialect, now, tables.mend(dialect.tallies(), _more(dialect)))
        connection.ask(dialect.texts(dialect.counted(tally), now)[0])

    found: list[Finding] = find(connection, dialect)
    for attempt in range(_TRIES if found else 0):
        try:
            connection.ask(["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"])
            found = verified(lambda: _find(connection, dialect), mend)
            connection.ask(["COMMIT"])
            break
        except pymysql.OperationalError as error:
            if error.args[0] not in _CONFLICTS or attempt + 1 == _TRIES:
                raise
            connection.ask(["ROLLBACK"])
            time.sleep(0.01 * attempt)
    return found


def _find(connection: Timed, dialect: MysqlDialect) -> list[Finding]:
    return _driven(connection, dialect, None, tables.find(Names("topic"), dialect.tallies(), _more(dialect)))  # type: ignore[no-any-return]


def _driven(connection: Timed, dialect: MysqlDialect, now: int | None, steps: Steps[Any]) -> Any:
    try:
        batch = next(steps)
        while True:
            texts, places = dialect.texts(batch, now)
            results = connection.ask(texts)
            batch = steps.send([() if place is None else results[place].rows for place in places])
    except StopIteration as end:
        return end.value


def _more(dialect: MysqlDialect) -> list[tables.Check]:
    """Return a look for ids that would be given out once more."""
    last = f"(SELECT value FROM {dialect.tables}number WHERE name = 'id')"
    raised = "UPDATE {}number SET value = greatest(value, (SELECT coalesce(max(id), 0) FROM {})) WHERE name = 'id'"
    find = " UNION ALL ".join(f"SELECT id FROM {table} WHERE id > {last}" for table in ("job", "finished"))
    return [tables.Check(IDS, find, tuple(raised.format(dialect.tables, table) for table in ("job", "finished")))]
