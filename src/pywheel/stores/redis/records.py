"""Jobs as they lie in the store, and their reading. ``lua/jobs.lua`` describes the part that the functions know."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from ...jobs.job import DEFAULTS, KEPT, Attempt, Imported, Job, NewJob, Outcome, State
from ..checks import clamped, storable
from .connection import as_json, given

LAST: Final = 2**48 - 1
"""The largest id that the store can give out."""
STATES: Final = (State.DELAYED, State.RUNNING, State.DONE, State.DEAD, State.CANCELLED)
"""The states, as the functions number them."""
_OUTCOMES: Final = (None, Outcome.DONE, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED, Outcome.CANCELLED)
_PLAIN: Final = tuple(Job._field_defaults[name] for name in KEPT)
_DECODER: Final = json.JSONDecoder()
_BIAS: Final = 2**46
_RECEIPT: Final = struct.Struct(">HII")
_VOID: Final = bytes(_RECEIPT.size)
_CLAIMS: Final = 2**32


def parts(values: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Yield values, up to `most` at a time."""
    each = iter(values)
    while some := list(islice(each, most)):
        yield some


def to_ids(ids: Iterable[int]) -> bytes:
    """Return ids as the store has them; 0 for ids that no job can have."""
    return b"".join([(id if 0 < id <= LAST else 0).to_bytes(6, "big") for id in ids])


def from_id(packed: bytes) -> int:
    """Return the number of an id as the store has it."""
    return int.from_bytes(packed, "big")


def place_after(priority: int | None, due: int, id: int) -> dict[str, Any]:
    """Return the position behind a job, as it is sent; without a priority it holds in each of them."""
    place = {"due": str(clamped(due)), "id": min(max(id, 0), LAST)}
    return place if priority is None else {"priority": priority, **place}


def receipt(id: int, claims: int) -> bytes:
    """Return the receipt of a claim, or a void one if there can be no such claim."""
    if 0 < id <= LAST and 0 <= claims < _CLAIMS:
        return _RECEIPT.pack(id >> 32, id & 0xFFFFFFFF, claims)
    return _VOID


# ---- jobs -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _plain_start(topic: str) -> bytes:
    return _sized(topic.encode()) + _sized(b"")


def _sized(text: bytes) -> bytes:
    return len(text).to_bytes(3, "big") + text


def start_of(topic: str, kept: tuple[Any, ...]) -> bytes:
    """Return the part of a job between its time of creation and its body, by topic and values of FIELDS."""
    if kept == DEFAULTS:
        return _plain_start(topic)
    options = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value, default in zip(KEPT, kept, DEFAULTS, strict=True)
        if value != default
    }
    return _sized(topic.encode()) + _sized(as_json(options))


def packed_job(job: NewJob) -> bytes:
    """Return a job as it lies in the store, without its time of creation."""
    return start_of(job.topic, job.kept) + job.body


def packed_past(one: Imported) -> dict[str, Any] | None:
    """Return the past of a job; None for one that was only put. In a row false stands for None."""
    job = one.job
    if not job.claims and job.state is State.DELAYED:
        return None
    rows = []
    for row in one.history:
        told = row.claim, row.attempt, row.started, row.ended, _OUTCOMES.index(row.outcome), row.worker
        rows.append([False if value is None else value for value in (*told, storable(row.error))])
    state, forgiven, error = STATES.index(job.state), job.claims - job.attempt, storable(one.last_error)
    return given(state=state, claims=job.claims, forgiven=forgiven, lost=job.lost, error=error, rows=rows)


def _read(job: bytes) -> tuple[str, bytes, int, tuple[Any, ...]]:
    """Return a job's topic, body, time of creation, and values of FIELDS. Each claimed job passes here."""
    created = int.from_bytes(job[:6], "big") - _BIAS
    at = 9 + int.from_bytes(job[6:9], "big")
    topic, body = job[9:at].decode(), at + 3
    size = int.from_bytes(job[at:body], "big")
    if not size:
        return topic, job[body:], created, _PLAIN
    options = _DECODER.decode(job[body : body + size].decode())
    return topic, job[body + size :], created, tuple(map(options.get, KEPT, _PLAIN))


def jobs_of(values: Sequence[Any]) -> list[Job]:
    """Return jobs, from nine values of each: see `deliver` in ``lua/settle.lua``. Each claim passes here."""
    jobs = []
    new = tuple.__new__  # faster than the named tuple's own
    each = [iter(values)] * 9
    for id, due, state, claims, attempt, lease, lost, error, job in zip(*each, strict=True):
        topic, body, created, kept = _read(job)
        who = (int.from_bytes(id, "big"), topic, body, due, created, STATES[state])
        last = None if error is None else error.decode()
        jobs.append(new(Job, (*who, *kept, claims, attempt, lease, last, lost)))
    return jobs


def score(value: Any) -> int:
    """Return a due time from the store's answer: a number, or its text."""
    try:
        return int(value)
    except ValueError:
        return int(float(value))  # beyond 2**53 it is rounded, and written with an exponent


def attempts(rows: Sequence[Sequence[Any]]) -> list[Attempt]:
    """Return the attempts in the rows of a history."""
    found = []
    for claim, attempt, started, ended, outcome, *texts in rows:
        worker, why, result = (*texts, None, None)[:3]
        found.append(Attempt(claim, attempt, started, ended, _OUTCOMES[outcome], text(worker), text(why), result))
    return found


def pairs(values: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """Return values two by two."""
    each = iter(values)
    return zip(each, each, strict=True)


def text(value: bytes | None) -> str | None:
    """Return a text, None where there is none."""
    return None if value is None else value.decode()
