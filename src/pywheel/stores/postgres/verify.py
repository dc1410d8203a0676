"""Checking the tables against each other: one statement a fault, each O(jobs), all of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .. import verify as faults
from ..verify import Fault, Finding, verified
from .connection import Timed

__all__ = ["find", "mended"]

_FAULTS: Final[tuple[tuple[Fault, str, tuple[str, ...]], ...]] = (
    (faults.NO_JOB, "find_no_job", ("mend_no_job_due", "mend_no_job_run", "mend_no_job_finished")),
    (faults.TWICE, "find_twice", ("mend_twice_due", "mend_twice_run", "mend_twice_finished")),
    (faults.NOWHERE, "find_nowhere", ("mend_nowhere",)),
    (faults.HISTORY, "find_history", ("mend_history",)),
    (faults.CLAIMS, "find_claims", ("mend_claims_due", "mend_claims_run", "mend_claims_finished")),
    (faults.LEASES, "find_leases", ("mend_leases",)),
    (faults.KEYS, "find_keys", ("mend_keys",)),
    (faults.KEYLESS, "find_keyless", ("mend_keyless", "mend_passed_due", "mend_passed_run")),
    (faults.COUNTS, "find_counts", ("mend_counts_gone", "mend_counts")),
    (faults.IDS, "find_ids", ("mend_ids",)),
    (faults.TOPICS, "find_topics", ()),
)
"""In the order in which they are mended: what was found, and what mends it."""

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
        for _, _, names in _FAULTS:
            for name in names:
                connection.execute(sql[name], {"now": now})

    with connection.transaction():
        connection.execute(sql["lock_all"])
        connection.execute(_PLANS)
        return verified(lambda: _find(connection, sql), mend)


def _find(connection: Timed, sql: Mapping[str, str]) -> list[Finding]:
    found: list[Finding] = []
    for fault, name, _ in _FAULTS:
        rows: list[Any] = connection.execute(
            f"WITH f AS MATERIALIZED ({sql[name]})"
            " SELECT (SELECT count(*) FROM f), ARRAY(SELECT id FROM f ORDER BY id LIMIT 5)",
            prepare=False,
        ).fetchall()
        [(count, some)] = rows
        found += fault.found(some, count)
    return found
