"""The commands that change a store. A store applies a list of them in one transaction, each of them all or nothing.

Each class states its effect and its outcome; `stores.contract.Store.apply` states the rules for all. A *reference* is
an id, or a pair (topic, key) that stands for the live job with that key or, without one, the latest finished one. A
*receipt* is a pair (id, claims) of a claimed job. `now` is the store's clock while it applies the commands.
`lifecycle` decides what happens to a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import isawaitable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .._errors import BadJob
from .checks import MOST, name, whole
from .job import Due, Imported, Job, NewJob, State
from .limits import Limits

__all__ = [
    "NONCES_FORGOTTEN",
    "NONCES_KEPT",
    "NOTES_FORGOTTEN",
    "RESULT_MOST",
    "TOUCHED",
    "Ack",
    "Announce",
    "Begin",
    "Cancel",
    "Change",
    "Claim",
    "ClaimPolicy",
    "Claimed",
    "Command",
    "Delete",
    "Edit",
    "Expire",
    "Expired",
    "Import",
    "Nack",
    "Pause",
    "Purge",
    "Put",
    "Ref",
    "Release",
    "Reserve",
    "Retry",
    "Rewrite",
    "SetNote",
    "Touch",
    "called",
    "reference",
]

R = TypeVar("R")
Ref = int | tuple[str, str]

NONCES_KEPT: Final = 31 * 86_400_000
"""The ms for which a nonce is known at least, by the store's clock."""
NONCES_FORGOTTEN: Final = 10
"""The most older nonces that a put with a nonce deletes: more than it adds, so that their number stays bounded."""
NOTES_FORGOTTEN: Final = 10
"""The most expired notes that keeping a note with a ttl deletes: more than it adds, for the same reason."""
RESULT_MOST: Final = 65_536
"""The longest result of a job, in bytes, as its handler gave it."""
TOUCHED: Final = 60_000
"""The lease in ms that a touch without a ttr gives a job without its own."""


class ClaimPolicy(NamedTuple):
    """How to claim jobs. A job's own `ttr` and `max_attempts` take precedence."""

    ttr: int  # a begun claim is leased until now + ttr + slack
    max_attempts: int
    backoff: tuple[int, ...] = ()
    """If attempt n loses its lease, the job is due backoff[n-1], or the last, after the lease's end; () is 0."""
    jitter: float = 0.0  # the random part of the backoff, drawn for each job by itself
    slack: int = 0  # for the way from the store to the handler and back
    hold: int = 1_000  # a held claim is leased until now + hold
    limits: Limits | None = None  # how many may run or begin; with limits, a job that does not begin is not claimed


def reference(ref: Any) -> Ref:
    """Return a reference as the store takes it: an id, or a pair (topic, key). BadJob if it is neither nor a Job.

    A negative id belongs to a job that was put into a spool.
    """
    if isinstance(ref, Job):
        return ref.id
    if isinstance(ref, int):
        return whole(ref, "an id", MOST, -MOST)
    if isinstance(ref, tuple) and len(ref) == 2:
        return name(ref[0], "topic"), name(ref[1], "key")
    hint = ": await the call that returns it" if isawaitable(ref) else ""
    raise BadJob(f"name a job by its id, by the Job, or by a pair (topic, key), not by {ref!r:.40}{hint}")


def called(ref: Ref | Job) -> str:
    """Return a job's name for a message."""
    if isinstance(ref, Job):
        return str(ref.id)
    return str(ref) if isinstance(ref, int) else f"{ref[1]!r:.80} of topic {ref[0]!r:.80}"


class Command(Generic[R]):
    """A request to change a store. `R` is the type of its outcome."""

    __slots__ = ()


class Change(StrEnum):
    """The outcome of a change: true if it was made, otherwise the reason why nothing has changed, as text."""

    MADE = "made"
    NOT_FOUND = "not found"
    DELAYED = "delayed"  # this and the next four: the job's state, which stood in the way
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    CHANGED = "changed"  # the job is not as `expect` says

    def __bool__(self) -> bool:
        return self is Change.MADE


# ---- for clients ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Put(Command[list[int]]):
    """Store new jobs, all or none. Outcome: their ids, in order. O(log jobs) each.

    JobExists if a live job has the key. With `replace`, a delayed job with that key takes the new body, due time, ttr,
    max_attempts, headers and priority instead, and keeps its id and its attempts. For `expect` that counts as an Edit:
    the job's claims grow by one. If `parent` is the receipt of the running job that has the key, the new job takes the
    key over. A put with `dedupe_for` raises JobExists even without a live job, if one of the last 20 jobs with its key
    ended less than that many ms ago: done, dead or cancelled. Of two such puts at the same time the second sees the
    first.

    A put with a `nonce`, a text of 1 to 200 characters, happens once. If this store has applied a put with the same
    nonce before, whatever its jobs were, nothing changes, and the outcome is the ids of that put. A refused put leaves
    no nonce. A nonce is known for at least NONCES_KEPT; later puts with a nonce, and Purge, delete older ones, a few
    each. With a `fingerprint` of 1 to 200 ASCII characters: NonceTaken if the put with that nonce had another one.
    """

    jobs: tuple[NewJob, ...]
    nonce: str | None = None
    fingerprint: str | None = None


@dataclass(slots=True)
class Import(Command[list[int]]):
    """Store jobs as another store has them, with their past, all or none. Outcome: their new ids, in order.

    A job keeps everything except its id: the times of creation and due, its state, claims, attempts and history. A
    delayed job is claimed and retried from where it was. A finished job takes no key, and is purged by its time of end.
    JobExists if the key of a delayed job that has not handed it on is taken. BadJob if a job is running, or if a job
    and its history do not fit: the claims of the history ascend up to the job's own, and the last one of a finished job
    ended it. A `nonce` is as for Put, and shares its names. O(log jobs + history) each.
    """

    jobs: tuple[Imported, ...]
    nonce: str | None = None


@dataclass(slots=True)
class Cancel(Command[Change]):
    """Make a delayed job cancelled. Outcome: Change. After MADE the job is never delivered again.

    With `expect`, the pair (due, claims) of the job as last read: CHANGED if the pair is different now, whatever the
    job's state.
    """

    ref: Ref
    expect: tuple[int, int] | None = None


@dataclass(slots=True)
class Edit(Command[Change]):
    """Give a delayed job another due time, body, or other `fields`: values of FIELDS by name. Outcome: Change.

    The job is due at `due`, or now + `delay` if that is given; without both, as before. Fields that are not given stay.
    The key cannot change. `expect` is as for Cancel. A new body or new fields add one to the job's claims, but not to
    its attempts, so that a caller who has read the job before gets CHANGED.
    """

    ref: Ref
    due: int | None = None
    delay: int | None = None
    expect: tuple[int, int] | None = None
    body: bytes | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Retry(Command[Change]):
    """Make a finished job delayed again, with all its attempts: due at `due`, or now + `delay` if that is given.

    Outcome: Change, or JobExists if another live job has its key by now.
    """

    ref: Ref
    due: int = 0
    delay: int | None = None


@dataclass(slots=True)
class Delete(Command[Change]):
    """Delete a job that is not running, and its history. Outcome: Change."""

    ref: Ref


@dataclass(slots=True)
class Rewrite(Command[bool]):
    """Give a job another body, whatever its state, if it still has this one. Outcome: whether it had.

    For the same content in another form, such as with another key: a running claim goes on with the body that it has.
    With a `claim` the command rewrites the result of that claim instead, if the claim made the job done.
    """

    id: int
    old: bytes
    new: bytes
    claim: int | None = None


@dataclass(slots=True)
class Pause(Command[bool]):
    """Keep the jobs of a topic from being claimed, or allow it again. Outcome: whether that changed anything."""

    topic: str
    paused: bool


@dataclass(slots=True)
class Purge(Command[int]):
    """Delete up to `limit` finished jobs in a state that ended at least `age` ms ago, and their history.

    Outcome: how many. `topic` None means all. O(log jobs + deleted jobs) for done and cancelled jobs; without a
    topic also O(topics) at worst. Up to `limit` old nonces, and up to `limit` expired notes, are deleted as well; they
    are not counted.
    """

    state: State
    age: int
    topic: str | None
    limit: int


# ---- notes ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SetNote(Command[bytes | None]):
    """Keep a few bytes under a name, in the transaction of the commands beside it. O(log notes).

    Outcome: the value that was there before, None if there was none. `value` None deletes the note. With `ttl` the note
    expires at now + ttl, and then counts as missing; without, it stays. With `absent` nothing changes if there is a
    value. A name has 1 to 200 characters, a value up to 64 KiB. Later notes with a ttl, and Purge, delete expired
    notes, a few each.

    In a store that consists of several, a note lives in the store of the nonce that follows the first colon of its
    name. So ``SetNote("idem:" + nonce, ...)`` shares a transaction with a ``Put(jobs, nonce)`` beside it, if that has
    no keys.
    """

    name: str
    value: bytes | None
    ttl: int | None = None
    absent: bool = False


# ---- claims ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reserve(Command[list[Job]]):
    """Claim up to `limit` due jobs of a topic, and begin them. Outcome: the jobs, running.

    Jobs come by priority, the highest first, then by (due, id). A job that limits hold back is not claimed. A limit by
    key looks for other jobs among the first 1 000 that are due.

    A claim is exclusive: of several callers one gets the job. Jobs whose lease is over are expired first. A paused
    topic gives none.

    With `bytes`, the first job whose body exceeds the remaining bytes is left, and all after it. The first `least` jobs
    are claimed whatever their sizes. A store that consists of several may leave other jobs.
    """

    topic: str
    limit: int
    policy: ClaimPolicy
    worker: str
    bytes: int | None = None
    least: int = 1


class Claimed(NamedTuple):
    """Outcome of Claim."""

    jobs: list[Job]  # running; the highest priority first, then by (due, id)
    begun: int  # this many of them, from the first on, have begun; the others are held until Begin
    left: list[Due]
    """Delayed jobs that were requested or looked at, but not claimed, with the time to ask again."""
    paused: bool  # whether the topic is paused: then nothing was claimed, and `left` is empty
    again: int | None = None  # when to ask again for those of `left` that limits hold back, ms
    full: tuple[tuple[int, str], ...] = ()  # those of `left` that a limit by key holds back: ids, and their full groups
    next: int | None = None
    """No delayed job that a claim without ids did not look at is due before this, ms. None: there is no such job."""


@dataclass(slots=True)
class Claim(Command[Claimed]):
    """Claim jobs of a topic for a worker: the first due ones, or those with some ids. Outcome: Claimed.

    Without ids the claim looks at the first `limit` due jobs, by priority, then (due, id). With `after` they come
    behind that position, and jobs in `without` are left out. Jobs that may have killed their process (`Job.lost` is 2)
    count only as far as `suspects` of them are claimed. Jobs that another transaction has locked are skipped. With ids
    the claim looks at each of those jobs that is delayed, in the same order, and leaves those that are not due.
    Unknown, running and finished jobs, and jobs of other topics, are neither claimed nor left.

    The claim takes the jobs that it looked at, and their claims grow by one. The first `begin` of them begin at once:
    they are leased for their ttr and have spent an attempt. The others are held for a short time, until `Begin`.

    - A job whose last claim was lost (`Job.lost`) is not held: it begins at once or is left. At most `suspects` jobs
      with `Job.lost` 2 are claimed.
    - The first job that exceeds the total of `bytes` is left, with all after it; but one job is claimed whatever its
      size.
    - With limits no job is held: of the jobs that the limits admit, the first `begin` are claimed, and the rest are
      left.
    """

    topic: str
    ids: tuple[int, ...]
    policy: ClaimPolicy
    worker: str
    begin: int
    suspects: int = 1
    bytes: int = 64 << 20
    limit: int = 0
    after: tuple[int | None, int, int] | None = None  # priority, due, id; without a priority: in each of them
    without: tuple[int, ...] = ()


@dataclass(slots=True)
class Begin(Command[bool]):
    """Begin a held claim, or renew one that has begun: the attempt counts, and the lease ends at now + ttr or later.

    The lease is never shortened: the handler may have touched it meanwhile. Outcome: whether this very claim held the
    job (now < lease_until).
    """

    id: int
    claims: int
    ttr: int


@dataclass(slots=True)
class Ack(Command[bool]):
    """Make a running job done, begun or held. Outcome: whether this very claim held it; False changes nothing.

    A `result`, up to RESULT_MOST bytes, is kept with the attempt that this ends, until the job is retried by hand or
    deleted.
    """

    id: int
    claims: int
    result: bytes | None = None


@dataclass(slots=True)
class Nack(Command[State | None]):
    """End a claim without success: due again at now + delay, or dead if no attempt is left or `delay` is None.

    The attempt counts, begun or held. Outcome: the new State, or None if this very claim did not hold it; then nothing
    has changed.
    """

    id: int
    claims: int
    delay: int | None
    error: str | None = None


@dataclass(slots=True)
class Release(Command[bool]):
    """Give a claim back: delayed again, due as before, no attempt spent. Outcome: whether this very claim held it."""

    id: int
    claims: int


@dataclass(slots=True)
class Touch(Command[bool]):
    """Let a claim's lease end at now + ttr. Outcome: whether this very claim held it.

    Without a `ttr`, the job's own counts, or else TOUCHED.
    """

    id: int
    claims: int
    ttr: int | None = None


class Expired(NamedTuple):
    """Outcome of Expire."""

    ended: int
    next_lease: int | None  # the earliest end of a lease that is not over
    dead: tuple[int, ...] = ()  # the ids of the jobs that this made dead, ascending


@dataclass(slots=True)
class Expire(Command[Expired]):
    """End up to `limit` claims whose lease is over (now >= lease_until). Outcome: Expired.

    `lifecycle.lost` decides the state of such a job. Every other command, and every query whose class does not say
    otherwise, treats the job so from the lease's end on, whether or not this was applied.

    If a command makes a job dead by ending its claim, a note says so to the workers of its topic, which are woken:
    `Store.died`.
    """

    limit: int


# ---- workers --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Announce(Command[None]):
    """Announce the topics that a worker handles, in place of those before; without topics it is gone. Outcome: None.

    The announcements of all workers decide which of them owns which shard: `stores.ownership`. The others are woken.
    """

    worker: str
    topics: tuple[str, ...]
