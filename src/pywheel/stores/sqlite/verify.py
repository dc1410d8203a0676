"""Checking the tables of a file against each other."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from .. import verify as faults
from ..verify import Fault, Finding, verified
from .statements import SQL

__all__ = ["find", "mended"]

_FAULTS: Final[tuple[tuple[Fault, str, tuple[str, ...]], ...]] = (
    (faults.NOWHERE, "find_nowhere", ("mend_nowhere",)),
    (faults.TWICE, "find_twice", ("mend_run",)),
    (faults.NO_JOB, "find_no_job", ("mend_run",)),
    (faults.HISTORY, "find_history", ("mend_history",)),
    (faults.CLAIMS, "find_claims", ("mend_claims",)),
    (faults.LEASES, "find_leases", ("mend_leases", "mend_receipts")),
    (faults.ENDS, "find_ends", ("mend_ends", "mend_other_ends", "mend_missing_ends")),
    (faults.COUNTS, "find_counts", ("mend_counts", "mend_counted")),
    (faults.TOPICS, "find_topics", ()),
)
"""In the order in which they are mended: what was found, and what mends it."""


def find(connection: sqlite3.Connection) -> list[Finding]:
    """Return what is wrong with the file, all of one moment. For a connection without a transaction."""
    connection.execute("BEGIN")
    try:
        return _find(connection)
    finally:
        connection.execute("COMMIT")


def mended(connection: sqlite3.Connection, now: int) -> list[Finding]:
    """Return what is wrong with the file, and what of it was mended. In a turn to write."""
    connection.execute("BEGIN IMMEDIATE")
    found = verified(lambda: _find(connection), lambda: _mend(connection, now))
    connection.execute("COMMIT")
    return found


def _find(connection: sqlite3.Connection) -> list[Finding]:
    said = [row[0] for row in connection.execute("PRAGMA integrity_check").fetchall()]
    found = [] if said == ["ok"] else faults.INDEXES.found(said)
    for fault, statement, _ in _FAULTS:
        [[count, some]] = connection.execute(
            f"WITH f AS MATERIALIZED ({SQL[statement]}\n)"
            " SELECT (SELECT count(*) FROM f),"
            " (SELECT json_group_array(id) FROM (SELECT id FROM f ORDER BY id LIMIT 5))"
        ).fetchall()
        found += fault.found(json.loads(some), count)
    return found


def _mend(connection: sqlite3.Connection, now: int) -> None:
    connection.execute("REINDEX")
    for _, find, mends in _FAULTS:
        if mends:
            [[ids]] = connection.execute(f"SELECT json_group_array(id) FROM ({SQL[find]}\n)").fetchall()
            for statement in mends:
                connection.execute(SQL[statement], _used(SQL[statement], {"ids": ids, "now": now}))


def _used(statement: str, values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if f":{name}" in statement}
