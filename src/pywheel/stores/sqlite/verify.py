"""Checking a file, and the tables in it against each other."""

from __future__ import annotations

import sqlite3

from .. import verify as faults
from ..sql import verify as tables
from ..sql.transaction import Names, Transaction
from ..verify import Finding, verified
from .dialect import SQLITE, Carrier

__all__ = ["find", "mended"]


def find(connection: sqlite3.Connection, now: int) -> list[Finding]:
    """Return what is wrong with the file, all of one moment. For a connection without a transaction."""
    connection.execute("BEGIN")
    try:
        return _find(connection, now)
    finally:
        connection.execute("COMMIT")


def mended(connection: sqlite3.Connection, now: int, tx: Transaction) -> list[Finding]:
    """Return what is wrong with the file, and what of it was mended. In a turn to write."""
    connection.execute("BEGIN IMMEDIATE")
    found = verified(lambda: _find(connection, now), lambda: _mend(connection, tx))
    connection.execute("COMMIT")
    return found


def _find(connection: sqlite3.Connection, now: int) -> list[Finding]:
    said = [row[0] for row in connection.execute("PRAGMA integrity_check").fetchall()]
    found = [] if said == ["ok"] else faults.INDEXES.found(said)
    return found + Carrier(connection, now).drive(tables.find(Names("topic"), SQLITE.tallies()))


def _mend(connection: sqlite3.Connection, tx: Transaction) -> None:
    connection.execute("REINDEX")
    carrier = Carrier(connection, tx.now)
    tx.tally.rows = carrier.drive(tables.mend(SQLITE.tallies()))
    carrier.drive(SQLITE.count(tx))
