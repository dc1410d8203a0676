"""Checking the tables against each other, all of one moment."""

from __future__ import annotations

import time
from typing import Any, Final

import pymysql

from ..relational import verify
from ..sql.statement import Batch
from ..verify import Finding
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
    found = verify.find(_sender(connection, dialect, None), dialect)
    connection.ask(["COMMIT"])
    return found


def mended(connection: Timed, dialect: MysqlDialect, now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. What is read is locked."""
    found = find(connection, dialect)
    for attempt in range(_TRIES if found else 0):
        try:
            connection.ask(["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"])
            found = verify.mended(_sender(connection, dialect, now), dialect)
            connection.ask(["COMMIT"])
            break
        except pymysql.OperationalError as error:
            if error.args[0] not in _CONFLICTS or attempt + 1 == _TRIES:
                raise
            connection.ask(["ROLLBACK"])
            time.sleep(0.01 * attempt)
    return found


def _sender(connection: Timed, dialect: MysqlDialect, now: int | None) -> verify.Send:
    def send(batch: Batch) -> list[Any]:
        texts, places = dialect.texts(batch, now)
        results = connection.ask(texts) if texts else ()
        return [() if place is None else results[place].rows for place in places]

    return send
