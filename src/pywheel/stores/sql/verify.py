"""Faults of the tables and their repairs. A statement for each fault finds the ids of all jobs that have it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ...jobs.job import PRIORITIES
from .. import verify as faults
from ..verify import Fault, Finding
from .rows import ATTEMPTED, STAYS, listed
from .statement import Do, Rows, Select, Statement, Steps
from .transaction import Names


class Check(NamedTuple):
    """A fault, a query for the ids that have it, and the statements that mend those in ``{in ids}``."""

    fault: Fault
    find: str
    mends: tuple[str, ...] = ()


_PAGE: Final = 1_000  # jobs with headers that are read at once
_STAYS: Final = listed(STAYS)
_HANDED_ON: Final = (
    "CASE WHEN EXISTS (SELECT 1 FROM job h WHERE h.topic = f.topic AND h.key = f.key AND h.passed = 0) "
    "OR EXISTS (SELECT 1 FROM finished g WHERE g.topic = f.topic AND g.key = f.key AND g.id > f.id AND g.id {in ids}) "
    "THEN 1 ELSE 0 END"
)
"""Whether a job that is live again does not get its key, as another job holds it."""
_LIVE_AGAIN: Final = (
    f"INSERT INTO job ({_STAYS}, unspent, next, passed) SELECT {_STAYS}, claims, {{now}}, {_HANDED_ON} "
    "FROM finished f WHERE id {in ids}"
)
_VOID: Final = (
    "UPDATE job SET unspent = CASE WHEN unspent < 0 THEN 0 WHEN unspent > claims THEN claims ELSE unspent END, "
    "claims = claims + 1, started = coalesce(started, {now}), due = coalesce(due, next) WHERE id {in ids}"
)
_LAST: Final = "(SELECT max(a.claim) FROM attempt a WHERE a.job = {table}.id)"
_MOST: Final = "(SELECT a.job, max(a.claim) AS claim FROM attempt a GROUP BY a.job)"
_LANE: Final = f"(1 << (j.priority + {PRIORITIES}))"
"""The bit of a job's priority, as `limits.lane` has it."""
# A sum of different bits that are all missing sets them: SQLite has no aggregate for OR.
_KNOW: Final = (
    f"UPDATE topic SET lanes = lanes + (SELECT sum(DISTINCT {_LANE}) FROM job j WHERE j.topic = topic.id "
    "AND j.id {in ids}) WHERE id IN (SELECT j.topic FROM job j WHERE j.id {in ids})"
)
CHECKS: Final = (
    Check(
        faults.NOWHERE,
        "SELECT id FROM job WHERE state NOT IN (0, 1) UNION ALL SELECT id FROM finished WHERE state NOT IN (0, 1, 2)",
        (
            "UPDATE job SET state = 0, next = {now}, due = NULL, lost = 0, unspent = claims WHERE id {in ids}",
            ATTEMPTED,
            _LIVE_AGAIN,
            "DELETE FROM finished WHERE id {in ids}",
        ),
    ),
    Check(
        faults.TWICE, "SELECT j.id FROM job j JOIN finished f ON f.id = j.id", ("DELETE FROM job WHERE id {in ids}",)
    ),
    Check(
        faults.HISTORY,
        "SELECT DISTINCT a.job AS id FROM attempt a WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = a.job) "
        "AND NOT EXISTS (SELECT 1 FROM finished f WHERE f.id = a.job)",
        ("DELETE FROM attempt WHERE job {in ids}",),
    ),
    Check(
        faults.CLAIMS,
        f"SELECT j.id FROM {_MOST} h JOIN job j ON j.id = h.job WHERE h.claim > j.claims - j.state "
        f"UNION ALL SELECT f.id FROM {_MOST} h JOIN finished f ON f.id = h.job WHERE h.claim >= f.claims",
        tuple(
            f"UPDATE {table} SET unspent = unspent + {last} {more} - claims, claims = {last} {more} WHERE id {{in ids}}"
            for table, more in (("job", "+ state"), ("finished", "+ 1"))
            for last in (_LAST.format(table=table),)
        ),
    ),
    Check(
        faults.LEASES,
        "SELECT id FROM job WHERE state = 1 AND (claims < 1 OR unspent < 0 OR unspent >= claims "
        "OR started IS NULL OR due IS NULL)",
        (_VOID,),
    ),
    Check(
        faults.TOPICS,
        "SELECT id FROM job WHERE NOT EXISTS (SELECT 1 FROM topic t WHERE t.id = job.topic) "
        "UNION ALL SELECT id FROM finished WHERE NOT EXISTS (SELECT 1 FROM topic t WHERE t.id = finished.topic)",
    ),
    Check(
        faults.LANES,
        f"SELECT j.id FROM job j JOIN topic t ON t.id = j.topic WHERE j.priority <> 0 "
        f"AND j.priority BETWEEN {-PRIORITIES} AND {PRIORITIES} AND t.lanes & {_LANE} = 0",
        (_KNOW,),
    ),
)
"""The checks, in the order in which their faults are mended."""
_COUNTED: Final = (
    "SELECT topic, 0, count(*) FROM job GROUP BY topic UNION ALL "
    "SELECT topic, state + 1, count(*) FROM finished WHERE state IN (0, 1, 2) GROUP BY topic, state"
)


def find(
    topics: Names, tallies: Sequence[Select], more: Sequence[Check] = (), headers: str = "headers"
) -> Steps[list[Finding]]:
    """Return the faults, all of one moment. `headers` is the expression by which the headers of a job are read."""
    found: list[Finding] = []
    for check in (*CHECKS, *more):
        ids = yield from _ids(check)
        found += check.fault.found(ids)
    ids = yield from _unreadable(headers)
    found += faults.HEADERS.found(ids)
    wrong = yield from _miscounted(tallies)
    if wrong:
        names = yield from topics.named(wrong)
        found += faults.COUNTS.found(sorted(names[number] for number in wrong if number in names))
    return found


def mend(tallies: Sequence[Select], more: Sequence[Check] = ()) -> Steps[dict[int, list[int]]]:
    """Mend the faults that can be mended; return the corrections of the counts by topic, for `Dialect.count`."""
    for check in (*CHECKS, *more):
        ids = yield from _ids(check)
        if ids and check.mends:
            yield tuple[Statement, ...](Do(text, {"ids": ids}) for text in check.mends)
    return (yield from _miscounted(tallies))


def _ids(check: Check) -> Steps[list[int]]:
    [rows] = yield (Rows("id", check.find),)
    return sorted({id for [id] in rows})


def _unreadable(headers: str) -> Steps[list[int]]:
    """Return the ids of the jobs whose headers are no JSON object. Not every database can tell."""
    ids: list[int] = []
    for table in ("job", "finished"):
        text = f"SELECT id, {headers} FROM {table} WHERE id > :after AND headers <> '' ORDER BY id LIMIT {_PAGE}"
        after: int | None = 0
        while after is not None:
            [rows] = yield (Select(text, {"after": after}),)
            ids += [id for id, value in rows if not _is_object(value)]
            after = rows[-1][0] if rows else None
    return sorted(ids)


def _is_object(value: str | bytes) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _miscounted(tallies: Sequence[Select]) -> Steps[dict[int, list[int]]]:
    """Return the corrections of the counts, by topic."""
    counted, *sums = yield (Select(_COUNTED), *tallies)
    off: dict[int, list[int]] = {}
    for topic, column, jobs in counted:
        off.setdefault(topic, [0, 0, 0, 0])[column] += jobs
    for rows in sums:
        for topic, *jobs in rows:
            row: list[Any] = off.setdefault(topic, [0, 0, 0, 0])
            off[topic] = [have - int(said) for have, said in zip(row, jobs, strict=True)]
    return {topic: row for topic, row in off.items() if any(row)}
