"""The records of a store: what a job is, what one attempt at it was, and the states it goes through.

All times are wall clock, in whole milliseconds since 1970; all durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from .._errors import BadJob
from .bodies import decoded
from .checks import integer, shown, text, text_by_name, whole

__all__ = [
    "FIELDS",
    "OF_JOB",
    "OF_NEW_JOB",
    "PRIORITIES",
    "SHARDS",
    "SLICE",
    "Attempt",
    "Counts",
    "Due",
    "Field",
    "Imported",
    "Job",
    "NewJob",
    "Outcome",
    "State",
    "Topic",
    "slice_of",
    "state_of",
]

SHARDS = 32
"""How many slices of time go round; each has an owner among the workers of a topic. A set of them is a mask."""


SLICE = 50
"""ms of one slice of time."""


def slice_of(due: int) -> int:
    """Return the shard whose owner goes first for what is due then: time is cut into slices, which go round."""
    return due // SLICE % SHARDS


class State(StrEnum):
    """Where a job is. `DELAYED` and `RUNNING` are live, the others finished."""

    DELAYED = "delayed"  # waits for its due time, or is due and waits for a worker
    RUNNING = "running"  # claimed, and the lease is not over
    DONE = "done"
    DEAD = "dead"  # no attempt is left
    CANCELLED = "cancelled"

    @property
    def live(self) -> bool:
        """Whether the job may still be delivered."""
        return self in (State.DELAYED, State.RUNNING)


def state_of(state: State | str) -> State:
    """Return a state. BadJob if there is none of that name."""
    try:
        return State(state)
    except ValueError:
        raise BadJob(f"{shown(state)} is no state: {', '.join(State)}") from None


class Outcome(StrEnum):
    """How an attempt ended."""

    DONE = "done"
    FAILED = "failed"  # nacked: back to delayed, or dead
    LOST = "lost"  # the lease was over before anybody settled it
    RELEASED = "released"  # given back unspent
    CANCELLED = "cancelled"  # no attempt: the row says when the job was cancelled


PRIORITIES: Final = 9
"""A priority is from minus this to this."""


class Field(NamedTuple):
    """A property that a job keeps from its put to its end."""

    name: str  # of `NewJob` and `Job`, of a column, and in whatever else shows jobs
    type: type
    kind: str  # of the column that keeps it: "name" (short text), "big", "small" (numbers), or "json"
    default: Any  # of a new job
    check: Callable[[Any, str], Any]  # raises BadJob for a value that no store takes


FIELDS: Final = (
    Field("key", str, "name", None, text),
    Field("ttr", int, "big", None, integer),
    Field("max_attempts", int, "big", None, integer),
    Field("headers", Mapping, "json", None, lambda headers, _: text_by_name(headers, "header")),
    Field("priority", int, "small", 0, lambda value, name: whole(value, name, PRIORITIES, -PRIORITIES)),
    Field("expires", int, "big", None, integer),
)
"""The properties that are only kept, checked and shown, in the order that they have in `NewJob` and in `Job`."""


class NewJob(NamedTuple):
    """A job to be put. None leaves the choice to whoever claims it."""

    topic: str
    body: bytes
    due: int  # or, if `delay` is given, ignored
    key: str | None = None  # unique among the live jobs of the topic
    ttr: int | None = None  # how long a handler may run: the lease
    max_attempts: int | None = None
    headers: Mapping[str, str] | None = None
    priority: int = 0  # among what is due of a topic the highest comes first, from -9 to 9
    expires: int | None = None  # no attempt begins so long after its due time: the job is cancelled instead
    replace: bool = False  # whether a delayed job with this key takes these values, instead of refusing the put
    delay: int | None = None  # due so long after the store's clock when it is stored
    parent: tuple[int, int] | None = None  # the receipt of the running job that puts it, and whose key it may take over
    dedupe_for: int | None = None  # for so long after a job with its key has ended this one is refused

    @property
    def kept(self) -> tuple[Any, ...]:
        """The values of FIELDS."""
        values: Any = self[OF_NEW_JOB]
        return values  # type: ignore[no-any-return]


class Job(NamedTuple):
    """A job as the store has it."""

    id: int
    topic: str
    body: bytes
    due: int
    created: int
    state: State
    key: str | None = None
    ttr: int | None = None
    max_attempts: int | None = None
    headers: Mapping[str, str] = {}
    priority: int = 0  # among what is due of the topic the highest comes first
    expires: int | None = None  # how long after its due time an attempt may begin
    claims: int = 0  # how often it was claimed or edited; with the id, the receipt of the latest claim. Never goes down
    attempt: int = 0  # claims that count: not those given back, nor those before the last retry by hand
    lease_until: int | None = None  # only while running
    last_error: str | None = None
    lost: int = 0  # what its last claim came to: lifecycle.NEVER_LOST, LOST_HELD or LOST_BEGUN

    @property
    def kept(self) -> tuple[Any, ...]:
        """The values of FIELDS."""
        values: Any = self[OF_JOB]
        return values  # type: ignore[no-any-return]

    def expired(self, now: int) -> bool:
        """Whether it is too late to begin with it at a time of the store's clock, ms."""
        return self.expires is not None and self.due + self.expires < now

    def json(self) -> Any:
        """Return what the body says as JSON. BadBody if it is none; NoKey, which is one too, if it is encrypted."""
        return decoded(self.body, f"the body of job {self.id}")

    @property
    def traceparent(self) -> str | None:
        """The W3C traceparent it was put with."""
        return self.headers.get("traceparent")

    @property
    def trace_id(self) -> str | None:
        """The trace that it belongs to: 32 hexadecimal digits."""
        parent = self.traceparent
        return parent[3:35] if parent else None


def _fields_of(record: Any) -> slice:
    first = record._fields.index(FIELDS[0].name)
    return slice(first, first + len(FIELDS))


OF_NEW_JOB: Final = _fields_of(NewJob)
"""Where the values of FIELDS stand in a `NewJob`. `OF_JOB` says it of a `Job`."""
OF_JOB: Final = _fields_of(Job)


class Attempt(NamedTuple):
    """One row of a job's history."""

    claim: int
    attempt: int
    started: int | None
    ended: int | None  # None: still running
    outcome: Outcome | None
    worker: str | None
    error: str | None
    result: bytes | None = None  # of the attempt that made the job done, if its handler's results are kept

    @property
    def reason(self) -> str:
        """Why it did not end well, for people; empty if it did, or runs."""
        return self.error or ("its lease ended; its worker sent nothing" if self.outcome is Outcome.LOST else "")


class Imported(NamedTuple):
    """A job as another store has it, to be taken in as it is."""

    job: Job  # delayed or finished; its id and last_error are not looked at
    history: tuple[Attempt, ...] = ()  # what was tried, oldest first, all of it ended
    passed: bool = False  # whether it has handed its key to a successor

    @property
    def new(self) -> NewJob:
        """What of it a new job has too."""
        job = self.job
        return NewJob(job.topic, job.body, job.due, *job.kept)

    @property
    def holds_key(self) -> bool:
        """Whether it is the live job that has its key."""
        return self.job.state is State.DELAYED and self.job.key is not None and not self.passed

    @property
    def last_error(self) -> str | None:
        """The last error of its history."""
        return next((attempt.error for attempt in reversed(self.history) if attempt.error is not None), None)

    @property
    def result(self) -> bytes | None:
        """The result of its last attempt."""
        return self.history[-1].result if self.history else None


class Counts(NamedTuple):
    """How many jobs of a topic are in each state."""

    delayed: int = 0
    running: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0


class Topic(NamedTuple):
    """A topic that the store has heard of."""

    name: str
    paused: bool
    priorities: tuple[int, ...] = ()  # those that its jobs ever had, but for 0, the highest first


class Due(NamedTuple):
    """What is to be known of a job to wait for it."""

    due: int
    id: int
    topic: str
    priority: int = 0
