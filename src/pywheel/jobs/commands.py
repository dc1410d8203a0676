"""The commands that change a store. A store applies a list of them in one transaction, each of them all or nothing.

The classes say what a command does and what its outcome is; `contract.Store.apply` says what holds for all.
A *reference* is an id, or a pair (topic, key) that stands for the live job with that key or, without one, the latest
finished one. A *receipt* is a pair (id, claims) of a claimed job. `now` is the store's clock while it applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .job import NewJob, State

__all__ = [
    "Ack",
    "Cancel",
    "Claim",
    "Expire",
    "Expired",
    "Hold",
    "Leave",
    "Nack",
    "Op",
    "Pause",
    "Purge",
    "Put",
    "Ref",
    "Release",
    "Reschedule",
    "Reserve",
    "Retry",
    "Terms",
    "Touch",
]

Ref = int | tuple[str, str]


class Terms(NamedTuple):
    """On what terms jobs are claimed; the job's own `ttr` and `max_attempts` come first."""

    ttr: int  # the lease is until now + ttr
    max_attempts: int
    backoff: tuple[int, ...] = ()
    """If attempt n loses its lease, the job is due backoff[n-1], or the last, after the lease's end; () is 0."""


class Put(NamedTuple):
    """Store new jobs, all or none. Outcome: their ids, in order, growing. O(log jobs) each.

    JobExists if a key is taken by a live job, unless its `replace` is set and that job is delayed: then that job takes
    the new body, due time, ttr, max_attempts and headers, and keeps its id and its attempts.
    """

    jobs: tuple[NewJob, ...]


class Cancel(NamedTuple):
    """Make a delayed job cancelled. Outcome: whether it was one. After True it is never delivered again."""

    ref: Ref


class Reschedule(NamedTuple):
    """Give a delayed job another due time. Outcome: whether it was one."""

    ref: Ref
    due: int


class Retry(NamedTuple):
    """Make a finished job delayed again, with all its attempts. Outcome: whether it was one.

    JobExists if its key belongs to another live job by now.
    """

    ref: Ref
    due: int


class Reserve(NamedTuple):
    """Claim up to `limit` due jobs of a topic, ordered by (due, id). Outcome: list of Job, running.

    Each gets attempt + 1 and a lease. A claim is exclusive: of several who try, one gets the job. Jobs whose lease is
    over are expired first. A paused topic gives none.
    """

    topic: str
    limit: int
    terms: Terms
    worker: str


class Claim(NamedTuple):
    """Claim these jobs, for a worker that knows them from a window. Outcome: list of Job, ordered by (due, id).

    Left out are those that are no longer delayed, not due by now, of another topic or of a paused one, and those in a
    shard that `epochs` does not list with its present epoch: a worker that slept through its lease claims nothing.
    """

    ids: tuple[int, ...]
    topic: str
    terms: Terms
    worker: str
    epochs: Mapping[int, int]


class Ack(NamedTuple):
    """Make a running job done. Outcome: whether this very claim held it (now < lease_until); False changes nothing."""

    id: int
    claims: int


class Nack(NamedTuple):
    """End a claim without success: due again at now + delay, or dead if no attempt is left or `delay` is None.

    Outcome: the new State, or None if this very claim did not hold it, and nothing is changed.
    """

    id: int
    claims: int
    delay: int | None
    error: str | None = None


class Release(NamedTuple):
    """Give a claim back: delayed again, due as before, no attempt spent. Outcome: whether this very claim held it."""

    id: int
    claims: int


class Touch(NamedTuple):
    """Let a claim's lease end at now + ttr. Outcome: whether this very claim held it."""

    id: int
    claims: int
    ttr: int


class Expired(NamedTuple):
    """Outcome of Expire."""

    lost: list[tuple[int, str, State]]  # (id, topic, the state it is in now)
    next_lease: int | None  # the earliest end of a lease that is not over


class Expire(NamedTuple):
    """End up to `limit` claims whose lease is over (now >= lease_until). Outcome: Expired.

    Such a job is due at lease_until + backoff, or dead if no attempt is left. Every other command and every reading
    method treats it so from the lease's end on, whether or not this was applied: `window` alone does not list it
    before.
    """

    limit: int


class Pause(NamedTuple):
    """Keep the jobs of a topic from being claimed, or let them go again. Outcome: whether that changed anything."""

    topic: str
    paused: bool


class Purge(NamedTuple):
    """Forget up to `limit` finished jobs of a state that ended at or before `before`, and their history.

    Outcome: how many. `topic` None means all.
    """

    state: State
    before: int
    topic: str | None
    limit: int


class Hold(NamedTuple):
    """Renew a worker's lease on its shards until now + lease, and let it have its fair share of them.

    Shards that nobody holds, or whose holder's lease is over (or whose holder is known to be dead), go to the worker
    until it has its share, each with its epoch grown by one; shards beyond its share are given up once another worker
    waits. A first Hold, and one that gives shards up, sets `reload` in the hints: the others hold anew, and give up or
    take. Outcome: dict of shard -> epoch, all it holds now.
    """

    worker: str
    lease: int


class Leave(NamedTuple):
    """Give up all shards of a worker; the others' hints have `reload` set. Outcome: None."""

    worker: str


Op = (
    Put
    | Cancel
    | Reschedule
    | Retry
    | Reserve
    | Claim
    | Ack
    | Nack
    | Release
    | Touch
    | Expire
    | Pause
    | Purge
    | Hold
    | Leave
)
