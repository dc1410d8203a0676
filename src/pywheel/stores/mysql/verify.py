"""Checking the tables against each other: one statement a fault, each O(jobs), all of one moment."""

from __future__ import annotations

import time
from typing import Final

from .. import verify as faults
from ..relational.session import Conflict
from ..verify import Fault, Finding, verified
from .connection import Timed
from .statements import Statements

__all__ = ["find", "mended"]

_TRIES: Final = 12
_FAULTS: Final[tuple[tuple[Fault, str, tuple[str, ...]], ...]] = (
    (faults.NO_JOB, "find_no_job", ("mend_no_job_due", "mend_no_job_run", "mend_no_job_finished")),
    (faults.TWICE, "find_twice", ("mend_twice_due", "mend_twice_run", "mend_twice_finished")),
    (faults.NOWHERE, "find_nowhere", ("mend_nowhere",)),
    (faults.HISTORY, "find_history", ("mend_history",)),
    (faults.CLAIMS, "find_claims", ("mend_claims_due", "mend_claims_run", "mend_claims_finished")),
    (faults.LEASES, "find_leases", ("mend_leases",)),
    (faults.KEYS, "find_keys", ("mend_keys",)),
    (faults.KEYLESS, "find_keyless", ("mend_keyless", "mend_passed_due", "mend_passed_run")),
    (faults.INDEXES, "find_names", ("mend_names_gone", "mend_names")),
    (faults.COUNTS, "find_counts", ("mend_counts_gone", "mend_counts")),
    (faults.IDS, "find_ids", ("mend_ids",)),
    (faults.TOPICS, "find_topics", ()),
)
"""In the order in which they are mended: what was found, and what mends it."""


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
