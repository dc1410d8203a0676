"""The records of a store: a job, an attempt, and the states of both.

All times are wall clock, in whole milliseconds since 1970; all durations are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from .._errors import BadJob
from .bodies import decoded
from .checks import integer, shown, text, text_by_name, whole

SHARDS = 32
"""The number of shards: slices of time take turns, and each shard has an owner among a topic's workers."""


SLICE = 50
"""The length of a slice of time, in ms."""


def slice_of(due: int) -> int:
    """Return the shard whose owner goes first for jobs due at this time: time is cut into slices, which take turns."""
    return due // SLICE % SHARDS


class State(StrEnum):
    """The state of a job. `DELAYED` and `RUNNING` are live, the others finished."""

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
    """Return a state. BadJob for an unknown name."""
    try:
        return State(state)
    except ValueError:
        raise BadJob(f"{shown(state)} is not a state: {', '.join(State)}") from None


class Outcome(StrEnum):
    """The end of an attempt."""

    DONE = "done"
    FAILED = "failed"  # nacked: back to delayed, or dead
    LOST = "lost"  # the lease ended before the claim was settled
    RELEASED = "released"  # given back unspent
    CANCELLED = "cancelled"  # not an attempt: the row says when the job was cancelled


PRIORITIES: Final = 9
"""The highest priority; the lowest is its negative."""


class Field(NamedTuple):
    """A property that a job keeps from its put to its end."""

    name: str  # of `NewJob` and `Job`, of the column, and of every view of jobs
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
"""The properties that are only kept, checked and shown, in their order in `NewJob` and `Job`."""
KEPT: Final = tuple(field.name for field in FIELDS)
"""The names of FIELDS."""
DEFAULTS: Final = tuple(field.default for field in FIELDS)
"""The values of FIELDS in a plain new job."""


class NewJob(NamedTuple):
    """A job to be put. None leaves the choice to the worker that claims it."""

    topic: str
    body: bytes
    due: int  # ignored if `delay` is given
    key: str | None = None  # unique among the live jobs of the topic
    ttr: int | None = None  # the lease: how long a handler may run
    max_attempts: int | None = None
    headers: Mapping[str, str] | None = None
    priority: int = 0  # from -9 to 9; of a topic's due jobs the highest comes first
    expires: int | None = None  # ms after its due time in which an attempt may begin; later it is cancelled
    replace: bool = False  # whether a delayed job with this key takes these values; otherwise the put is refused
    delay: int | None = None  # ms from storing the job, by the store's clock, until it is due
    parent: tuple[int, int] | None = None  # receipt of the running job that puts this one, which may take its key over
    dedupe_for: int | None = None  # ms after the end of a job with its key in which this one is refused

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
    priority: int = 0  # of a topic's due jobs the highest comes first
    expires: int | None = None  # ms after its due time in which an attempt may begin
    claims: int = 0  # how often it was claimed or edited; with the id, the latest claim's receipt. Never goes down
    attempt: int = 0  # claims that count: without those given back, and those before the last retry by hand
    lease_until: int | None = None  # only while running
    last_error: str | None = None
    lost: int = 0  # the end of its last claim: lifecycle.NEVER_LOST, LOST_HELD or LOST_BEGUN

    @property
    def kept(self) -> tuple[Any, ...]:
        """The values of FIELDS."""
        values: Any = self[OF_JOB]
        return values  # type: ignore[no-any-return]

    def expired(self, now: int) -> bool:
        """Whether it is too late to begin the job, at a time of the store's clock, ms."""
        return self.expires is not None and self.due + self.expires < now

    def json(self) -> Any:
        """Return the body's JSON value. BadBody if it is not JSON; NoKey, a BadBody, if it is encrypted."""
        return decoded(self.body, f"the body of job {self.id}")

    @property
    def traceparent(self) -> str | None:
        """The W3C traceparent of the put."""
        return self.headers.get("traceparent")

    @property
    def trace_id(self) -> str | None:
        """The id of the job's trace: 32 hexadecimal digits."""
        parent = self.traceparent
        return parent[3:35] if parent else None


def _fields_of(record: Any) -> slice:
    first = record._fields.index(FIELDS[0].name)
    return slice(first, first + len(FIELDS))


OF_NEW_JOB: Final = _fields_of(NewJob)
"""The positions of the values of FIELDS in a `NewJob`; `OF_JOB` has those in a `Job`."""
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
    result: bytes | None = None  # only of the attempt that made the job done, if its handler's results are kept

    @property
    def reason(self) -> str:
        """The reason why it failed, for people; empty if it succeeded, or runs."""
        return self.error or ("its lease ended; its worker sent nothing" if self.outcome is Outcome.LOST else "")


class Imported(NamedTuple):
    """A job as another store has it, to be stored unchanged."""

    job: Job  # delayed or finished; its id and last_error are ignored
    history: tuple[Attempt, ...] = ()  # the attempts, oldest first, all of them ended
    passed: bool = False  # whether it has handed its key to a successor

    @property
    def new(self) -> NewJob:
        """The fields that a new job has as well."""
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
    """A topic that the store knows."""

    name: str
    paused: bool
    priorities: tuple[int, ...] = ()  # all that its jobs ever had, except 0, the highest first


class Due(NamedTuple):
    """The facts that a worker needs to wait for a job."""

    due: int
    id: int
    topic: str
    priority: int = 0
