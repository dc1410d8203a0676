"""The types of requests and answers. They check requests, and the OpenAPI document is made from them.

Ids are text, as JavaScript's numbers end at 2**53. Times are RFC 3339 in UTC. Delays are text as "30m", or seconds.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

LONGEST = 16_384
_SEALED = "The id of the key that the {} is encrypted with, which this server has not."


def says(description: str, **bounds: Any) -> Meta:
    """Return a field's description for the document, and the bounds of its values."""
    return Meta(description=description, **bounds)


Delay = float | str | None
Topic = Annotated[str, says("1 to 16384 characters.", min_length=1, max_length=LONGEST, examples=["mail"])]
Key = Annotated[str, says("Unique among the live jobs of its topic.", min_length=1, max_length=LONGEST)]
Moment = Annotated[datetime, says("RFC 3339, with a time zone.", tz=True)]
Time = Annotated[datetime, Meta(tz=True)]
Span = Annotated[
    float | str, says("Seconds, or text: a number and a unit, one or more times.", examples=["30m", 90, "1h 30m"])
]
Id = Annotated[str, says("The job's id.", examples=["1234567"])]
Receipt = Annotated[str, says("Names the claim; opaque. It is the proof that the job is yours.")]
Wait = Annotated[float, says("Seconds to wait for its end; at most 30.", ge=0)]
Error = Annotated[str | None, says("What went wrong; its end is kept if it is long.")]
PRIORITY = Annotated[int, says("Of the due jobs of a topic those with the highest priority come first.", ge=-9, le=9)]
Expires = Annotated[
    Delay, says("How long after its due time it may begin; later it is cancelled instead. A span such as 10m.")
]
ATTEMPTS = Annotated[int, says("How often it is tried in all.", ge=1, le=1_000_000)]
DryRun = Annotated[bool, says("Count what it would be, and change nothing.")]


Body = Annotated[Raw, says("Any JSON; it is kept as it was sent.")]
Base64 = Annotated[str | None, says("The body as bytes, in base64, instead of `body`.")]
Ttr = Annotated[Delay, says("How long a handler may run: the lease.")]
Headers = Annotated[dict[str, str] | None, says("Text by name, for the handler.")]
Limit = Annotated[int, says("The most to return; there may be fewer, and yet a next page.", ge=1, le=1_000)]
Cursor = Annotated[str, says("`next` of the answer before; opaque.", min_length=1, max_length=60_000)]
Next = Annotated[str | None, says("The cursor of the next part; null after the last.")]
WorkerName = Annotated[str, says("The worker of the last attempt, or how its id begins.", min_length=1, max_length=200)]
_searched = partial(says, min_length=1, max_length=1_000)
CatchUp = Literal["none", "one", "all"]
Overlap = Literal["skip", "queue", "overlap"]


class In(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request. An unknown field is refused by its name."""


class Part(In):
    """A choice of a part of a list."""

    limit: Limit = 100
    cursor: Cursor | None = None


# ---- put ------------------------------------------------------------------------------------------------------------


class NewJob(In, gc=False):
    """A new job."""

    topic: Topic
    body: Body = field(default_factory=Raw)
    body_base64: Base64 = None
    delay: Annotated[Delay, says("The time from now until the job is due: seconds, or text such as 30m.")] = None
    at: Annotated[Moment | None, says("When it is due, instead of a delay.")] = None
    key: Key | None = None
    replace: Annotated[bool, says("Let a delayed job with this key take these values.")] = False
    ttr: Ttr = None
    max_attempts: ATTEMPTS | None = None
    headers: Headers = None
    to: Annotated[str | None, says("Where an outlet delivers it: a URL, or a name.")] = None
    dedupe_for: Annotated[
        Delay, says("Refuse the put if a job with its key ended less than this ago: seconds, or text like 10m.")
    ] = None
    priority: PRIORITY = 0
    expires: Expires = None


class NewJobs(In):
    """New jobs, stored all or none."""

    jobs: Annotated[list[NewJob], Meta(min_length=1, max_length=10_000)]


class PutAnswer(Struct):
    """The job that was stored, durably."""

    id: Id


class Ids(Struct):
    """The jobs that were stored, durably, in the order in which they were sent."""

    ids: list[Id]


# ---- one job --------------------------------------------------------------------------------------------------------

StateName = Literal["delayed", "running", "done", "dead", "cancelled"]


class JobOut(Struct, omit_defaults=True, kw_only=True):
    """A job as it is now."""

    id: Id
    topic: str
    state: StateName
    due: Time
    created: Time
    body: Annotated[Raw | UnsetType, says("The body, if it is JSON.")] = UNSET
    body_base64: Annotated[str | None, says("The body, if it is something else than JSON.")] = None
    encrypted: Annotated[str | None, says(_SEALED.format("body"))] = None
    key: str | None = None
    ttr: Annotated[float | None, says("Seconds.")] = None
    max_attempts: int | None = None
    headers: dict[str, str] = {}
    attempt: Annotated[int, says("How many attempts were spent, the present one included.")] = 0
    claims: Annotated[int, says("How often it was claimed, edited or replaced.")] = 0
    lease_until: Annotated[Time | None, says("Until when its claim holds, while it runs.")] = None
    last_error: str | None = None
    priority: PRIORITY = 0
    expires: Annotated[float | None, says("Seconds after its due time.")] = None


class ReservedJob(JobOut, kw_only=True):
    """A job that is yours until `lease_until`."""

    receipt: Receipt


class _HasResult(Struct, omit_defaults=True, kw_only=True):
    result: Annotated[Raw | UnsetType, says("What the handler returned, if that is kept and is JSON.")] = UNSET
    result_base64: Annotated[str | None, says("The same, if it is something else than JSON.")] = None
    encrypted: Annotated[str | None, says(_SEALED.format("result"))] = None


class AttemptOut(_HasResult, kw_only=True):
    """One attempt."""

    claim: int
    attempt: int
    started: Time | None = None
    ended: Annotated[Time | None, says("Absent while it runs.")] = None
    outcome: Literal["done", "failed", "lost", "released", "cancelled"] | None = None
    worker: str | None = None
    error: str | None = None


class ResultOut(_HasResult, kw_only=True):
    """The result of a job so far."""

    id: Id
    state: StateName
    error: Annotated[str | None, says("The last error of its attempts.")] = None


class History(Struct):
    """The attempts of a job, oldest first."""

    attempts: list[AttemptOut]


class Reschedule(In):
    """The new due time of a job: one of the two fields."""

    delay: Annotated[Delay, says("From now: seconds, or text such as 30m.")] = None
    at: Moment | None = None


class Edit(Reschedule):
    """Changes of a waiting job. Absent fields stay; null removes ttr, max_attempts, expires or headers."""

    body: Body = field(default_factory=Raw)
    body_base64: Base64 = None
    ttr: Ttr | UnsetType = UNSET
    max_attempts: ATTEMPTS | UnsetType | None = UNSET
    headers: Annotated[
        dict[str, str] | UnsetType | None, says("Text by name, for the handler, in place of all there was.")
    ] = UNSET
    priority: PRIORITY | UnsetType = UNSET
    expires: Expires | UnsetType = UNSET


class Retry(In):
    """When the job is due again; the default is at once."""

    delay: Span = 0.0


# ---- many jobs ------------------------------------------------------------------------------------------------------


class Filter(In):
    """The choice of jobs. An absent field matches every job."""

    topic: Topic | None = None
    state: StateName | None = None
    key: Key | None = None
    due_from: Moment | None = None
    due_until: Moment | None = None
    error: Annotated[str, _searched("The last error contains this text.")] | None = None
    text: Annotated[str, _searched("The body contains this text.")] | None = None
    header: Annotated[str, _searched("It has this header, or of `name=value` this value.")] | None = None
    worker: WorkerName | None = None
    priority: PRIORITY | None = None


class Find(Filter):
    """A search, and the part of its results."""

    limit: Limit = 100
    cursor: Cursor | None = None
    body: Annotated[bool, says("Whether bodies come along.")] = True


class Found(Struct):
    """A part of the jobs that a search finds."""

    jobs: list[JobOut]
    next: Next
    looked: Annotated[int, says("How many jobs were looked at one by one, for text, header, worker or priority.")] = 0


class ByKey(In):
    """The live job with a key, or else the latest one."""

    topic: Topic
    key: Key


class ResultOf(In):
    """How long to wait."""

    wait: Wait = 0.0


class ResultByKey(ByKey):
    """Which job, and how long to wait."""

    wait: Wait = 0.0


class Bulk(Filter):
    """The choice of jobs to change."""

    dry_run: DryRun = False


class BulkRetry(Bulk):
    """The choice of jobs to retry, and when they are due."""

    delay: Span = 0.0


class BulkAnswer(Struct):
    """How many jobs were changed, or would be."""

    jobs: int
    dry_run: bool


class Changed(Struct):
    """Whether anything changed."""

    changed: bool


# ---- topics ---------------------------------------------------------------------------------------------------------


class TopicOut(Struct):
    """A topic that was ever put to or paused."""

    topic: str
    paused: bool


class Topics(Struct):
    """A part of the topics, by name."""

    topics: list[TopicOut]
    next: Next


class NewLimits(In, kw_only=True):
    """How many jobs of a topic run at once, and how many begin in a time; null: no such limit."""

    limit: int | None
    per: Annotated[str | None, says("The text that ends the part of a key by which groups are limited.")] = None
    rate: Annotated[str | None, Meta(examples=["100/m", "10/s burst 10"])]


class LimitsOut(Struct):
    """The limits that were set for a topic."""

    limits: Annotated[NewLimits | None, says("null: those of its code hold.")]


class Events(In):
    """The choice of events."""

    topic: Topic | None = None


class CountsOut(Struct):
    """How many jobs of a topic are in each state."""

    delayed: int
    running: int
    done: int
    dead: int
    cancelled: int


class AllCounts(Struct):
    """The counts of each topic, by its name."""

    topics: dict[str, CountsOut]


class WorkerOut(Struct, kw_only=True):
    """A worker that is there."""

    worker: Annotated[str, says("Its id; another one for every start.")]
    host: str | None
    process: int | None
    topics: Annotated[list[str], says("Those that it handles and that the token may see.")]
    silent: Annotated[float, says("Seconds since it last showed that it works.")]
    gone: Annotated[bool, says("Whether it has shown nothing for 5 s: it was killed, or is cut off.")]
    quiet: Annotated[bool, says("Whether it takes no jobs, as it was told.")]
    room: Annotated[bool, says("Whether it has room for all that is due.")]
    behind: Annotated[float, says("Seconds since when jobs are due that it has no room for.")]


class Workers(Struct):
    """All workers, by id."""

    workers: list[WorkerOut]


# ---- schedules ------------------------------------------------------------------------------------------------------


class NewSchedule(In):
    """When jobs are put again and again, and their contents."""

    topic: Topic
    body: Body = field(default_factory=Raw)
    body_base64: Base64 = None
    every: Annotated[Delay, says("How often, since 1970 in UTC: 1 s or more.")] = None
    cron: Annotated[str | None, says("When, instead: a cron expression of five or six fields.")] = None
    tz: Annotated[str | None, says("The time zone of `cron`; default: UTC.")] = None
    catch_up: CatchUp = "none"
    overlap: Annotated[Overlap | None, says("Default: `queue` with `catch_up` all, else `skip`.")] = None
    jitter: Annotated[float | str, says("Each tick comes up to this much later, at random.")] = 0.0
    ttr: Ttr = None
    max_attempts: ATTEMPTS | None = None
    headers: Headers = None
    priority: PRIORITY = 0


class ScheduleOut(Struct, kw_only=True):
    """A schedule, and where it is."""

    name: str
    topic: str
    every: Annotated[float | None, says("Seconds; null if it goes by cron.")]
    cron: str | None
    tz: Annotated[str | None, says("The time zone of `cron`.")]
    catch_up: CatchUp
    overlap: Overlap
    paused: bool
    next: Annotated[Time | None, says("When its next tick comes; null if it is paused.")]
    last: Annotated[Time | None, says("When its last one came.")]
    outcome: Annotated[
        str | None, says('What became of it: a state, or "skipped"; null if that is not known any more.')
    ]
    job: Annotated[str | None, says("The id of its job.")]


class Schedules(Struct):
    """A part of the schedules, by name."""

    schedules: list[ScheduleOut]
    next: Next


# ---- claims ---------------------------------------------------------------------------------------------------------


class Reserve(In):
    """The topics to claim jobs of, and for how long."""

    topics: Annotated[list[Topic], says("The first come first.", min_length=1, max_length=100)]
    limit: Annotated[int, says("The most to return.", ge=1, le=1_000)] = 1
    wait: Annotated[float | str, says("How long to wait for one; at most 30 s.")] = 0.0
    ttr: Annotated[float | str, says("The lease of jobs that say none.", examples=[60, "5m"])] = 60.0
    max_attempts: Annotated[ATTEMPTS | None, says("Of jobs that do not say it themselves.")] = None
    worker: Annotated[str, says("The worker's name, for the history of the job.", min_length=1, max_length=200)] = (
        "http"
    )


class Claims(Struct, omit_defaults=True):
    """Jobs that are yours now."""

    jobs: list[ReservedJob]
    more: Annotated[bool, says("Whether others are due that made the answer too long: reserve again.")] = False


class Nack(In):
    """How an attempt failed."""

    delay: Annotated[
        Delay | UnsetType,
        says("The time until the job is due again; without it the retry policy decides; null makes the job dead."),
    ] = UNSET
    error: Error = None


class Bury(In):
    """Why a job is dead."""

    error: Error = None


class NackAnswer(Struct):
    """The new state of the job."""

    state: Literal["delayed", "dead"]


class Touch(In):
    """How long the lease lasts from now."""

    ttr: Annotated[Delay, says("A span such as 2m; without it the job's own ttr, or else 60 s.")] = None


# ---- problems -------------------------------------------------------------------------------------------------------


class FieldProblem(Struct):
    """The problem of a field."""

    pointer: Annotated[str, says("A JSON pointer into the body.", examples=["#/jobs/3/topic"])]
    detail: str


class ProblemOut(Struct, kw_only=True):
    """A problem, RFC 9457."""

    type: Annotated[str, says("Which kind of problem; stable.", examples=["urn:pywheel:problem:bad-body"])]
    title: str
    status: int
    detail: Annotated[str, says("The fault, and how to mend it.")]
    state: Annotated[StateName, says("Of `wrong-state`: what the job is.")] | UnsetType = UNSET
    errors: list[FieldProblem] | UnsetType = UNSET
