"""Storing new jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...._errors import JobExists
from ....jobs.commands import Op, Put
from ....jobs.job import NewJob
from ..statements import SQL
from ..transaction import Batch, Names
from .claims import settle_lost

__all__ = ["put", "put_alone"]

# Rows by one statement: fewer steps than `executemany` takes, and between two of them other threads get in.
_SOME: Final = 25


def _rows(statement: str) -> list[str]:
    """Return the statement that inserts n rows, for each n."""
    into, _, row = statement.partition(" VALUES ")
    return [f"{into} VALUES {', '.join([row] * count)}" for count in range(_SOME + 1)]


_PUT: Final = _rows(SQL["put"])
_PUT_PLAIN: Final = _rows(SQL["put_plain"])


def put(batch: Batch, ops: Sequence[Put]) -> list[Any]:
    """Store the jobs of many callers."""
    jobs = ops[0].jobs if len(ops) == 1 else [job for op in ops for job in op.jobs]
    plain = _plain(jobs)
    if not plain and _keyed(jobs):
        return [_put_keyed(batch, op.jobs) for op in ops]
    ids = _insert(batch, jobs, plain=plain)
    if len(ops) == 1:
        return [ids]
    outcomes = []
    at = 0
    for op in ops:
        outcomes.append(ids[at : at + len(op.jobs)])
        at += len(op.jobs)
    return outcomes


def put_alone(connection: sqlite3.Connection, op: Op, now: int, topics: Names, horizon: int) -> tuple[int, int] | None:
    """Store a single job by one statement, its own transaction; return id and due time. None if it takes more."""
    if type(op) is not Put or len(op.jobs) != 1:
        return None
    job = op.jobs[0]
    topic = topics.known(job.topic)
    if topic is None or job.due <= horizon or not _plain(op.jobs):
        return None
    last = connection.execute(_PUT_PLAIN[1], (topic, job.due, job.due - now, job.body)).lastrowid
    assert last is not None
    return last, job.due


def _plain(jobs: Sequence[NewJob]) -> bool:
    """Whether they have only what every job has."""
    for _, _, _, key, ttr, limit, headers, _ in jobs:
        if key is not None or ttr is not None or limit is not None or headers is not None:
            return False
    return True


def _keyed(jobs: Sequence[NewJob]) -> bool:
    """Whether one of the jobs has a key."""
    return any(job.key is not None for job in jobs)


def _put_keyed(batch: Batch, jobs: Sequence[NewJob]) -> list[int] | JobExists:
    """Store the jobs of one caller, or none."""
    holders = _holders(batch, jobs)
    if isinstance(holders, JobExists):
        return holders
    ids = []
    for job in jobs:
        named = None if job.key is None else (job.topic, job.key)
        if named in holders:
            ids.append(_replace(batch, holders[named], job))
        else:
            ids += _insert(batch, [job], plain=False)
            if named is not None:
                holders[named] = ids[-1]
    return ids


def _holders(batch: Batch, jobs: Sequence[NewJob]) -> dict[tuple[str, str] | None, int] | JobExists:
    """Return the live jobs that will take new values, by topic and key; or why not."""
    holders: dict[tuple[str, str] | None, int] = {}
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        if job.key is None:
            continue
        name = (job.topic, job.key)
        if name in seen and not job.replace:
            return JobExists(f"two of the jobs put have the key {job.key[:80]!r}", 0)
        seen.add(name)
        holder = _holder(batch, job)
        if holder is None:
            continue
        if not job.replace or batch.row("run_of", (holder,)):
            return JobExists(f"job {holder} has the key {job.key[:80]!r} already and is live", holder)
        holders[name] = holder
    return holders


def _holder(batch: Batch, job: NewJob) -> int | None:
    """Return the live job that has the key."""
    name = (batch.topic(job.topic), job.key)
    row = batch.row("key_holder", name)
    if row and settle_lost(batch, row[0]):
        row = batch.row("key_holder", name)
    return row[0] if row else None


def _insert(batch: Batch, jobs: Sequence[NewJob], *, plain: bool) -> list[int]:
    if not jobs:
        return []
    now, execute = batch.now, batch.connection.execute
    topics = {name: batch.topic(name) for name in {job.topic for job in jobs}}
    statements, values = (_PUT_PLAIN, _plain_values) if plain else (_PUT, _all_values)
    for at in range(0, len(jobs), _SOME):
        part = jobs[at : at + _SOME]
        last = execute(statements[len(part)], values(part, topics, now)).lastrowid
    assert last is not None
    ids = list(range(last - len(jobs) + 1, last + 1))  # in turn, as no one else writes meanwhile
    batch.changed_many(ids, [job.due for job in jobs])
    return ids


def _plain_values(jobs: Sequence[NewJob], topics: Mapping[str, int], now: int) -> list[Any]:
    values: list[Any] = []
    for name, body, due, _, _, _, _, _ in jobs:
        values += (topics[name], due, due - now, body)
    return values


def _all_values(jobs: Sequence[NewJob], topics: Mapping[str, int], now: int) -> list[Any]:
    values: list[Any] = []
    for name, body, due, key, ttr, limit, headers, _ in jobs:
        values += (topics[name], due, due - now, ttr, limit, key, headers and _headers(headers), body)
    return values


def _replace(batch: Batch, id: int, job: NewJob) -> int:
    [before] = batch.row("due_of", (id,))
    batch.run(
        "replace",
        {
            "id": id,
            "due": job.due,
            "ttr": job.ttr,
            "max_attempts": job.max_attempts,
            "headers": _headers(job.headers) if job.headers else None,
            "body": job.body,
        },
    )
    batch.changed(id, min(before, job.due))
    return id


def _headers(headers: Mapping[str, str]) -> str:
    return json.dumps(dict(headers), separators=(",", ":"))
