"""What a transaction must read and lock before its commands can be decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...jobs import commands as c
from ...jobs.job import State
from ...jobs.limits import LOOKED_PAST
from ..checks import clamped, in_range

__all__ = ["Name", "Wanted"]

Name = tuple[str, str]  # a topic and a key

_ENDING: Final = (c.Ack, c.Nack, c.Release)
_MOST: Final = 10_000  # leases that one transaction ends because others ask for jobs


class Wanted:
    """What commands name. Jobs are looked for only where they can be, and matter."""

    def __init__(self, commands: Sequence[c.Command[Any]] = ()) -> None:
        self.claimed: set[int] = set()  # delayed, with their bodies, or with a lease that is over
        self.looked: set[int] = set()  # the same under a limit: they are looked at before any is locked
        self.settled: set[int] = set()  # running
        self.anywhere: set[int] = set()
        self.holders: set[Name] = set()  # the live jobs that have these keys
        self.named: set[Name] = set()  # all jobs that may be meant by them
        self.rewritten: set[int] = set()  # among `anywhere`: their bodies matter
        self.results: set[int] = set()  # among `anywhere`: their results matter
        self.retried: set[int] = set()  # among `anywhere`: whoever has their keys matters too
        self.topics: set[str] = set()  # whether they are paused
        self.pauses = False
        self.reserved: Counter[str] = Counter()  # so many that are due of a topic, with their bodies
        self.expired = 0  # so many whose lease is over
        self.purged: list[c.Purge] = []
        self.nonces: set[str] = set()
        self.notes: set[str] = set()
        self.limited: set[str] = set()  # topics of which it matters what else runs
        self.guarded = False  # whether their notes are locked at once
        self.ended = sum(type(command) in _ENDING for command in commands)  # claims: so many places may come free
        self.next_lease = False
        for command in commands:
            _WANTS[type(command)](self, command)
        for topic in self.reserved:  # some may be taken or moved by the other commands
            self.reserved[topic] += len(commands)

    def ref(self, ref: c.Ref) -> None:
        """Want the job that a reference means."""
        if isinstance(ref, tuple):
            self.named.add(ref)
        elif in_range(ref):
            self.anywhere.add(ref)

    def put(self, command: c.Put) -> None:
        """Want those whose keys are wanted, and those that had them where that matters."""
        self.holders.update([(job.topic, job.key) for job in command.jobs if job.key is not None])
        looking = (job for job in command.jobs if job.dedupe_for is not None)
        self.named.update([(job.topic, job.key) for job in looking if job.key is not None])
        self.topics.update([job.topic for job in command.jobs if job.priority])
        if command.nonce is not None:
            self.nonces.add(command.nonce)

    def imports(self, command: c.Import) -> None:
        """Want those whose keys are wanted."""
        self.put(c.Put(tuple(one.new for one in command.jobs if one.holds_key), command.nonce))
        self.topics.update([one.job.topic for one in command.jobs if one.job.priority])

    def retry(self, command: c.Retry) -> None:
        """Want a job, and who has its key."""
        self.ref(command.ref)
        if isinstance(command.ref, int):
            self.retried.add(command.ref)

    def rewrite(self, command: c.Rewrite) -> None:
        """Want a job with its body."""
        if in_range(command.id):
            self.anywhere.add(command.id)
            (self.rewritten if command.claim is None else self.results).add(command.id)

    def pause(self, command: c.Pause) -> None:
        """Want a topic."""
        self.topics.add(command.topic)
        self.pauses = True

    def purge(self, command: c.Purge) -> None:
        """Want finished jobs."""
        self.purged.append(command)
        if command.state is State.DEAD:
            self.expired = _MOST

    def reserve(self, command: c.Reserve) -> None:
        """Want what is due of a topic."""
        self.topics.add(command.topic)
        most = max(clamped(command.limit), 0)
        self.reserved[command.topic] += most if command.terms.limits is None else max(most, LOOKED_PAST)
        self.expired = _MOST
        if command.terms.limits is not None:
            self.limited.add(command.topic)
            self.guarded = True

    def claim(self, command: c.Claim) -> None:
        """Want the jobs named."""
        self.topics.add(command.topic)
        ids = list(filter(in_range, command.ids))
        if command.terms.limits is not None:
            most, per, every, _ = command.terms.limits
            first = max(min(command.begin, self.ended, most or command.begin), 0)
            if most is not None and most >= len(ids) and per is None and not every:
                first = len(ids)  # the limit has room for all of them, unless others run too
            self.limited.add(command.topic)
            self.looked.update(ids[first:])
            self.guarded |= first > 0
            ids = ids[:first]  # these are likely to begin
        self.claimed.update(ids)

    def settle(self, command: c.Ack | c.Nack | c.Release | c.Begin | c.Touch) -> None:
        """Want a running job."""
        if in_range(command.id):
            self.settled.add(command.id)

    def expire(self, command: c.Expire) -> None:
        """Want those whose lease is over."""
        self.expired = max(self.expired, min(clamped(command.limit), _MOST))
        self.next_lease = True


_WANTS: Final[dict[type, Callable[[Wanted, Any], None]]] = {
    c.Put: Wanted.put,
    c.Import: Wanted.imports,
    c.Cancel: lambda wanted, command: wanted.ref(command.ref),
    c.Reschedule: lambda wanted, command: wanted.ref(command.ref),
    c.Delete: lambda wanted, command: wanted.ref(command.ref),
    c.Retry: Wanted.retry,
    c.Rewrite: Wanted.rewrite,
    c.Pause: Wanted.pause,
    c.Purge: Wanted.purge,
    c.Keep: lambda wanted, command: wanted.notes.add(command.name),
    c.Reserve: Wanted.reserve,
    c.Claim: Wanted.claim,
    c.Begin: Wanted.settle,
    c.Touch: Wanted.settle,
    c.Ack: Wanted.settle,
    c.Nack: Wanted.settle,
    c.Release: Wanted.settle,
    c.Expire: Wanted.expire,
    c.Announce: lambda wanted, command: None,  # noqa: ARG005
}
