"""Puts of new jobs: the whole transaction in one packet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...jobs.job import NewJob
from ..relational.changes import headers_text
from .session import Trip
from .statements import NOW, Raw, hashed

__all__ = ["Row", "first_of_each_key", "names_of", "put_trip"]

Row = tuple[int, NewJob]
"""A job with its id."""
_MOMENT: Final = Raw("@now")  # the same for all rows of a put


def first_of_each_key(rows: Iterable[Row]) -> list[Row]:
    """Return the jobs without those that have the key of an earlier one."""
    first: dict[Any, Row] = {}
    for id, job in rows:
        first.setdefault(id if job.key is None else (job.topic, job.key), (id, job))
    return list(first.values())


def names_of(rows: Iterable[Row], numbers: Mapping[str, int]) -> set[tuple[int, bytes]]:
    """Return the topics, by number, and keys, by hash, of the jobs that have one."""
    return {(numbers[job.topic], hashed(job.key)) for _, job in rows if job.key is not None}


def put_trip(trip: Trip, rows: Sequence[Row], numbers: Mapping[str, int], now: int | None) -> Trip:
    """Return the trip that stores jobs of known topics. Its AlreadyThere says that a key is taken.

    It begins no transaction: the connection that writes is in one always.
    """
    moment = NOW if now is None else Raw(str(now))
    if now is None and len(rows) > 1:
        trip.say("", f"SET @now = {NOW}")
        moment = _MOMENT
    keys = {id: hashed(job.key) for id, job in rows if job.key is not None}
    trip.many("insert_key", sorted((numbers[job.topic], keys[id], id) for id, job in rows if id in keys))
    trip.many("insert_name", sorted((keys[id], numbers[job.topic], id) for id, job in rows if id in keys))
    trip.many("insert_job", [_job_row(id, job, numbers[job.topic], moment, keys.get(id)) for id, job in rows])
    trip.many(
        "put_due",
        [
            (numbers[job.topic], id, job.due if job.delay is None else Raw(f"{moment}+{job.delay:d}"))
            for id, job in rows
        ],
    )
    trip.many("put_count", sorted(Counter(numbers[job.topic] for _, job in rows).items()))
    trip.say("", "COMMIT")
    return trip


def _job_row(id: int, job: NewJob, topic: int, moment: Raw, key: bytes | None) -> tuple[Any, ...]:
    return id, topic, moment, key, job.key, job.ttr, job.max_attempts, headers_text(job), job.body
