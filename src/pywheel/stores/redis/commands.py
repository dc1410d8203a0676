"""Commands as arguments of a function, and their outcomes from what it answers: by one table, `_ONE`, and two groups.

Most commands go one by one, as their name and their fields in JSON. Plain puts that follow each other go together, and
so do those that end or extend claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from ..._errors import JobExists, NonceTaken
from ...jobs import commands as c
from ...jobs.job import Due, Imported, NewJob
from ...jobs.limits import LOOKED_PAST, note_of
from ..checks import lately, same_ids, storable
from .connection import as_json, encoded, one
from .records import (
    PLAIN,
    STATES,
    from_id,
    jobs_of,
    known,
    packed_job,
    packed_past,
    place_after,
    plain_start,
    receipt,
    score,
    to_id,
)

__all__ = ["SETTLES", "FurtherClaim", "Request"]

_MANY: Final = 2**31 - 1
_LANE: Final = itemgetter(NewJob._fields.index("topic"), NewJob._fields.index("priority"))
"""Topic and priority of a new job."""
_EXISTS, _TWICE, _LATELY = -1, -2, -3  # no ids, which several stores note as less than these


class FurtherClaim(c.Claim):
    """The rest of a claim that has got a job already: no body is claimed beyond its `bytes`."""

    __slots__ = ()


class Request:
    """Some commands as one call."""

    __slots__ = ("_learn", "announces", "arguments", "count", "function")

    def __init__(self, commands: Sequence[c.Command[Any]]) -> None:
        self.arguments: list[bytes] = []
        """As they are sent, for `function`."""
        self.count = 0
        """How many they are."""
        self._learn: list[Callable[[Iterator[Any]], list[Any]]] = []
        """Each takes from the answer what belongs to some commands, and returns their outcomes."""
        self.function = "settle"
        self.announces = False
        """Whether the list of workers changes."""
        if len(commands) == 1 and _is_plain(commands[0]) and len(commands[0].jobs) == 1:  # type: ignore[attr-defined]
            self._put_alone(commands[0].jobs[0])  # type: ignore[attr-defined]
            return
        for kind, some in groupby(commands, type):
            same: list[Any] = list(some)
            if kind is c.Put:
                for plain, puts in groupby(same, _is_plain):
                    (self._put if plain else self._one_by_one)(list(puts))
            elif kind in SETTLES:
                self._settle(kind, same)
            else:
                self._one_by_one(same)

    def _add(self, *values: bytes) -> None:
        self.arguments.append(encoded(values))
        self.count += len(values)

    def outcomes(self, answer: Any) -> list[Any]:
        """Return the outcomes of the commands, in order."""
        if self.function == "put":
            return [[answer]]
        answers = iter(answer)
        return [outcome for learn in self._learn for outcome in learn(answers)]

    def _one_by_one(self, commands: list[Any]) -> None:
        name, encode, decode = _ONE[type(commands[0])]
        if any(_grows(command) for command in commands):
            self.function = "apply"
        self.announces |= name == b"announce"
        for command in commands:
            self._add(name, *encode(command))
        self._learn.append(lambda answers: [decode(command, next(answers)) for command in commands])

    def _put_alone(self, job: NewJob) -> None:
        if job.priority:
            self._put([c.Put((job,))])
            return
        self.function = "put"
        self._add(job.topic.encode(), _when(job), packed_job(job))

    def _put(self, commands: Sequence[Any]) -> None:
        """Add plain jobs. On the way of every put, so it is written to be quick."""
        jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
        sizes = [len(command.jobs) for command in commands]
        if not jobs:
            self._learn.append(lambda _: [[] for _ in sizes])
            return
        self.function = "apply"
        pieces = self.arguments
        pieces.append(b"$3\r\nput\r\n" + one(b"%d" % len(jobs)))
        self.count += 2
        for (topic, priority), some in groupby(jobs, _LANE):
            same = list(some)
            self._add(topic.encode(), b"%d" % priority, b"%d" % len(same))
            start = plain_start(topic)
            for job in same:
                when, body = _when(job), job.body
                if job.kept != PLAIN:
                    pieces.append(encoded((when, packed_job(job))))
                else:
                    size = len(start) + len(body)
                    pieces.append(b"$%d\r\n%b\r\n$%d\r\n%b%b\r\n" % (len(when), when, size, start, body))
            self.count += 2 * len(same)
        self._learn.append(lambda answers: _shared_out(next(answers), sizes))

    def _settle(self, kind: type, commands: list[Any]) -> None:
        """Ends of claims, and new leases: those of a kind together."""
        receipts = b"".join([receipt(command.id, command.claims) for command in commands])
        if kind is c.Nack:
            ends = [_given(delay=command.delay, error=storable(command.error)) for command in commands]
            self._add(b"nack", as_json(ends), receipts)
        elif kind is not c.Ack:
            ttrs = (as_json([command.ttr for command in commands]),) if kind is not c.Release else ()
            self._add(kind.__name__.lower().encode(), *ttrs, receipts)
        elif any(command.result is not None for command in commands):
            self.function = "apply"
            self._add(b"ack_with_results", receipts, *(_maybe(b"r", command.result) for command in commands))
        else:
            self._add(b"ack", receipts)
        read = _STATES_AFTER.__getitem__ if kind is c.Nack else bool
        self._learn.append(lambda answers: list(map(read, next(answers))))


def _shared_out(first: int, sizes: Sequence[int]) -> list[list[int]]:
    """Return the ids of each command's jobs, which follow each other."""
    found = []
    for size in sizes:
        found.append(list(range(first, first + size)))
        first += size
    return found


def _is_plain(command: Any) -> bool:
    """Whether it is a put that has no nonce, and its jobs no keys."""
    return type(command) is c.Put and command.nonce is None and not [job for job in command.jobs if job.key is not None]


def _grows(command: Any) -> bool:
    """Whether it stores something new: that is refused where no memory is left."""
    return isinstance(command, c.Put | c.Import) or (type(command) is c.SetNote and command.value is not None)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _maybe(mark: bytes, value: bytes | None) -> bytes:
    return b"" if value is None else mark + value


def _when(job: NewJob) -> bytes:
    return b"%d" % job.due if job.delay is None else b"d%d" % job.delay


# ---- what is sent ---------------------------------------------------------------------------------------------------


def _fields(command: Any) -> tuple[bytes, ...]:
    """Return all fields of a command, as JSON."""
    return (as_json({name: getattr(command, name) for name in command.__slots__}),)


def _put_fields(command: c.Put) -> Iterator[bytes]:
    yield as_json(_given(nonce=command.nonce, fingerprint=_fingerprint(command), jobs=len(command.jobs)))
    for job in command.jobs:
        how = _given(replace=job.replace or None, parent=job.parent, dedupe=job.dedupe_for)
        yield from (_when(job), packed_job(job), as_json(how) if how else b"", b"")


def _fingerprint(command: c.Put) -> str | None:
    return None if command.fingerprint is None else f"m{command.fingerprint}"  # never a number


def _import_fields(command: c.Import) -> Iterator[bytes]:
    yield as_json(_given(nonce=command.nonce, jobs=len(command.jobs)))
    for imported in command.jobs:
        passed = None if imported.holds_key else True
        how = _given(created=imported.job.created, passed=passed, past=packed_past(imported))
        yield from (b"%d" % imported.job.due, packed_job(imported.new), as_json(how), _maybe(b"r", imported.result))


def _rewrite_fields(command: c.Rewrite) -> tuple[bytes, ...]:
    return as_json(_given(id=command.id, claim=command.claim)), command.old, command.new


def _keep_fields(command: c.SetNote) -> tuple[bytes, ...]:
    fields = _given(name=command.name, ttl=command.ttl, absent=command.absent, value=command.value is not None)
    return as_json(fields), command.value or b""


def _claim_fields(command: c.Claim) -> tuple[bytes, ...]:
    after = None if command.after is None else place_after(*command.after)
    ids = [to_id(id) for id in dict.fromkeys(command.ids) if known(id)]
    fields = _policy(command) | _given(
        begin=command.begin,
        suspects=command.suspects,
        bytes=command.bytes,
        least=int(type(command) is c.Claim),
        limit=command.limit,
        after=after,
        by_ids=command.limit <= 0,
        reserves=0,
    )
    return as_json(fields), b"".join(ids), b"".join([to_id(id) for id in command.without if known(id)])


def _reserve_fields(command: c.Reserve) -> tuple[bytes, ...]:
    """Return a claim of the first jobs that begins them all."""
    fields = _policy(command) | _given(
        begin=command.limit,
        suspects=_MANY,
        bytes=command.bytes,
        least=max(command.least, 0),
        limit=command.limit if command.policy.limits is None else max(command.limit, LOOKED_PAST),
        by_ids=False,
        reserves=1,
    )
    return as_json(fields), b"", b""


def _policy(command: c.Claim | c.Reserve) -> dict[str, Any]:
    policy = command.policy
    limits = None if policy.limits is None else _given(**policy.limits._asdict(), note=note_of(command.topic))
    return {"topic": command.topic, "worker": command.worker, **_given(**policy._asdict() | {"limits": limits})}


# ---- what is answered -----------------------------------------------------------------------------------------------


def _ids(command: c.Put | c.Import, answer: Any) -> Any:
    """Return the ids of jobs, or why there are none."""
    if not answer or answer[0] not in (_EXISTS, _TWICE, _LATELY):
        try:
            return same_ids(answer, _fingerprint(command) if isinstance(command, c.Put) else None)
        except NonceTaken as taken:
            return taken
    code, holder, place, *ago = answer
    job: Imported | NewJob = command.jobs[place]
    new = job.new if isinstance(job, Imported) else job
    key = new.key or ""
    if code == _LATELY:
        return lately(holder, key, ago[0], new.dedupe_for)
    if code == _TWICE:
        return JobExists(f"two of the jobs put have the key {key[:80]!r}", 0)
    return JobExists(f"job {holder} has the key {key[:80]!r} already and is live", holder)


def _changed(_: Any, answer: Any) -> bool | JobExists:
    """Return whether something changed, or who has the key."""
    if isinstance(answer, list):
        return JobExists(f"job {answer[1]} has this key now and is live", answer[1])
    return bool(answer)


def _claimed(command: c.Claim, answer: Any) -> c.Claimed:
    paused, begun, again, coming, left, taken = answer
    each = iter(left)
    others, full = [], []
    for packed, due, priority, group in zip(each, each, each, each, strict=True):
        others.append(Due(due, from_id(packed), command.topic, priority))
        if group is not None:
            full.append((from_id(packed), group.decode()))
    first = None if coming is None else score(coming)
    return c.Claimed(
        jobs_of(taken),
        begun,
        others,
        paused=bool(paused),
        again=int(again) if again else None,
        full=tuple(full),
        next=first,
    )


def _expired(_: Any, answer: Any) -> c.Expired:
    ended, first, dead = answer
    return c.Expired(ended, score(first) if first else None, tuple(sorted(map(from_id, dead))))


_STATES_AFTER: Final = dict(enumerate(STATES)) | {-1: None}
"""By what is answered to a nack; None if its receipt was void."""
SETTLES: Final = frozenset((c.Ack, c.Nack, c.Release, c.Touch, c.Begin))
"""Those that go by receipts, many at once."""
_ONE: Final[dict[type, tuple[bytes, Callable[[Any], Any], Callable[[Any, Any], Any]]]] = {
    c.Put: (b"put_keyed", _put_fields, _ids),
    c.Import: (b"put_keyed", _import_fields, _ids),
    c.Cancel: (b"cancel", _fields, _changed),
    c.Reschedule: (b"reschedule", _fields, _changed),
    c.Retry: (b"retry", _fields, _changed),
    c.Delete: (b"delete", _fields, _changed),
    c.Rewrite: (b"rewrite", _rewrite_fields, _changed),
    c.Pause: (b"pause", _fields, _changed),
    c.Purge: (b"purge", _fields, lambda _, answer: answer),
    c.SetNote: (b"keep", _keep_fields, lambda _, answer: answer[0] if answer else None),
    c.Reserve: (b"claim", _reserve_fields, lambda _, answer: jobs_of(answer[5])),
    c.Claim: (b"claim", _claim_fields, _claimed),
    FurtherClaim: (b"claim", _claim_fields, _claimed),
    c.Expire: (b"expire", _fields, _expired),
    c.Announce: (b"announce", _fields, lambda _, __: None),
}
"""The function in Lua, what it is given, and the outcome by the command and the answer."""
