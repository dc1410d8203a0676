"""What commands may hold: whole numbers where times, ids and counts belong, text where names do.

A database takes a float or a text for a number and compares it in its own way: so it is refused here, before anything
is stored, alike for every store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .._errors import BadJob, JobExists, PywheelError
from ..jobs import commands as c
from ..jobs.job import FIELDS, OF_NEW_JOB, Attempt, Job, NewJob, Outcome, State
from ..jobs.lifecycle import ENDINGS
from ..jobs.limits import Limits
from ..jobs.values import FURTHEST, integer, number, text

__all__ = ["FURTHEST", "IDS", "a_prefix", "clamped", "in_range", "lately", "note_name", "sound", "storable"]

IDS: Final = range(1, 2**63)
"""The ids that jobs may have, and the numbers of their claims."""
_NONCE: Final = 200  # characters
_NOTHING: Final = object()
_DEFAULTS: Final = tuple(field.default for field in FIELDS)
_CLAIMS: Final = 2**31 - 1
_NOTE_NAME: Final = 200  # characters
_NOTE: Final = 65_536  # bytes
_SEALED: Final = 1_024  # bytes by which an encrypted result may be longer


def sound(commands: Sequence[c.Command[Any]], apply: Callable[[Sequence[c.Command[Any]]], list[Any]]) -> list[Any]:
    """Apply the commands that may be; return the outcomes, a BadJob for each of the others.

    TypeError if one is no command: then nothing was applied.
    """
    try:
        for command in commands:
            _CHECKS[type(command)](command)
    except (PywheelError, KeyError):
        return _some(commands, apply)
    return apply(commands)


def _some(commands: Sequence[c.Command[Any]], apply: Callable[[Sequence[c.Command[Any]]], list[Any]]) -> list[Any]:
    outcomes: list[Any] = []
    for command in commands:
        check = _CHECKS.get(type(command))
        if check is None:
            raise TypeError(f"a store applies commands, not {type(command).__name__}")
        try:
            outcomes.append(check(command))
        except PywheelError as refusal:
            outcomes.append(refusal)
    allowed = [command for command, refusal in zip(commands, outcomes, strict=True) if refusal is None]
    good = iter(apply(allowed) if allowed else ())
    return [next(good) if refusal is None else refusal for refusal in outcomes]


def in_range(id: int) -> bool:
    """Whether a job may have this id: a number of 64 bits."""
    return id in IDS


def clamped(number: int) -> int:
    """Return the nearest number that 64 bits can hold."""
    return min(max(number, -IDS.stop), IDS.stop - 1)


def note_name(name: Any) -> bytes:
    """Return the name of a note as it is kept and ordered. BadJob if it cannot be one."""
    text(name, "the name of a note")
    if not 0 < len(name) <= _NOTE_NAME:
        raise BadJob(f"the name of a note must have 1 to {_NOTE_NAME} characters, not {len(name)}")
    encoded: bytes = name.encode()
    return encoded


def a_prefix(prefix: Any) -> bytes:
    """Return what names of notes are compared with, as they are ordered. BadJob if it is no text."""
    text(prefix, "what names of notes begin with")
    encoded: bytes = prefix.encode()
    return encoded


def storable(error: str | None) -> str | None:
    """Return what is kept of an error's text. What some database cannot hold is escaped, not refused with the nack."""
    if error is None:
        return None
    if "\0" in error:
        error = error.replace("\0", "\\x00")
    return error if error.isascii() else error.encode("utf-8", "backslashreplace").decode()


def lately(id: int, key: str | None, ago: int, dedupe_for: int | None) -> JobExists:
    """Return the refusal of a put whose key a job had that ended so many ms ago."""
    kept = (dedupe_for or 0) / 1000
    return JobExists(f"job {id} had the key {key!r:.82} and ended {ago / 1000:g} s ago: it is taken for {kept:g} s", id)


# ---- single values --------------------------------------------------------------------------------------------------


def _some_int(name: str, value: Any) -> None:
    if value is not None:
        integer(value, name)


def _ref(ref: Any) -> None:
    if type(ref) is int:
        return
    if type(ref) is not tuple or len(ref) != 2:
        raise BadJob(f"a job is named by its id or by (topic, key), not by {ref!r:.40}")
    text(ref[0], "topic")
    text(ref[1], "key")


# ---- commands -------------------------------------------------------------------------------------------------------


def _nonce(nonce: Any) -> None:
    text(nonce, "nonce")
    if not 0 < len(nonce) <= _NONCE:
        raise BadJob(f"nonce must be a str of 1 to {_NONCE} characters, not of {len(nonce)}")


def _fingerprint(fingerprint: Any) -> None:
    if fingerprint is not None and not (
        type(fingerprint) is str and fingerprint.isascii() and 0 < len(fingerprint) <= _NONCE
    ):
        raise BadJob(f"fingerprint must be a str of 1 to {_NONCE} ASCII characters, not {fingerprint!r:.40}")


def _put(put: c.Put) -> None:
    if put.nonce is not None:
        _nonce(put.nonce)
        _fingerprint(put.fingerprint)
    checked: object = _NOTHING
    for job in put.jobs:
        integer(job.due, "due")
        if (delay := job.delay) is not None:
            integer(delay, "delay")
        if type(job.body) is not bytes:
            raise BadJob(f"body must be bytes, not {type(job.body).__name__}")
        if job.topic is not checked:
            text(job.topic, "topic")
            checked = job.topic
        if job[OF_NEW_JOB] != _DEFAULTS:
            _fields(job)
        if job.parent is not None:
            _receipt(*job.parent)
        if job.dedupe_for is not None:
            _dedupe(job.key, job.dedupe_for)


def _fields(job: NewJob) -> None:
    """Check what a job may have, and mostly does not."""
    for value, field in zip(job.kept, FIELDS, strict=True):
        if value != field.default:
            field.check(value, field.name)


def _dedupe(key: Any, dedupe_for: Any) -> None:
    integer(dedupe_for, "dedupe_for")
    if dedupe_for <= 0:
        raise BadJob(f"dedupe_for must be more than 0 ms, not {dedupe_for}")
    if key is None:
        raise BadJob("dedupe_for is for how long a key stays taken: give the key too")


def _result(result: Any) -> None:
    if type(result) is not bytes:
        raise BadJob(f"a result must be bytes, not {type(result).__name__}")
    if len(result) > c.RESULT_MOST + _SEALED:
        raise BadJob(f"a result has up to {c.RESULT_MOST} bytes, not {len(result)}")


def _import(command: c.Import) -> None:
    if command.nonce is not None:
        _nonce(command.nonce)
    for one in command.jobs:
        _put(c.Put((one.new,)))
        for name in ("created", "claims", "attempt"):
            integer(getattr(one.job, name), name)
        _past(one.job, one.history)


def _past(job: Job, history: Sequence[Attempt]) -> None:
    """Check that a job and its history go together."""
    if not 0 <= job.attempt <= job.claims <= _CLAIMS:
        raise BadJob(f"job {job.id} cannot have {job.attempt} attempts of {job.claims} claims")
    if job.lost not in ((0, 1, 2) if job.claims else (0,)):
        raise BadJob(f"the last of {job.claims} claims of job {job.id} cannot have come to {job.lost!r:.40}")
    before = 0
    for attempt in history:
        _attempt(attempt)
        if not before < attempt.claim <= job.claims:
            raise BadJob(f"claim {attempt.claim} of job {job.id} cannot come after {before}, of {job.claims}")
        before = attempt.claim
    if job.state is State.DELAYED:
        return
    if job.state not in ENDINGS:
        raise BadJob(f"job {job.id} is {job.state!s:.40}: only delayed and finished jobs are imported")
    if not history or before != job.claims or history[-1].outcome not in ENDINGS[job.state]:
        raise BadJob(f"job {job.id} is {job.state}, and its history does not say so")


def _attempt(attempt: Attempt) -> None:
    for name in ("claim", "attempt", "ended"):
        integer(getattr(attempt, name), name)
    _some_int("started", attempt.started)
    if type(attempt.outcome) is not Outcome:
        raise BadJob(f"an outcome must be an Outcome, not {attempt.outcome!r:.40}")
    if attempt.worker is not None:
        text(attempt.worker, "worker")
    if attempt.error is not None and type(attempt.error) is not str:
        raise BadJob(f"error must be a str, not {type(attempt.error).__name__}")
    if attempt.result is not None:
        _result(attempt.result)
        if attempt.outcome is not Outcome.DONE:
            raise BadJob(f"an attempt that was {attempt.outcome} has no result")


def _cancel(command: c.Cancel) -> None:
    _ref(command.ref)
    if command.expect is not None:
        _expect(command.expect)


def _expect(expect: Any) -> None:
    if type(expect) is not tuple or len(expect) != 2:
        raise BadJob(f"expect must be a pair (due, claims), not {expect!r:.40}")
    for name, value in zip(("due", "claims"), expect, strict=True):
        integer(value, f"{name} in expect")


def _reschedule(command: c.Reschedule) -> None:
    _when(command)
    if command.expect is not None:
        _expect(command.expect)


def _when(command: c.Reschedule | c.Retry) -> None:
    _ref(command.ref)
    integer(command.due, "due")
    _some_int("delay", command.delay)


def _keep(command: c.SetNote) -> None:
    note_name(command.name)
    if command.value is not None and type(command.value) is not bytes:
        raise BadJob(f"a note must be bytes, not {type(command.value).__name__}")
    if command.value is not None and len(command.value) > _NOTE:
        raise BadJob(f"a note has up to {_NOTE} bytes, not {len(command.value)}")
    _some_int("ttl", command.ttl)
    if command.ttl is not None and command.ttl <= 0:
        raise BadJob(f"the ttl of a note must be more than 0 ms, not {command.ttl}")
    if type(command.absent) is not bool:
        raise BadJob(f"absent must be True or False, not {command.absent!r:.40}")


def _receipt(id: Any, claims: Any) -> None:
    if type(id) is not int or type(claims) is not int:
        raise BadJob(f"a receipt is two whole numbers, not {id!r:.40} and {claims!r:.40}")


def _policy(policy: c.ClaimPolicy) -> None:
    for name in ("ttr", "max_attempts", "slack", "hold"):
        integer(getattr(policy, name), name)
    for delay in policy.backoff:
        integer(delay, "a backoff")
    number(policy.jitter, "jitter", 0, 1)
    if policy.limits is not None:
        _limits(policy.limits)


def _limits(limits: Limits) -> None:
    most, per, every, burst = limits
    for name, value in (("most", most), ("every", every), ("burst", burst)):
        _some_int(name, value)
    if per is not None:
        text(per, "per")


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


def _ended(command: c.Release) -> None:
    if type(command.id) is not int or type(command.claims) is not int:
        _receipt(command.id, command.claims)


def _ack(command: c.Ack) -> None:
    if type(command.id) is not int or type(command.claims) is not int:
        _receipt(command.id, command.claims)
    if command.result is not None:
        _result(command.result)


def _nack(command: c.Nack) -> None:
    _receipt(command.id, command.claims)
    _some_int("delay", command.delay)
    if command.error is not None and type(command.error) is not str:
        raise BadJob(f"error must be a str, not {type(command.error).__name__}")


def _leased(command: c.Begin | c.Touch) -> None:
    _receipt(command.id, command.claims)
    integer(command.ttr, "ttr")


def _rewrite(command: c.Rewrite) -> None:
    _ref(command.id)
    for body in (command.old, command.new):
        if type(body) is not bytes:
            raise BadJob(f"body must be bytes, not {type(body).__name__}")
    if command.claim is not None:
        _receipt(command.id, command.claim)
        _result(command.new)


def _pause(command: c.Pause) -> None:
    text(command.topic, "topic")
    if type(command.paused) is not bool:
        raise BadJob(f"paused must be True or False, not {command.paused!r:.40}")


def _purge(command: c.Purge) -> None:
    integer(command.age, "age")
    integer(command.limit, "limit")
    if command.topic is not None:
        text(command.topic, "topic")


def _announce(command: c.Announce) -> None:
    text(command.worker, "worker")
    for topic in command.topics:
        text(topic, "topic")


_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    c.Put: _put,
    c.Import: _import,
    c.Cancel: _cancel,
    c.Reschedule: _reschedule,
    c.Retry: _when,
    c.Delete: lambda command: _ref(command.ref),
    c.Rewrite: _rewrite,
    c.Pause: _pause,
    c.Purge: _purge,
    c.SetNote: _keep,
    c.Reserve: _reserve,
    c.Claim: _claim,
    c.Begin: _leased,
    c.Ack: _ack,
    c.Nack: _nack,
    c.Release: _ended,
    c.Touch: _leased,
    c.Expire: lambda command: integer(command.limit, "limit"),
    c.Announce: _announce,
}
