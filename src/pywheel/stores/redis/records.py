"""How jobs lie in the store, and how they are read: what the functions know as well stands in ``lua/states.lua``.

A job: created (6 bytes), flags, size of the topic (3) and topic, then as the flags say ttr (8), max_attempts (8),
priority (1, more by 128), size of the key (3) and key, size of the headers (4) and these as JSON; the rest is the body.
An id is 6 bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ...jobs import lifecycle
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Imported, Job, NewJob, Outcome, State
from ...jobs.lifecycle import Run
from ..checks import storable

__all__ = [
    "LAST",
    "STATES",
    "attempts",
    "claimed",
    "from_id",
    "job_of",
    "known",
    "number",
    "packed_created",
    "packed_job",
    "packed_past",
    "plain_start",
    "receipt",
    "reference",
    "score",
    "to_id",
]

LAST: Final = 2**48 - 1
"""The largest id that the store can give out."""
STATES: Final = (State.DELAYED, State.RUNNING, State.DONE, State.DEAD, State.CANCELLED)
"""The states, as the functions number them."""
_OUTCOMES: Final = (None, Outcome.DONE, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED, Outcome.CANCELLED)
_BIAS: Final = 2**46
_KEY, _TTR, _MOST, _HEADERS, _PRIORITY = 1, 2, 4, 8, 16
_LONGEST: Final = 2**24 - 1  # bytes of a topic or key
_RECEIPT: Final = struct.Struct(">HII")
_CLAIMS: Final = 2**32


def to_id(id: int) -> bytes:
    """Return an id as the store has it."""
    return id.to_bytes(6, "big")


def from_id(packed: bytes) -> int:
    """Return the number."""
    return int.from_bytes(packed, "big")


def known(id: int) -> bool:
    """Whether a job may have this id."""
    return 0 < id <= LAST


def number(value: int) -> bytes:
    """Return a number as an argument."""
    return b"%d" % value


def receipt(id: int, claims: int) -> bytes | None:
    """Return the receipt of a claim; None if there can be none like it."""
    if 0 < id <= LAST and 0 <= claims < _CLAIMS:
        return _RECEIPT.pack(id >> 32, id & 0xFFFFFFFF, claims)
    return None


def reference(ref: Ref) -> bytes | None:
    """Return what stands for a job; None if there can be none."""
    if isinstance(ref, int):
        return b"i" + ref.to_bytes(6, "big") if known(ref) else None
    topic, key = (part.encode() for part in ref)
    return b"k%b%b%b" % (len(topic).to_bytes(3, "big"), topic, key)


# ---- jobs -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def plain_start(topic: str) -> bytes:
    """Return what a plain job of a topic begins with."""
    name = topic.encode()
    return b"\0%b%b" % (len(name).to_bytes(3, "big"), name)


def packed_job(job: NewJob) -> bytes:
    """Return a job as it lies in the store, but for when it was created."""
    topic, body = job.topic, job.body
    key, ttr, most, headers, priority = job.kept
    start = plain_start(topic)
    if key is None and ttr is None and most is None and not headers and not priority:
        return start + body
    flags, parts = 0, [start[1:]]
    if ttr is not None:
        flags |= _TTR
        parts.append(struct.pack(">q", ttr))
    if most is not None:
        flags |= _MOST
        parts.append(struct.pack(">q", most))
    if priority:
        flags |= _PRIORITY
        parts.append(bytes((priority + 128,)))
    if key is not None:
        flags |= _KEY
        name = key.encode()
        parts += (len(name).to_bytes(3, "big"), name)
    if headers:
        flags |= _HEADERS
        text = json.dumps(dict(headers), separators=(",", ":")).encode()
        parts += (len(text).to_bytes(4, "big"), text)
    return b"".join((bytes((flags,)), *parts, body))


def packed_created(created: int) -> bytes:
    """Return what comes before a job in the store."""
    return (created + _BIAS).to_bytes(6, "big")


def packed_past(one: Imported) -> bytes:
    """Return what was tried with a job, as JSON; nothing for one that was only put."""
    job = one.job
    if not job.claims and job.state is State.DELAYED:
        return b""
    rows = [
        (claim, attempt, started, ended, _OUTCOMES.index(outcome), worker, storable(error))
        for claim, attempt, started, ended, outcome, worker, error, _ in one.history
    ]
    state = STATES.index(job.state)
    past = (state, job.claims, job.claims - job.attempt, job.lost, storable(one.last_error), rows)
    return json.dumps(past).encode()


_Read = tuple[str, bytes, int, str | None, int | None, int | None, dict[str, str], int]


def _read(job: bytes) -> _Read:
    """Return its topic, body, created, key, ttr, max_attempts, headers and priority. On the way of each job claimed."""
    created = int.from_bytes(job[:6], "big") - _BIAS
    flags, at = job[6], 10 + int.from_bytes(job[7:10], "big")
    topic = job[10:at].decode()
    if not flags:
        return topic, job[at:], created, None, None, None, {}, 0
    key = ttr = most = None
    priority = 0
    headers: dict[str, str] = {}
    if flags & _TTR:
        [ttr] = struct.unpack_from(">q", job, at)
        at += 8
    if flags & _MOST:
        [most] = struct.unpack_from(">q", job, at)
        at += 8
    if flags & _PRIORITY:
        priority = job[at] - 128
        at += 1
    if flags & _KEY:
        end = at + 3 + int.from_bytes(job[at : at + 3], "big")
        key = job[at + 3 : end].decode()
        at = end
    if flags & _HEADERS:
        end = at + 4 + int.from_bytes(job[at : at + 4], "big")
        headers = json.loads(job[at + 4 : end])
        at = end
    return topic, job[at:], created, key, ttr, most, headers, priority


def claimed(values: Sequence[Any]) -> list[Job]:
    """Return the jobs of a claim: of each its id, due time, claims, attempt, lease, what was lost, error, job."""
    jobs = []
    new = tuple.__new__  # without the function that a named tuple's own is
    each = [iter(values)] * 8
    for id, due, claims, attempt, lease, lost, error, job in zip(*each, strict=True):
        topic, body, created, key, ttr, most, headers, priority = _read(job)
        jobs.append(
            new(
                Job,
                (
                    int.from_bytes(id, "big"),
                    topic,
                    body,
                    due,
                    created,
                    State.RUNNING,
                    key,
                    ttr,
                    most,
                    headers,
                    priority,
                    claims,
                    attempt,
                    lease,
                    None if error is None else error.decode(),
                    lost,
                ),
            )
        )
    return jobs


def job_of(values: Sequence[Any], now: int) -> Job:
    """Return a job as readers see it, with a lease that is over taken as expired: of its id, itself, due, state."""
    id, job, due, state = values
    topic, body, created, key, ttr, most, headers, priority = _read(job)
    number, when = from_id(id), score(due)
    if state is None:
        plain = (key, ttr, most, headers)
        return Job(number, topic, body, when, created, State.DELAYED, *plain, priority=priority)
    kind, claims, forgiven, lost, error, attempt, begun, lease, limit, backoff = state
    seen, tried, until = STATES[kind], lifecycle.attempts(claims, forgiven), None
    if seen is State.RUNNING:
        run = Run(claims, attempt, bool(begun), lease, limit, backoff)
        if now < lease:
            until = lease
        else:
            ending = lifecycle.lost(run)
            seen, lost = ending.state, ending.lost
            when = when if ending.due is None else ending.due
            tried -= not ending.spent
    last = None if error is None else error.decode()
    fields = (key, ttr, most, headers, priority)
    return Job(number, topic, body, when, created, seen, *fields, claims, tried, until, last, lost)


def score(value: Any) -> int:
    """Return a due time as the store answers it: a number, or its text."""
    if isinstance(value, int):
        return value
    try:
        return int(value)
    except ValueError:
        return int(float(value))  # beyond 2**53 it is rounded, and written with an exponent


def attempts(rows: Sequence[Sequence[Any]]) -> list[Attempt]:
    """Return the rows of a history."""
    found = []
    for claim, attempt, started, ended, outcome, worker, error, *result in rows:
        who = None if worker is None else worker.decode()
        why = None if error is None else error.decode()
        found.append(
            Attempt(claim, attempt, started, ended, _OUTCOMES[outcome], who, why, result[0] if result else None)
        )
    return found
