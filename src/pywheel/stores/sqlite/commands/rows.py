"""The rows of new jobs: many by one statement, and what is noted of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ....jobs.job import NewJob
from ....jobs.limits import lane
from ..statements import SQL
from ..transaction import Transaction

__all__ = ["PUT", "PUT_PLAIN", "SOME", "headers_text", "insert", "know_priorities", "rows_of"]

# Rows by one statement: fewer steps than `executemany` takes, and between two of them other threads get in.
SOME: Final = 25


def rows_of(statement: str, row: str) -> list[str]:
    """Return the statement that has a row of values n times, for each n."""
    return [statement.replace(row, ", ".join([row] * count)) for count in range(SOME + 1)]


PUT: Final = rows_of(SQL["put"], "(?, ?, ?, ?, ?, ?, ?, ?, ?)")
PUT_PLAIN: Final = rows_of(SQL["put_plain"], "(?, ?, ?, ?)")


def insert(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[int]:
    """Store jobs whose keys are free, and note what was put; return their ids."""
    if not jobs:
        return ()
    now, execute = transaction.now, transaction.connection.execute
    plain, dues = True, []
    for _, _, due, key, ttr, limit, headers, _, delay, _, _, priority in jobs:
        dues.append(due if delay is None else now + delay)
        if priority or key is not None or ttr is not None or limit is not None or headers is not None:
            plain = False
    topics = {name: transaction.topic(name) for name in {job[0] for job in jobs}}
    if not plain:
        know_priorities(transaction, jobs)
    statements, values = (PUT_PLAIN, _plain_values) if plain else (PUT, _all_values)
    for at in range(0, len(jobs), SOME):
        part = jobs[at : at + SOME]
        last = execute(statements[len(part)], values(part, dues[at : at + SOME], topics, now)).lastrowid
    assert last is not None
    ids = range(last - len(jobs) + 1, last + 1)  # in turn, as no one else writes meanwhile
    _tell(transaction, jobs, ids, dues, topics)
    return ids


def know_priorities(transaction: Transaction, jobs: Iterable[NewJob]) -> None:
    """Note which priorities there are in each topic: for those who read it, and for good."""
    for name, priority in {(job.topic, job.priority) for job in jobs if job.priority}:
        transaction.run("lanes_add", {"topic": transaction.topic(name), "lanes": lane(priority)})


def _tell(
    transaction: Transaction, jobs: Sequence[NewJob], ids: Sequence[int], dues: list[int], topics: Mapping[str, int]
) -> None:
    """Note what was put: for the counts, and for those who wait for it."""
    if len(topics) == 1:
        [topic] = topics.values()
        transaction.tally.put(ids[0], ids[-1], [(topic, len(jobs))])
        transaction.changed_many(ids, topic, dues)
        return
    by_topic: dict[str, list[int]] = {name: [] for name in topics}
    for place, job in enumerate(jobs):
        by_topic[job[0]].append(place)
    transaction.tally.put(ids[0], ids[-1], [(topics[name], len(places)) for name, places in by_topic.items()])
    for name, places in by_topic.items():
        transaction.changed_many([ids[place] for place in places], topics[name], [dues[place] for place in places])


def _plain_values(jobs: Sequence[NewJob], dues: Sequence[int], topics: Mapping[str, int], now: int) -> list[Any]:
    values: list[Any] = []
    for job, due in zip(jobs, dues, strict=True):
        values += (topics[job[0]], due, due - now, job[1])
    return values


def _all_values(jobs: Sequence[NewJob], dues: Sequence[int], topics: Mapping[str, int], now: int) -> list[Any]:
    values: list[Any] = []
    for (name, body, _, key, ttr, limit, headers, _, _, _, _, priority), due in zip(jobs, dues, strict=True):
        values += (topics[name], due, due - now, ttr, limit, key, headers_text(headers), body, priority or None)
    return values


def headers_text(headers: Mapping[str, str] | None) -> str | None:
    """Return headers as they are stored."""
    return json.dumps(dict(headers), separators=(",", ":")) if headers else None
