"""Storing new jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ..._errors import JobExists
from ..ops import Put
from ..record import NewJob
from .batch import Batch, Names
from .claims import settle_lost
from .statements import SQL

__all__ = ["put", "put_alone"]

_PUT = SQL["put"]
_MANY = 100  # rows from which on `executemany` is quicker
_SOME = 32
_INTO, _, _ROW = _PUT.partition(" VALUES ")
_PUTS = [f"{_INTO} VALUES {', '.join([_ROW] * count)}" for count in range(_SOME + 1)]


def put(batch: Batch, ops: Sequence[Put]) -> list[Any]:
    """Store the jobs of many callers."""
    if len(ops) == 1 or any(_keyed(op.jobs) for op in ops):
        return [_put_one(batch, op.jobs) for op in ops]
    ids = _insert(batch, [job for op in ops for job in op.jobs])
    outcomes = []
    at = 0
    for op in ops:
        outcomes.append(ids[at : at + len(op.jobs)])
        at += len(op.jobs)
    return outcomes


def put_alone(connection: sqlite3.Connection, op: Put, now: int, topics: Names, horizon: int) -> list[int] | None:
    """Store a single job by a single statement, which is its own transaction; None if that does not suffice."""
    if len(op.jobs) != 1:
        return None
    name, body, due, key, ttr, limit, headers, _ = op.jobs[0]
    topic = topics.known(name)
    if topic is None or key is not None or due <= horizon:
        return None
    row = (topic, due, due - now, ttr, limit, None, headers and _headers(headers), body)
    last = connection.execute(_PUT, row).lastrowid
    assert last is not None
    return [last]


def _keyed(jobs: Sequence[NewJob]) -> bool:
    """Whether one of the jobs has a key."""
    for job in jobs:  # noqa: SIM110  (quicker than any(), and on the way of every job)
        if job.key is not None:
            return True
    return False


def _put_one(batch: Batch, jobs: Sequence[NewJob]) -> list[int] | JobExists:
    """Store the jobs of one caller, or none."""
    if not _keyed(jobs):
        return _insert(batch, jobs)
    holders = _holders(batch, jobs)
    if isinstance(holders, JobExists):
        return holders
    ids = []
    for job in jobs:
        named = None if job.key is None else (job.topic, job.key)
        if named in holders:
            ids.append(_replace(batch, holders[named], job))
        else:
            ids += _insert(batch, [job])
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


def _insert(batch: Batch, jobs: Sequence[NewJob]) -> list[int]:
    now = batch.now
    topics = {name: batch.topic(name) for name in {job.topic for job in jobs}}
    rows = [
        (topics[name], due, due - now, ttr, limit, key, headers and _headers(headers), body)
        for name, body, due, key, ttr, limit, headers, _ in jobs
    ]
    if not rows:
        return []
    execute = batch.connection.execute
    if len(rows) >= _MANY:
        batch.connection.executemany(_PUT, rows)
        [last] = batch.row("last_id")
    else:
        # One call for some rows: between calls other threads get in.
        for at in range(0, len(rows), _SOME):
            part = rows[at : at + _SOME]
            last = execute(_PUTS[len(part)], [value for row in part for value in row]).lastrowid
    ids = list(range(last - len(rows) + 1, last + 1))  # in turn, as no one else writes meanwhile
    batch.changed_many(ids, [job.due for job in jobs])
    return ids


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
