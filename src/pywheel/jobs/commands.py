"""The commands that change a store. A store applies a list of them in one transaction, each of them all or nothing.

The classes say what a command does and what its outcome is; `stores.contract.Store.apply` says what holds for all.
A *reference* is an id, or a pair (topic, key) that stands for the live job with that key or, without one, the latest
finished one. A *receipt* is a pair (id, claims) of a claimed job. `now` is the store's clock while it applies.
What becomes of a job is decided in `lifecycle`.
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
"""For how many ms a nonce is known at least, by the store's clock."""
NONCES_FORGOTTEN: Final = 10
"""A put with a nonce forgets up to so many that are older: more than come, so that what is kept stays bounded."""
NOTES_FORGOTTEN: Final = 10
"""A note that is kept with a ttl forgets up to so many that are over: more than come, for the same reason."""
RESULT_MOST: Final = 65_536
"""The longest result of a job, in bytes, as its handler gave it."""


class ClaimPolicy(NamedTuple):
    """How jobs are claimed. The job's own `ttr` and `max_attempts` come first."""

    ttr: int  # a claim that has begun is leased until now + ttr + slack
    max_attempts: int
    backoff: tuple[int, ...] = ()
    """If attempt n loses its lease, the job is due backoff[n-1], or the last, after the lease's end; () is 0."""
    jitter: float = 0.0  # the part of the backoff that is drawn by lot, for each job by itself
    slack: int = 0  # for the way from the store to the handler and back
    hold: int = 1_000  # a claim that has not begun is leased until now + hold
    limits: Limits | None = None  # how many may run or begin: with any, what does not begin is not claimed


def reference(ref: Any) -> Ref:
    """Return what a store takes for a job: an id, or a pair (topic, key). BadJob if it is neither nor a Job.

    A negative id is that of a job that was put into a spool.
    """
    if isinstance(ref, Job):
        return ref.id
    if isinstance(ref, int):
        return whole(ref, "an id", MOST, -MOST)
    if isinstance(ref, tuple) and len(ref) == 2:
        return name(ref[0], "topic"), name(ref[1], "key")
    hint = ": await the call that returns it" if isawaitable(ref) else ""
    raise BadJob(f"a job is named by its id, by the Job, or by a pair (topic, key), not by {ref!r:.40}{hint}")


def called(ref: Ref | Job) -> str:
    """Return what a job is called by, for a message."""
    if isinstance(ref, Job):
        return str(ref.id)
    return str(ref) if isinstance(ref, int) else f"{ref[1]!r:.80} of topic {ref[0]!r:.80}"


class Command(Generic[R]):
    """What a store may be asked to do. `R` is the type of its outcome."""

    __slots__ = ()


class Change(StrEnum):
    """The outcome of a change: true if it was made, otherwise the reason why nothing has changed, as text."""

    MADE = "made"
    NOT_FOUND = "not found"
    DELAYED = "delayed"  # what the job is, and what stood in the way; so are the next four
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"
    CHANGED = "changed"  # it is not as it was expected to be

    def __bool__(self) -> bool:
        return self is Change.MADE


# ---- for clients ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Put(Command[list[int]]):
    """Store new jobs, all or none. Outcome: their ids, in order. O(log jobs) each.

    JobExists if a key is taken by a live job. With `replace`, a delayed job with that key takes the new body, due time,
    ttr, max_attempts, headers and priority instead, and keeps its id and its attempts. Like an
    Edit that is a change for `expect`: its claims grow by one. A job whose `parent` is the
    receipt of the running job that has the key takes the key over. A job with `dedupe_for` is refused by JobExists also
    if no live job has its key, and one of the last 20 with it ended less than so many ms ago: done, dead or cancelled.
    Of two such puts at the same time the second sees the first.

    A put with a `nonce`, a text of 1 to 200 characters, happens once: if this store has applied one with the same nonce
    before, whatever its jobs were, nothing changes, and the outcome is the ids of then. A put that was refused leaves
    no nonce. A nonce is known for at least NONCES_KEPT; later puts with one, and Purge, forget older ones, a few each.
    With a `fingerprint` of 1 to 200 ASCII characters: NonceTaken if the put with that nonce had another one.
    """

    jobs: tuple[NewJob, ...]
    nonce: str | None = None
    fingerprint: str | None = None


@dataclass(slots=True)
class Import(Command[list[int]]):
    """Store jobs as another store has them, with their past, all or none. Outcome: their new ids, in order.

    Each keeps all it has but its id: when it was created and is due, its state, claims and attempts, its history. A
    delayed one is claimed and retried from where it was. A finished one takes no key, and is purged by when it ended.
    JobExists if the key of a delayed one that has not handed it on is taken. BadJob if one is running, or if a job and
    its history do not go together: claims that ascend up to its own, and for a finished job a last one that ended it.
    A `nonce` is as for Put, and one with puts. O(log jobs + history) each.
    """

    jobs: tuple[Imported, ...]
    nonce: str | None = None


@dataclass(slots=True)
class Cancel(Command[Change]):
    """Make a delayed job cancelled. Outcome: Change. After MADE it is never delivered again.

    With `expect`, the pair (due, claims) of the job as it was seen: CHANGED, whatever its state, if it is not so any
    more.
    """

    ref: Ref
    expect: tuple[int, int] | None = None


@dataclass(slots=True)
class Edit(Command[Change]):
    """Give a delayed job another due time, body, or other `fields`: values of FIELDS by name. Outcome: Change.

    It is due at `due`, or now + `delay` if that is given; without both, as before. What is not given stays. The key
    cannot change. `expect` is as for Cancel: with a body or fields the job's claims grow by one, and its attempts do
    not, so that who has seen it before gets CHANGED.
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

    Outcome: Change, or JobExists if its key belongs to another live job by now.
    """

    ref: Ref
    due: int = 0
    delay: int | None = None


@dataclass(slots=True)
class Delete(Command[Change]):
    """Forget a job that is not running, and its history. Outcome: Change."""

    ref: Ref


@dataclass(slots=True)
class Rewrite(Command[bool]):
    """Give a job another body, whatever its state, if it still has this one. Outcome: whether it had.

    For the same content written in another way, as with another key: a claim that runs goes on with what it has.
    With a `claim` it is the result of that claim that is rewritten, if it made the job done.
    """

    id: int
    old: bytes
    new: bytes
    claim: int | None = None


@dataclass(slots=True)
class Pause(Command[bool]):
    """Keep the jobs of a topic from being claimed, or let them go again. Outcome: whether that changed anything."""

    topic: str
    paused: bool


@dataclass(slots=True)
class Purge(Command[int]):
    """Forget up to `limit` finished jobs of a state that ended at least `age` ms ago, and their history.

    Outcome: how many. `topic` None means all. O(log jobs + what is forgotten) for done and cancelled jobs. Forgets up
    to `limit` nonces that are old enough, too, and up to `limit` notes that are over, which count for nothing.
    """

    state: State
    age: int
    topic: str | None
    limit: int


# ---- notes ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SetNote(Command[bytes | None]):
    """Keep a few bytes under a name, in the transaction of the commands beside it. O(log notes).

    Outcome: the value that was there before, None if there was none. `value` None deletes it. With `ttl` it is over, so
    not there, from now + ttl on; without, it stays. With `absent` nothing changes if there is a value. A name has 1 to
    200 characters, a value up to 64 KiB. Later notes with a ttl, and Purge, forget what is over, a few each.

    Of a store of several, notes live where the nonce does that is the part of their name after the first colon: so
    ``SetNote("idem:" + nonce, ...)`` shares a transaction with the ``Put(jobs, nonce)`` beside it, unless it has keys.
    """

    name: str
    value: bytes | None
    ttl: int | None = None
    absent: bool = False


# ---- claims ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reserve(Command[list[Job]]):
    """Claim up to `limit` due jobs of a topic, and begin them. Outcome: the jobs, running.

    Those of the highest priority come first, within one by (due, id). What limits hold back is not claimed; a limit by
    key looks for others among the first 1 000 that are due.

    A claim is exclusive: of several who try, one gets the job. Jobs whose lease is over are expired first. A paused
    topic gives none.

    Of the bodies at most `bytes` are claimed, if that is given: the first job that exceeds them is left, and all after
    it. The first `least` jobs are claimed whatever their sizes. A store that consists of several may leave other jobs.
    """

    topic: str
    limit: int
    policy: ClaimPolicy
    worker: str
    bytes: int | None = None
    least: int = 1


class Claimed(NamedTuple):
    """Outcome of Claim."""

    jobs: list[Job]  # running, those of the highest priority first, within one by (due, id)
    begun: int  # so many of them, the first, have begun; the others are held until Begin
    left: list[Due]
    """Delayed jobs that were asked for, or looked at, and not claimed, with when to ask again."""
    paused: bool  # whether the topic is: then nothing was claimed, and `left` is empty
    again: int | None = None  # limits hold back some of `left`: when to ask again, ms
    full: tuple[tuple[int, str], ...] = ()  # a limit by key holds these of `left` back: ids, and groups that are full
    next: int | None = None
    """Of a claim without ids: no delayed job that it did not look at is due before, ms. None: there is none."""


@dataclass(slots=True)
class Claim(Command[Claimed]):
    """Claim jobs of a topic for a worker: the first that are due, or those with some ids. Outcome: Claimed.

    Without ids the first `limit` jobs are looked at that are due, by priority, then (due, id): those behind the
    position `after` if that is given, but for those `without`. Jobs that may have killed their process (`Job.lost` is
    2) count only as far as `suspects` are claimed. What another transaction has locked is passed over.
    With ids each of those is looked at that is delayed, in the same order; those that are not due are left. Neither
    unknown, running and finished jobs nor those of other topics are claimed or left.

    What was looked at is claimed, and its claims grow by one. The first `begin` of them begin at once: they are leased
    for their ttr and have spent an attempt. The others are held for a short time, until `Begin`. A job whose last claim
    was lost (`Job.lost`) is not held: it begins at once or is left. Of those with `Job.lost` 2 at most `suspects` are
    claimed. Of the bodies `bytes` are claimed at most: with the first that exceeds them all the rest are left, but one
    is claimed whatever its size. With limits nothing is held: of those that they let through the first `begin`
    are claimed, and the rest are left.
    """

    topic: str
    ids: tuple[int, ...]
    policy: ClaimPolicy
    worker: str
    begin: int
    suspects: int = 1
    bytes: int = 64 << 20
    limit: int = 0
    after: tuple[int | None, int, int] | None = None  # priority, due, id; without a priority it holds in each of them
    without: tuple[int, ...] = ()


@dataclass(slots=True)
class Begin(Command[bool]):
    """A handler has begun, or goes on: the attempt counts, and the lease ends at now + ttr or later.

    It is never shortened: the handler may have touched it meanwhile. Outcome: whether this very claim held the job
    (now < lease_until).
    """

    id: int
    claims: int
    ttr: int


@dataclass(slots=True)
class Ack(Command[bool]):
    """Make a running job done, begun or held. Outcome: whether this very claim held it; False changes nothing.

    A `result`, up to RESULT_MOST bytes, is kept with the attempt that this ends, until the job is retried by hand or
    forgotten.
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
    """Let a claim's lease end at now + ttr. Outcome: whether this very claim held it."""

    id: int
    claims: int
    ttr: int


class Expired(NamedTuple):
    """Outcome of Expire."""

    ended: int
    next_lease: int | None  # the earliest end of a lease that is not over
    dead: tuple[int, ...] = ()  # the ids, ascending, of the jobs that are dead by it


@dataclass(slots=True)
class Expire(Command[Expired]):
    """End up to `limit` claims whose lease is over (now >= lease_until). Outcome: Expired.

    What becomes of such a job says `lifecycle.lost`. Every other command and every reading method treats it so from the
    lease's end on, whether or not this was applied: `next_dues` and `first_due` alone do not know it before.

    Whichever command ends such a claim, if the job is dead by it a note says so to the workers of its topic, who are
    woken: `Store.died`.
    """

    limit: int


# ---- workers --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Announce(Command[None]):
    """Say which topics a worker handles, instead of those it said before; without any it is gone. Outcome: None.

    Who owns which shard follows from what all have announced: `stores.ownership`. The others are woken.
    """

    worker: str
    topics: tuple[str, ...]
