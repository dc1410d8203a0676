"""What a copy of a store comes to, and how it knows its copies and how far it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final, NamedTuple

from ..jobs.job import Job

__all__ = [
    "HEADER",
    "NEVER",
    "NOTES",
    "TOPIC",
    "Copied",
    "Copies",
    "CopyProgress",
    "Note",
    "Switched",
    "digest",
    "version",
]

TOPIC: Final = "pywheel.copy"
"""Of the jobs that note how far a copy has come. They are never due."""
HEADER: Final = "pywheel-copied"
"""Of a copy: which store it is from, and its id there."""
NEVER: Final = 253_370_764_800_000  # the year 9999

NOTES: Final = ("token:", "outlet:", "schedule:", "schedules:")
"""What the names of notes begin with that are carried. Others end by themselves, with what they are about."""


class CopyProgress(NamedTuple):
    """What a copy came to."""

    new: int  # live jobs
    changed: int  # that were carried before, and are different now
    waiting: int  # that cannot be carried yet: they run, or their key is about to change hands
    total: int  # copies of live jobs there are now
    finished: int  # finished jobs, with their history


class Switched(NamedTuple):
    """What going over came to."""

    jobs: int  # live ones, that were carried in all
    seconds: float  # for how long no job could start in either store
    late: int  # jobs that were put to the source since, and handed over
    refused: int  # of these, those whose key a live job of the target has: they stay where they are
    finished: int  # finished jobs that were carried by this call


@dataclass(slots=True)
class Note:
    """How far a copy has come."""

    source: str
    state: str = "carrying"
    token: str = field(default_factory=lambda: token_hex(8))  # of this copy
    paused: list[str] | None = None  # topics that were paused in the source before it paused them all
    whole: bool = False  # whether all that had finished when the source stopped was carried too


class Copied(NamedTuple):
    """A copy, as far as it is compared with its job."""

    id: int
    due: int
    version: int


class Copies:
    """What is in the target, by the ids of the jobs in the source."""

    def __init__(self) -> None:
        self.live: dict[int, Copied] = {}  # those that wait
        self.finished: dict[int, Copied] = {}


def version(job: Job) -> int:
    """Return what tells versions of a job apart, but for when it is due. It is another one in each process."""
    if not job.state.live:  # then nothing else of it changes
        return hash((job.state, job.claims))
    return hash((job.topic, repr(_kept(job)), job.claims, job.attempt, job.lost, job.body))


def digest(job: Job) -> str:
    """Return the same for all processes."""
    past = (job.state, job.claims, job.attempt, job.lost)
    parts = json.dumps([job.topic, past, _kept(job)]).encode()
    return blake2b(parts + b"\0" + job.body, digest_size=12).hexdigest()


def _kept(job: Job) -> list[Any]:
    """Return the fields of a job, but for what a copy says of itself in the headers."""
    headers = sorted((name, value) for name, value in job.headers.items() if name != HEADER)
    return [headers if value is job.headers else value for value in job.kept]
