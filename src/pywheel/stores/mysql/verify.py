"""Checking the tables against each other: one statement a fault, each O(jobs), all of one moment."""

from __future__ import annotations

import time
from typing import Final

from .. import verify as faults
from ..relational.session import Conflict
from ..relational.verify import FAULTS, Looks
from ..verify import Finding, verified
from .connection import Timed
from .statements import Statements

__all__ = ["find", "mended"]

_TRIES: Final = 12
_FAULTS: Final[Looks] = (*FAULTS, (faults.INDEXES, "find_names", ("mend_names_gone", "mend_names")))


def find(connection: Timed, sql: Statements) -> list[Finding]:
    """Return what is wrong with the tables."""
    connection.ask(
        ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"]
    )
    found = _find(connection, sql)
    connection.ask(["COMMIT"])
    return found


def mended(connection: Timed, sql: Statements, now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. What is read is locked."""

    def mend() -> None:
        connection.ask([sql(name, now=now) for _, _, names in _FAULTS for name in names])

    found: list[Finding] = find(connection, sql)
    for attempt in range(_TRIES if found else 0):
        try:
            connection.ask(["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"])
            found = verified(lambda: _find(connection, sql), mend)
            connection.ask(["COMMIT"])
            break
        except Conflict:
            connection.ask(["ROLLBACK"])
            if attempt + 1 == _TRIES:
                raise
            time.sleep(0.01 * attempt)
    return found


def _find(connection: Timed, sql: Statements) -> list[Finding]:
    found: list[Finding] = []
    for fault, name, _ in _FAULTS:
        [result] = connection.ask(
            [f"WITH f AS ({sql(name)}) SELECT (SELECT count(*) FROM f), id FROM f ORDER BY id LIMIT 5"]
        )
        if result.rows:
            found += fault.found([id for _, id in result.rows], result.rows[0][0])
    return found
