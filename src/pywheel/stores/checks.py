"""Checks of commands: whole numbers where times, ids and counts belong, text where names do.

A database takes a float or a text for a number and compares it in its own way. So such a value is refused here, before
anything is stored, alike for every store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Final

from .._errors import BadJob, JobExists, NonceTaken, PywheelError
from ..jobs import commands as c
from ..jobs.checks import integer, number, text
from ..jobs.job import DEFAULTS, FIELDS, OF_NEW_JOB, Imported, NewJob, Outcome, State
from ..jobs.lifecycle import ENDINGS

Check = Callable[[Any, str], object]
"""Raises BadJob if no store takes a value; the message has its name."""

IDS: Final = range(1, 2**63)
"""The ids that jobs may have, and the numbers of their claims."""
_NONCE: Final = 200  # characters
_NOTHING: Final = object()
_EDITABLE: Final = {field.name: field for field in FIELDS if field.name != "key"}
_CLAIMS: Final = 2**31 - 1
_NOTE_NAME: Final = 200  # characters
_NOTE: Final = 65_536  # bytes
_SEALED: Final = 1_024  # bytes by which an encrypted result may be longer


def sound(commands: Sequence[c.Command[Any]], apply: Callable[[Sequence[c.Command[Any]]], list[Any]]) -> list[Any]:
    """Apply the valid commands; return the outcomes, with a BadJob for each of the others.

    TypeError if one is not a command: then nothing was applied.
    """
    try:
        for command in commands:
            _CHECKS[type(command)](command)
    except (PywheelError, KeyError):
        return prepared(commands, checked, apply)
    return apply(commands)


def checked(command: c.Command[Any]) -> c.Command[Any]:
    """Return a command. BadJob if no store takes one of its values; TypeError if it is not a command."""
    if type(command) not in _CHECKS:
        raise TypeError(f"a store applies commands, not {type(command).__name__}")
    _CHECKS[type(command)](command)
    return command


def prepared(
    commands: Sequence[c.Command[Any]],
    prepare: Callable[[c.Command[Any]], c.Command[Any]],
    apply: Callable[[Sequence[c.Command[Any]]], list[Any]],
) -> list[Any]:
    """Apply the commands that `prepare` returns; return their outcomes, and the errors it raised for the others."""
    ready: list[c.Command[Any]] = []
    refusals: list[PywheelError | None] = []
    for command in commands:
        try:
            ready.append(prepare(command))
            refusals.append(None)
        except PywheelError as refusal:
            refusals.append(refusal)
    outcomes = iter(apply(ready) if ready or not commands else ())
    return [next(outcomes) if refusal is None else refusal for refusal in refusals]


def clamped(number: int) -> int:
    """Return the nearest number that 64 bits can hold."""
    return min(max(number, -IDS.stop), IDS.stop - 1)


def note_name(name: Any) -> bytes:
    """Return the name of a note as it is kept and ordered. BadJob if it is not a valid name."""
    encoded = a_prefix(name, "the name of a note")
    if not 0 < len(name) <= _NOTE_NAME:
        raise BadJob(f"the name of a note must have 1 to {_NOTE_NAME} characters, not {len(name)}")
    return encoded


def a_prefix(prefix: Any, what: str = "what names of notes begin with") -> bytes:
    """Return the bytes with which names of notes are compared. BadJob if the prefix is not text."""
    text(prefix, what)
    encoded: bytes = prefix.encode()
    return encoded


def storable(error: str | None) -> str | None:
    """Return an error's text as it is kept. Characters that a database cannot hold are escaped, not refused."""
    if error is None:
        return None
    if "\0" in error:
        error = error.replace("\0", "\\x00")
    return error if error.isascii() else error.encode("utf-8", "backslashreplace").decode()


# ---- puts that were there before ------------------------------------------------------------------------------------


def held(id: int, key: str | None) -> JobExists:
    """Return the refusal of a put whose key belongs to a live job."""
    return JobExists(
        f"job {id} has the key {key!r:.82} already and is live: a put with replace changes one that waits", id
    )


def twice(key: str | None) -> JobExists:
    """Return the refusal of a put of two jobs with one key."""
    return JobExists(f"two of the jobs put have the key {key!r:.82}", 0)


def lately(id: int, key: str | None, ago: int, dedupe_for: int | None) -> JobExists:
    """Return the refusal of a put whose key belonged to a job that ended `ago` ms ago."""
    kept = (dedupe_for or 0) / 1000
    return JobExists(f"job {id} had the key {key!r:.82} and ended {ago / 1000:g} s ago: it is taken for {kept:g} s", id)


def fingerprinted(ids: Sequence[int], fingerprint: str | None) -> list[Any]:
    """Return the record of a put with a nonce: the ids of its jobs, and then its fingerprint, if it has one."""
    return [*ids] if fingerprint is None else [*ids, fingerprint]


def same_ids(kept: Sequence[Any], fingerprint: str | None) -> list[int]:
    """Return the ids of a put that was stored before. NonceTaken: both puts have fingerprints, and they differ."""
    if not kept or isinstance(kept[-1], int):
        return list(kept)
    *ids, before = kept
    if fingerprint is not None and fingerprint != (before.decode() if isinstance(before, bytes) else before):
        raise NonceTaken("another put had this nonce before")
    return ids


# ---- single values --------------------------------------------------------------------------------------------------


def _maybe(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value, name: None if value is None else check(value, name)


def _fields(**checks: Check) -> Callable[..., None]:
    """Return a check of two or more fields of a command, or of a record in one."""
    values = attrgetter(*checks)

    def checked(record: Any, _: str = "") -> None:
        for value, (name, check) in zip(values(record), checks.items(), strict=True):
            check(value, name)

    return checked


def _of_type(kind: type[Any], most: float = inf) -> Check:
    """Return a check that a value is of exactly this type, and has at most `most` bytes."""

    def checked(value: Any, name: str) -> None:
        if type(value) is not kind:
            raise BadJob(f"{name} must be {kind.__name__}, not {type(value).__name__}")
        if most < inf and len(value) > most:
            raise BadJob(f"{name} has up to {most} bytes, not {len(value)}")

    return checked


_str: Final = _of_type(str)
_bytes: Final = _of_type(bytes)


def _ref(ref: Any, _: str = "") -> None:
    if type(ref) is int:
        return
    if type(ref) is not tuple or len(ref) != 2:
        raise BadJob(f"name a job by its id or by (topic, key), not by {ref!r:.40}")
    text(ref[0], "topic")
    text(ref[1], "key")


def _nonce(nonce: Any, name: str) -> None:
    text(nonce, name)
    if not 0 < len(nonce) <= _NONCE:
        raise BadJob(f"{name} must be a str of 1 to {_NONCE} characters, not of {len(nonce)}")


def _fingerprint(fingerprint: Any, name: str) -> None:
    if type(fingerprint) is not str or not fingerprint.isascii() or not 0 < len(fingerprint) <= _NONCE:
        raise BadJob(f"{name} must be a str of 1 to {_NONCE} ASCII characters, not {fingerprint!r:.40}")


def _result(result: Any, name: str) -> None:
    _bytes(result, name)
    if len(result) > c.RESULT_MOST + _SEALED:
        raise BadJob(f"a result has up to {c.RESULT_MOST} bytes, not {len(result)}")


def _positive(value: Any, name: str) -> None:
    integer(value, name)
    if value <= 0:
        raise BadJob(f"{name} must be more than 0 ms, not {value}")


def _expect(expect: Any, name: str) -> None:
    if type(expect) is not tuple or len(expect) != 2:
        raise BadJob(f"{name} must be a pair (due, claims), not {expect!r:.40}")
    for one, value in zip(("due", "claims"), expect, strict=True):
        integer(value, f"{one} in {name}")


_limits: Final = _fields(most=_maybe(integer), per=_maybe(text), every=integer, burst=integer)


def _policy(policy: c.ClaimPolicy) -> None:
    if _POLICIES.get(id(policy)) is policy:  # a worker's claims from a topic all have the same one
        return
    integer(policy.ttr, "ttr")
    integer(policy.max_attempts, "max_attempts")
    integer(policy.slack, "slack")
    integer(policy.hold, "hold")
    for delay in policy.backoff:
        integer(delay, "a backoff")
    number(policy.jitter, "jitter", 0, 1)
    if policy.limits is not None:
        _limits(policy.limits)
    if type(policy.backoff) is tuple:  # else it may change
        if len(_POLICIES) >= _POLICIES_KEPT:
            _POLICIES.clear()
        _POLICIES[id(policy)] = policy


_POLICIES: Final[dict[int, c.ClaimPolicy]] = {}  # policies that were checked, by id
_POLICIES_KEPT: Final = 1_000

# ---- commands -------------------------------------------------------------------------------------------------------


_once: Final = _fields(nonce=_nonce, fingerprint=_maybe(_fingerprint))


def _put(put: c.Put) -> None:
    if put.nonce is not None:
        _once(put)
    topic: object = _NOTHING  # the values checked last: most jobs of a put have the same
    due: object = 0
    delay: object = None
    for job in put.jobs:
        if job.due is not due:
            due = job.due
            integer(due, "due")
        if job.delay is not delay:
            delay = job.delay
            if delay is not None:
                integer(delay, "delay")
        if type(job.body) is not bytes:
            raise BadJob(f"body must be bytes, not {type(job.body).__name__}")
        if job.topic is not topic:
            text(job.topic, "topic")
            topic = job.topic
        if job[OF_NEW_JOB] != DEFAULTS:
            _kept(job)
        if job.key is not None or job.parent is not None or job.dedupe_for is not None:
            _keyed(job)


def _keyed(job: NewJob) -> None:
    if job.parent is not None:
        _receipt(*job.parent)
    if job.dedupe_for is not None:
        _positive(job.dedupe_for, "dedupe_for")
        if job.key is None:
            raise BadJob("dedupe_for is for how long a key stays taken: give the key too")


def _kept(job: NewJob) -> None:
    for value, field in zip(job.kept, FIELDS, strict=True):
        if value != field.default:
            field.check(value, field.name)


_numbers: Final = _fields(created=integer, claims=integer, attempt=integer)
_attempt: Final = _fields(
    claim=integer,
    attempt=integer,
    ended=integer,
    started=_maybe(integer),
    outcome=_of_type(Outcome),
    worker=_maybe(text),
    error=_maybe(_str),
    result=_maybe(_result),
)


def _imported(one: Imported) -> None:
    """Check a job of another store, and that its history fits."""
    job, history = one.job, one.history
    _put(c.Put((one.new,)))
    _numbers(job)
    if not 0 <= job.attempt <= job.claims <= _CLAIMS:
        raise BadJob(f"job {job.id} cannot have {job.attempt} attempts of {job.claims} claims")
    if job.lost not in ((0, 1, 2) if job.claims else (0,)):
        raise BadJob(f"the last of {job.claims} claims of job {job.id} cannot have come to {job.lost!r:.40}")
    before = 0
    for attempt in history:
        _attempt(attempt)
        if attempt.result is not None and attempt.outcome is not Outcome.DONE:
            raise BadJob(f"an attempt that was {attempt.outcome} has no result")
        if not before < attempt.claim <= job.claims:
            raise BadJob(f"claim {attempt.claim} of job {job.id} cannot come after {before}, of {job.claims}")
        before = attempt.claim
    if job.state is State.DELAYED:
        return
    if job.state not in ENDINGS:
        raise BadJob(f"job {job.id} is {job.state!s:.40}: only delayed and finished jobs are imported")
    if not history or before != job.claims or history[-1].outcome not in ENDINGS[job.state]:
        raise BadJob(f"job {job.id} is {job.state}, and its history does not say so")


def _reserve(command: c.Reserve) -> None:
    text(command.topic, "topic")
    text(command.worker, "worker")
    integer(command.limit, "limit")
    integer(command.least, "least")
    if command.bytes is not None:
        integer(command.bytes, "bytes")
    _policy(command.policy)


def _claim(command: c.Claim) -> None:
    text(command.topic, "topic")
    text(command.worker, "worker")
    integer(command.begin, "begin")
    integer(command.suspects, "suspects")
    integer(command.bytes, "bytes")
    integer(command.limit, "limit")
    _policy(command.policy)
    if set(map(type, command.ids)) - {int}:
        raise BadJob("ids must be whole numbers")


def _receipt(id: Any, claims: Any) -> None:
    if type(id) is not int or type(claims) is not int:
        raise BadJob(f"a receipt must be two whole numbers, not {id!r:.40} and {claims!r:.40}")


def _released(command: c.Release) -> None:
    if type(command.id) is not int or type(command.claims) is not int:
        _receipt(command.id, command.claims)


def _ack(command: c.Ack) -> None:
    if type(command.id) is not int or type(command.claims) is not int:
        _receipt(command.id, command.claims)
    if command.result is not None:
        _result(command.result, "a result")


def _nack(command: c.Nack) -> None:
    _receipt(command.id, command.claims)
    if command.delay is not None:
        integer(command.delay, "delay")
    if command.error is not None:
        _str(command.error, "error")


def _begun(command: c.Begin) -> None:
    _receipt(command.id, command.claims)
    integer(command.ttr, "ttr")


def _touched(command: c.Touch) -> None:
    _receipt(command.id, command.claims)
    if command.ttr is not None:
        integer(command.ttr, "ttr")


_edited: Final = _fields(
    ref=_ref, due=_maybe(integer), delay=_maybe(integer), expect=_maybe(_expect), body=_maybe(_bytes)
)


def _edit(command: c.Edit) -> None:
    _edited(command)
    for name, value in command.fields.items():
        if name not in _EDITABLE:
            raise BadJob(f"a job has no {name!r:.40} that can be edited")
        if value != _EDITABLE[name].default:
            _EDITABLE[name].check(value, name)


def _rewrite(command: c.Rewrite) -> None:
    _ref(command.id)
    _bytes(command.old, "body")
    _bytes(command.new, "body")
    if command.claim is not None:
        _receipt(command.id, command.claim)
        _result(command.new, "a result")


def _announce(command: c.Announce) -> None:
    for name in (command.worker, *command.topics):
        text(name, "the name of a worker or a topic")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    c.Put: _put,
    c.Import: _fields(nonce=_maybe(_nonce), jobs=lambda jobs, _: [*map(_imported, jobs)]),
    c.Cancel: _fields(ref=_ref, expect=_maybe(_expect)),
    c.Edit: _edit,
    c.Retry: _fields(ref=_ref, due=integer, delay=_maybe(integer)),
    c.Delete: lambda command: _ref(command.ref),
    c.Rewrite: _rewrite,
    c.Pause: _fields(topic=text, paused=_of_type(bool)),
    c.Purge: _fields(age=integer, limit=integer, topic=_maybe(text)),
    c.SetNote: _fields(
        name=lambda name, _: note_name(name),
        value=_maybe(_of_type(bytes, _NOTE)),
        ttl=_maybe(_positive),
        absent=_of_type(bool),
    ),
    c.Reserve: _reserve,
    c.Claim: _claim,
    c.Begin: _begun,
    c.Ack: _ack,
    c.Nack: _nack,
    c.Release: _released,
    c.Touch: _touched,
    c.Expire: lambda command: integer(command.limit, "limit"),
    c.Announce: _announce,
}
