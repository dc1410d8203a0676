"""Commands as arguments of a function, and their outcomes from its answer: by one table, `_ONE`, and two groups.

Most commands go one by one, as their name and their fields in JSON. Plain puts that follow each other go together, and
so do commands that end or extend claims.

Large commands go by several calls: the server answers others in between. Each call is complete in itself: claims that
it made or ended stay so, whether or not the next one comes. If the server goes away between two calls, the outcome of
each command that was not sent is the StoreError. A client that dies there leaves claims that it never saw, as one that
dies before an answer does; their leases end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile
from operator import itemgetter
from struct import pack
from typing import Any, Final

from ..._errors import JobExists, NonceTaken, StoreError
from ...jobs import commands as c
from ...jobs.job import OF_NEW_JOB, Due, NewJob
from ...jobs.lifecycle import LOST_BEGUN
from ...jobs.limits import looked_at, note_of
from ..checks import held, lately, same_ids, storable, twice
from . import records
from .connection import as_json, encoded, given
from .records import STATES, from_id, jobs_of, packed_job, score, to_ids

PIECE: Final = 250
"""The most jobs of one call, which takes some ms then: leases it ends, jobs it claims or forgets."""
_MANY: Final = 2**31 - 1
_ALIKE: Final = itemgetter(NewJob._fields.index("topic"), OF_NEW_JOB)
"""The common part of new jobs that go together: their topic, and the values of FIELDS."""
_EXISTS, _TWICE, _LATELY = -1, -2, -3  # no ids: `partitions` notes ids as -4 and less
_SETTLES: Final = frozenset((c.Ack, c.Nack, c.Release, c.Touch, c.Begin))
"""The commands that go by receipts, many at once."""


class _FurtherClaim(c.Claim):
    """The rest of a claim that has got a job already: no job is claimed whose body exceeds its `bytes`."""

    __slots__ = ()


@dataclass(slots=True)
class _FurtherPurge(c.Purge):
    """The rest of a purge, of jobs that ended by a time: that of its first piece."""

    last: str


class _Purged(int):
    """The number of jobs that a piece of a purge deleted, and if there may be more, `last` of the next piece."""

    last: str | None


class Request:
    """Some commands as one call."""

    __slots__ = ("_learn", "announces", "arguments", "count", "function")

    def __init__(self, commands: Sequence[c.Command[Any]]) -> None:
        self.arguments: list[bytes] = []
        """The encoded arguments of `function`."""
        self.count = 0
        """The number of arguments."""
        self._learn: list[Callable[[Iterator[Any]], list[Any]]] = []
        """Functions that take their commands' part of the answer, and return the outcomes."""
        self.function = "settle"
        self.announces = False
        """Whether the list of workers changes."""
        first: Any = commands[0]
        if len(commands) == 1 and _is_plain(first) and len(first.jobs) == 1 and not first.jobs[0].priority:
            [job] = first.jobs
            self.function = "put"
            self._add(job.topic.encode(), _when(job), packed_job(job))
            self._learn.append(lambda answers: [[next(answers)]])
            return
        for kind, some in groupby(commands, type):
            same: list[Any] = list(some)
            if kind is c.Put:
                for plain, puts in groupby(same, _is_plain):
                    (self._put if plain else self._one_by_one)(list(puts))
            elif kind in _SETTLES:
                self._settle(kind, same)
            else:
                self._one_by_one(same)

    def _add(self, *values: bytes) -> None:
        self.arguments.append(encoded(values))
        self.count += len(values)

    def outcomes(self, answer: Any) -> list[Any]:
        """Return the outcomes of the commands, in order."""
        answers = iter((answer,) if self.function == "put" else answer)
        return [outcome for learn in self._learn for outcome in learn(answers)]

    def _one_by_one(self, commands: list[Any]) -> None:
        name, encode, decode = _ONE[type(commands[0])]
        if name == b"put_keyed":
            self.function = "apply"  # the server refuses it when it has no memory left; workers need their notes then
        self.announces |= name == b"announce"
        for command in commands:
            self._add(name, *encode(command))
        self._learn.append(lambda answers: [decode(command, next(answers)) for command in commands])

    def _put(self, commands: Sequence[Any]) -> None:
        """Add plain jobs. Every put passes here, so the code is written for speed."""
        jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
        sizes = [len(command.jobs) for command in commands]
        self.function = "apply"
        pieces = self.arguments
        self._add(b"put", b"%d" % len(jobs))
        for (topic, kept), some in groupby(jobs, _ALIKE):
            same = list(some)
            whens: list[int] = []
            for job in same:
                whens += (1, job.due) if job.delay is None else (0, job.delay)
            head = topic.encode(), b"%d" % same[0].priority, b"%d" % len(same), records.start_of(topic, kept)
            self._add(*head, pack(">" + len(same) * "Bd", *whens))
            pieces += [b"$%d\r\n%b\r\n" % (len(job.body), job.body) for job in same]
            self.count += len(same)
        self._learn.append(lambda answers: _shared_out(next(answers), sizes))

    def _settle(self, kind: type, commands: list[Any]) -> None:
        """Add ends of claims, or new leases, all of one kind."""
        receipts = b"".join([records.receipt(command.id, command.claims) for command in commands])
        asked: Any = 0
        results: list[bytes] = []
        if kind is c.Nack:
            asked = [given(delay=command.delay, error=storable(command.error)) for command in commands]
        elif kind in {c.Touch, c.Begin}:
            asked = [command.ttr for command in commands]
        elif kind is c.Ack and any(command.result is not None for command in commands):
            results = [_maybe(command.result) for command in commands]
            asked = len(results)
        self._add(kind.__name__.lower().encode(), as_json(asked), receipts, *results)
        read = _STATES_AFTER.__getitem__ if kind is c.Nack else bool
        self._learn.append(lambda answers: list(map(read, next(answers))))


def _shared_out(first: int, sizes: Sequence[int]) -> list[list[int]]:
    """Return the ids of each command's jobs. All ids follow each other."""
    firsts = accumulate(sizes, initial=first)
    return [list(range(first, first + size)) for first, size in zip(firsts, sizes, strict=False)]


def _is_plain(command: Any) -> bool:
    """Whether a command is a put without a nonce, of jobs without keys."""
    return type(command) is c.Put and command.nonce is None and not [job for job in command.jobs if job.key is not None]


def _maybe(result: bytes | None) -> bytes:
    return b"" if result is None else b"r" + result


def _when(job: NewJob) -> bytes:
    return b"%d" % job.due if job.delay is None else b"d%d" % job.delay


# ---- what is sent ---------------------------------------------------------------------------------------------------


def _fields(command: Any) -> tuple[bytes, ...]:
    """Return all fields of a command, as JSON."""
    return (as_json(given(**{name: getattr(command, name) for name in command.__match_args__})),)


def _put_fields(command: c.Put) -> Iterator[bytes]:
    yield as_json(given(nonce=command.nonce, fingerprint=_fingerprint(command), jobs=len(command.jobs)))
    for job in command.jobs:
        how = given(replace=job.replace or None, parent=job.parent, dedupe=job.dedupe_for)
        yield from (_when(job), packed_job(job), as_json(how) if how else b"", b"")


def _fingerprint(command: Any) -> str | None:
    kept = getattr(command, "fingerprint", None)  # an import has none
    return None if kept is None else f"m{kept}"  # never a number


def _import_fields(command: c.Import) -> Iterator[bytes]:
    yield as_json(given(nonce=command.nonce, jobs=len(command.jobs)))
    for imported in command.jobs:
        passed = None if imported.holds_key else True
        how = given(created=imported.job.created, passed=passed, past=records.packed_past(imported))
        yield from (b"%d" % imported.job.due, packed_job(imported.new), as_json(how), _maybe(imported.result))


def _edit_fields(command: c.Edit) -> tuple[bytes, ...]:
    """Return an edit's fields as JSON, with the job's fields as JSON texts in it: '' for the value of a plain job."""
    fields = {
        name: as_json(dict(value) if isinstance(value, Mapping) else value).decode() if value else ""
        for name, value in command.fields.items()
    }
    asked = given(ref=command.ref, due=command.due, delay=command.delay, expect=command.expect, fields=fields or None)
    return as_json(asked), _maybe(command.body)


def _rewrite_fields(command: c.Rewrite) -> tuple[bytes, ...]:
    return as_json(given(id=command.id, claim=command.claim)), command.old, command.new


def _keep_fields(command: c.SetNote) -> tuple[bytes, ...]:
    fields = given(name=command.name, ttl=command.ttl, absent=command.absent, value=command.value is not None)
    return as_json(fields), command.value or b""


def _claim_fields(command: c.Claim) -> tuple[bytes, ...]:
    by_ids, least = command.limit <= 0, int(type(command) is not _FurtherClaim)
    after = None if command.after is None else records.place_after(*command.after)
    asked = {"begin": command.begin, "suspects": max(command.suspects, 0), "least": least, "limit": command.limit}
    some = dict.fromkeys(command.ids) if by_ids else command.without
    return _claim(command, **asked, after=after, by_ids=by_ids), to_ids(some)


def _reserve_fields(command: c.Reserve) -> tuple[bytes, ...]:
    """Return a claim of the first jobs that begins them all."""
    limit = looked_at(command.limit, command.policy.limits)
    least = max(command.least, 0)
    return _claim(command, begin=command.limit, suspects=_MANY, least=least, limit=limit, reserves=True), b""


def _claim(command: c.Claim | c.Reserve, **asked: Any) -> bytes:
    policy = command.policy._asdict()
    if command.policy.limits is not None:
        policy["limits"] = given(**command.policy.limits._asdict(), note=note_of(command.topic))
    return as_json(given(topic=command.topic, worker=command.worker, bytes=command.bytes, **policy, **asked))


# ---- what is answered -----------------------------------------------------------------------------------------------


def _ids(command: c.Put | c.Import, answer: Any) -> Any:
    """Return the ids of jobs, or the reason why there are none."""
    if not answer or answer[0] not in (_EXISTS, _TWICE, _LATELY):
        try:
            return same_ids(answer, _fingerprint(command))
        except NonceTaken as taken:
            return taken
    code, holder, place, *ago = answer
    job = command.jobs[place]
    new = job if isinstance(job, NewJob) else job.new
    if code == _LATELY:
        return lately(holder, new.key, ago[0], new.dedupe_for)
    return twice(new.key) if code == _TWICE else held(holder, new.key)


def _change(_: Any, answer: Any) -> c.Change | JobExists:
    """Return the outcome of a change, or the refusal with the key's holder."""
    if isinstance(answer, list):
        return JobExists(f"job {answer[1]} has this key now and is live", answer[1])
    return _CHANGES[answer]


def _claimed(command: c.Claim, answer: Any) -> c.Claimed:
    paused, begun, again, coming, left, taken = answer
    each = iter(left)
    others, full = [], []
    for packed, due, priority, group in zip(each, each, each, each, strict=True):
        others.append(Due(due, from_id(packed), command.topic, priority))
        if group is not None:
            full.append((from_id(packed), group.decode()))
    first, again = None if coming is None else score(coming), int(again) if again else None
    return c.Claimed(jobs_of(taken), begun, others, bool(paused), again, tuple(full), first)


def _expired(_: Any, answer: Any) -> c.Expired:
    ended, first, dead = answer
    return c.Expired(ended, score(first) if first else None, tuple(sorted(map(from_id, dead))))


def _purged(_: Any, answer: Any) -> _Purged:
    gone, *last = answer
    purged = _Purged(gone)
    purged.last = last[0].decode() if last else None
    return purged


_CHANGES: Final = {
    **{code: c.Change(state) for code, state in enumerate(STATES)},
    -1: c.Change.MADE,
    -2: c.Change.NOT_FOUND,
    -3: c.Change.CHANGED,
}
"""The outcomes of a change by hand, by the answer."""
_STATES_AFTER: Final = dict(enumerate(STATES)) | {-1: None}
"""The outcomes of a nack, by the answer; None if its receipt was void."""
_ONE: Final[dict[type, tuple[bytes, Callable[[Any], Any], Callable[[Any, Any], Any]]]] = {
    c.Put: (b"put_keyed", _put_fields, _ids),
    c.Import: (b"put_keyed", _import_fields, _ids),
    c.Cancel: (b"cancel", _fields, _change),
    c.Edit: (b"edit", _edit_fields, _change),
    c.Retry: (b"retry", _fields, _change),
    c.Delete: (b"delete", _fields, _change),
    c.Rewrite: (b"rewrite", _rewrite_fields, lambda _, answer: bool(answer)),
    c.Pause: (b"pause", _fields, lambda _, answer: bool(answer)),
    c.Purge: (b"purge", _fields, _purged),
    _FurtherPurge: (b"purge", _fields, _purged),
    c.SetNote: (b"keep", _keep_fields, lambda _, answer: answer[0] if answer else None),
    c.Reserve: (b"claim", _reserve_fields, lambda _, answer: jobs_of(answer[5])),
    c.Claim: (b"claim", _claim_fields, _claimed),
    _FurtherClaim: (b"claim", _claim_fields, _claimed),
    c.Expire: (b"expire", _fields, _expired),
    c.Announce: (b"announce", _fields, lambda _, __: None),
}
"""The function in Lua, its arguments from the command, and the outcome from command and answer."""


# ---- several calls --------------------------------------------------------------------------------------------------

_CLAIMS: Final = (c.Reserve, c.Claim)
_LONG: Final = (c.Expire, c.Purge, *_CLAIMS)
_Apply = Callable[[Sequence[c.Command[Any]]], list[Any]]


def by_pieces(apply: _Apply, commands: Sequence[c.Command[Any]]) -> list[Any]:
    """Apply commands. The rest of large ones follows after all of them, each piece by a call of its own."""
    ends: list[c.Command[Any]] = []  # of claims, by calls of their own: claims may follow that are large
    much = sum(min(getattr(one, "limit", 1), PIECE) for one in commands) > PIECE
    if much and all(type(one) in _SETTLES or isinstance(one, _CLAIMS) for one in commands):
        ends += takewhile(lambda one: type(one) in _SETTLES, commands)
    rest = commands[len(ends) :]
    firsts = [_piece(command) for command in rest]
    outcomes: list[Any] = []
    try:
        for first in range(0, len(ends), PIECE):
            outcomes += apply(ends[first : first + PIECE])
        found = zip(rest, firsts, apply(firsts) if firsts else [], strict=True)
        outcomes += [
            one if command is first and type(one) is not _Purged else _whole(apply, command, one)
            for command, first, one in found
        ]
    except StoreError as error:
        if not outcomes:
            raise
        outcomes += [error] * (len(commands) - len(outcomes))
    return outcomes


def _piece(command: Any) -> Any:
    return replace(command, limit=PIECE) if isinstance(command, _LONG) and command.limit > PIECE else command


def _whole(apply: _Apply, command: Any, outcome: Any) -> Any:
    """Return the outcome of a command from that of its first piece and of as many more as the server answers."""
    last = outcome
    while (command := _rest(command, last)) is not None:
        try:
            [last] = apply([_piece(command)])
        except StoreError:
            break
        outcome = _joined(outcome, last)
    return outcome


def _rest(command: Any, last: Any) -> Any:
    """Return the rest of a command after a piece of it, None if it is done."""
    if isinstance(last, _Purged):
        left = command.limit - last
        if last.last is None or left <= 0:
            return None
        return _FurtherPurge(command.state, command.age, command.topic, left, last.last)
    claimed = isinstance(command, _CLAIMS)
    jobs = (last if isinstance(last, list) else last.jobs) if claimed else []
    done = len(jobs) if claimed else last.ended if isinstance(last, c.Expired) else last
    if isinstance(last, c.Claimed):
        done += len(last.left)
    limit = command.limit - PIECE
    if done < PIECE or limit <= 0:
        return None
    most: Any = None if not claimed or command.bytes is None else command.bytes - sum(len(job.body) for job in jobs)
    if isinstance(command, c.Reserve):
        return replace(command, limit=limit, bytes=most, least=command.least - len(jobs))
    if isinstance(command, c.Claim):
        kind = _FurtherClaim if jobs else type(command)
        suspects = command.suspects - sum(job.lost == LOST_BEGUN for job in jobs)
        without = command.without + tuple(due.id for due in last.left)
        begin, after = command.begin - last.begun, command.after
        named = command.topic, command.ids, command.policy, command.worker
        return kind(*named, begin, suspects, most, limit, after, without)
    return replace(command, limit=limit)


def _joined(one: Any, other: Any) -> Any:
    """Return the outcome of two pieces."""
    if isinstance(one, c.Expired):
        return c.Expired(one.ended + other.ended, other.next_lease, tuple(sorted((*one.dead, *other.dead))))
    if isinstance(one, c.Claimed):
        again = min((time for time in (one.again, other.again) if time is not None), default=None)
        jobs, left, begun = one.jobs + other.jobs, one.left + other.left, one.begun + other.begun
        return c.Claimed(jobs, begun, left, other.paused, again, one.full + other.full, other.next)
    return one + other
