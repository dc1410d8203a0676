"""Checking the tables against each other: one statement a fault, each O(jobs), all of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..relational.verify import FAULTS
from ..verify import Finding, verified
from .connection import Timed

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


def find(connection: Timed, sql: Mapping[str, str]) -> list[Finding]:
    """Return what is wrong with the tables."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(_PLANS)
        return _find(connection, sql)


def mended(connection: Timed, sql: Mapping[str, str], now: int | None) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended. Nobody else writes meanwhile."""

    def mend() -> None:
        for _, _, names in FAULTS:
            for name in names:
                connection.execute(sql[name], {"now": now})

    with connection.transaction():
        connection.execute(sql["lock_all"])
        connection.execute(_PLANS)
        return verified(lambda: _find(connection, sql), mend)


def _find(connection: Timed, sql: Mapping[str, str]) -> list[Finding]:
    found: list[Finding] = []
    for fault, name, _ in FAULTS:
        rows: list[Any] = connection.execute(
            f"WITH f AS MATERIALIZED ({sql[name]})"
            " SELECT (SELECT count(*) FROM f), ARRAY(SELECT id FROM f ORDER BY id LIMIT 5)",
            prepare=False,
        ).fetchall()
        [(count, some)] = rows
        found += fault.found(some, count)
    return found
