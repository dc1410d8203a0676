"""Checking the tables against each other, all of one moment."""

from __future__ import annotations

from typing import Final

from ..relational import verify
from ..verify import Finding
from .connection import Timed
from .dialect import PostgresDialect
from .session import rows_of, started

__all__ = ["find", "mended"]

# The connections of a store want plans that find few rows by their keys. Here all rows are read.
_PLANS: Final = "SELECT " + ", ".join(
    f"set_config('{name}', '{value}', true)"
    for name, value in (
        ("plan_cache_mode", "auto"),
        ("enable_seqscan", "on"),
        ("enable_hashjoin", "on"),
        ("enable_mergejoin", "on"),
    )
)


def find(connection: Timed, dialect: PostgresDialect) -> list[Finding]:
    """Return what is wrong with the tables."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(_PLANS)
        return verify.find(_sender(connection, dialect, None), dialect)


def mended(connection: Timed, dialect: PostgresDialect, now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. Nobody else writes meanwhile."""
    with connection.transaction():
        locked = ", ".join(f"{dialect.tables}{name}" for name in ("topic", "job", "finished", "attempt", "tally"))
        connection.execute(f"LOCK TABLE {locked} IN SHARE ROW EXCLUSIVE MODE".encode())
        connection.execute(_PLANS)
        return verify.mended(_sender(connection, dialect, now), dialect)


def _sender(connection: Timed, dialect: PostgresDialect, now: int | None) -> verify.Send:
    return lambda batch: rows_of(started(connection.execute, dialect, batch, now))
