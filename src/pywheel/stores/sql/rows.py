"""Rows: the columns that tables have in common, the order in which they are read, and the records made of them.

The columns of a job's FIELDS have the fields' names. All lists of columns take them from here.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...jobs import lifecycle
from ...jobs.job import FIELDS, KEPT, Job, State
from ...jobs.lifecycle import Run
from .schema import ENDED, FINISHED

DUE: Final = "coalesce(j.due, j.next)"
"""When a live job is or was due."""
_JSON: Final = tuple(place for place, field in enumerate(FIELDS) if field.kind == "json")
REPLACED: Final = tuple(name for name in KEPT if name != "key")
"""The fields that a job takes from a put that replaces it."""
STAYS: Final = ("id", "topic", "created", "claims", *KEPT, "body")
"""The columns that a finished job keeps when it is live again."""
MOVED: Final = ("id", "topic", "due", "created", "claims", "unspent", "lost", *KEPT, "started", "worker", "body")
"""The columns that a live job keeps when it ends."""
ATTEMPT: Final = ("claim", "attempt", "started", "ended", "outcome", "worker", "error")
"""The columns of an attempt, in a table of its own or in the row of a finished job."""
ENDING: Final = ("state", "ended", "attempt", "outcome", "error", "result")
"""The other columns of a finished job: how it ended."""
HEAD: Final = ("id", "topic", "state", "due", "created", "claims", "unspent", "lost", *KEPT, "error", "next", "begun",
               "backoff")  # fmt: skip
"""The columns that `job_of` needs, before the time and, optionally, the body."""
FOUND: Final = ("due", "id", "created", *KEPT, "claims", "unspent", "lost", "error", "size", "body")
"""The columns read of a job that may be claimed."""
if TYPE_CHECKING:
    Found: TypeAlias = Any
else:
    Found = namedtuple("Found", FOUND)  # noqa: PYI024
    """A row of those."""
TAKEN: Final = ("id", "body", "due", "created", *KEPT, "claims", "attempt", "next", "error", "lost")
"""The columns read of a job that one statement has claimed, in the order of `Job`."""
_END, _LAST = TAKEN.index(KEPT[-1]) + 1, len(TAKEN)
_FIELDS_OF_HEAD: Final = slice(HEAD.index(KEPT[0]), HEAD.index(KEPT[-1]) + 1)
_RUN: Final = HEAD.index("error")


def listed(columns: Sequence[str], table: str = "", **instead: str) -> str:
    """Return columns of a table as SQL lists them; `instead` has expressions for some."""
    dot = f"{table}." if table else ""
    return ", ".join(f"{instead[one]} AS {one}" if one in instead else f"{dot}{one}" for one in columns)


ATTEMPTED: Final = (
    f"INSERT INTO attempt (job, {listed(ATTEMPT)}) SELECT id, {listed(ATTEMPT, claim='claims')} "
    "FROM finished WHERE id {in ids}"
)
"""The statement that copies the last attempts of finished jobs into the table of attempts."""


def columns_of(fields: Any) -> list[Any]:
    """Return the values of FIELDS as they are stored."""
    values = list(fields)
    for place in _JSON:
        value = values[place]
        values[place] = json.dumps(dict(value), separators=(",", ":")) if value else None
    return values


def found_of(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return rows with the columns of FOUND as `Found` records."""
    new = tuple.__new__  # with the fewest steps
    return [new(Found, row) for row in rows]


def taken_of(topic: str, columns: Sequence[Sequence[Any]]) -> list[Job]:
    """Return the records of claimed jobs of a topic, from the columns of TAKEN."""
    id, body, due, created, *fields = columns[:_END]
    for place in _JSON:
        fields[place] = [json.loads(value) if value else {} for value in fields[place]]
    values = zip(id, repeat(topic), body, due, created, repeat(State.RUNNING), *fields, *columns[_END:_LAST])
    new = tuple.__new__  # with the fewest steps
    return [new(Job, one) for one in values]


def run_of(claims: int, attempt: int, begun: int, lease: int, backoff: int | None) -> Run:
    """Return a job's current claim, from its row."""
    left = backoff is not None
    return Run(claims, attempt, bool(begun), lease, attempt + left, backoff or 0)


def job_of(row: Sequence[Any], names: Mapping[int, str], body: bytes = b"") -> Job:
    """Return the record of a row with the columns of HEAD and the time. A lease that is over counts as ended."""
    id, topic, code, due, created, claims, unspent, lost = row[: _FIELDS_OF_HEAD.start]
    error, next_, begun, backoff, now = row[_RUN : _RUN + 5]
    state, lease = State.DELAYED, None
    attempt = lifecycle.attempts(claims, unspent)
    if code >= ENDED:
        state = FINISHED[code - ENDED]
    elif code == 1 and now < next_:
        state, lease = State.RUNNING, next_
    elif code == 1:
        ending = lifecycle.lost(run_of(claims, attempt, begun, next_, backoff))
        state, lost = ending.state, ending.lost
        attempt -= not ending.spent
        due = due if ending.due is None else ending.due
    fields: list[Any] = list(row[_FIELDS_OF_HEAD])
    for place in _JSON:
        fields[place] = json.loads(fields[place]) if fields[place] else {}
    values = (id, names[topic], body, due, created, state, *fields, claims, attempt, lease, error, lost)
    return Job._make(values)
