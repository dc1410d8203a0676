"""Checking the tables against each other, all of one moment."""

from __future__ import annotations

from typing import Any, Final

from ..sql import verify as tables
from ..sql.statement import Steps
from ..sql.transaction import Names, Tally
from ..verify import IDS, Finding, verified
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
        return _found(connection, dialect, None)


def mended(connection: Timed, dialect: PostgresDialect, now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. Nobody else writes meanwhile."""

    def mend() -> None:
        tally = Tally()
        tally.rows = _driven(connection, dialect, now, tables.mend(dialect.tallies(), _more(dialect)))
        started(connection.execute, dialect, dialect.counted(tally), now)

    with connection.transaction():
        locked = ", ".join(f"{dialect.tables}{name}" for name in ("topic", "job", "finished", "attempt", "tally"))
        connection.execute(f"LOCK TABLE {locked} IN SHARE ROW EXCLUSIVE MODE".encode())
        connection.execute(_PLANS)
        return verified(lambda: _found(connection, dialect, now), mend)


def _found(connection: Timed, dialect: PostgresDialect, now: int | None) -> list[Finding]:
    found: list[Finding] = _driven(
        connection, dialect, now, tables.find(Names("topic"), dialect.tallies(), _more(dialect))
    )
    return found


def _driven(connection: Timed, dialect: PostgresDialect, now: int | None, steps: Steps[Any]) -> Any:
    try:
        batch = next(steps)
        while True:
            batch = steps.send(rows_of(started(connection.execute, dialect, batch, now)))
    except StopIteration as end:
        return end.value


def _more(dialect: PostgresDialect) -> list[tables.Check]:
    """Return a look for ids that would be given out once more."""
    last = f"(SELECT last_value FROM {dialect.tables}id)"
    raised = "SELECT setval('{0}id', greatest({1}, (SELECT max(id) FROM {2}))) WHERE EXISTS (SELECT FROM {2})"
    find = " UNION ALL ".join(f"SELECT id FROM {table} WHERE id > {last}" for table in ("job", "finished"))
    mends = tuple(raised.format(dialect.tables, last, table) for table in ("job", "finished"))
    return [tables.Check(IDS, find, mends)]
