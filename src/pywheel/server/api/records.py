"""Records of the store in the API's form, and the bodies of jobs both ways."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hmac import compare_digest, digest
from typing import Any, Final

import msgspec
from msgspec import Raw

from ...jobs.bodies import is_encrypted, key_of
from ...jobs.job import KEPT, Attempt, Job
from ...jobs.results import Result
from ..problems import Problem, bad_field, bad_parameter
from .schema import AttemptOut, JobOut, ReservedJob, ResultOut

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_TURN: Final = 262_144  # bytes of bodies in a turn of the loop
_EACH: Final = 4_096  # bytes that take as long as a job without a body
_ANY: Final = msgspec.json.Decoder()


def moment_out(milliseconds: int) -> datetime:
    """Return a time. A time after the year 9999 becomes the last moment of 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _LAST


def job_out(job: Job, *, body: bool = True) -> JobOut:
    """Return a job, with its body or without."""
    return JobOut(**_fields(job, body=body))


def reserved(key: bytes, job: Job) -> ReservedJob:
    """Return a claimed job, with its receipt."""
    return ReservedJob(receipt=receipt(key, job.id, job.claims), **_fields(job, body=True))


def _fields(job: Job, *, body: bool) -> dict[str, Any]:
    return {
        "id": str(job.id),
        "topic": job.topic,
        "state": job.state.value,
        "due": moment_out(job.due),
        "created": moment_out(job.created),
        **(_value_out("body", job.body) if body or is_encrypted(job.body) else {}),
        **dict(zip(KEPT, job.kept, strict=True)),
        "ttr": None if job.ttr is None else job.ttr / 1000,
        "expires": None if job.expires is None else job.expires / 1000,
        "attempt": job.attempt,
        "claims": job.claims,
        "lease_until": None if job.lease_until is None else moment_out(job.lease_until),
        "last_error": job.last_error,
    }


def attempt_out(attempt: Attempt) -> AttemptOut:
    """Return an attempt."""
    times = [None if at is None else moment_out(at) for at in (attempt.started, attempt.ended)]
    return AttemptOut(
        claim=attempt.claim, attempt=attempt.attempt, started=times[0], ended=times[1],
        outcome=None if attempt.outcome is None else attempt.outcome.value,
        worker=attempt.worker, error=attempt.error, **_value_out("result", attempt.result),
    )  # fmt: skip


def result_out(of: Result) -> ResultOut:
    """Return the result of a job."""
    return ResultOut(id=str(of.id), state=of.state.value, error=of.error, **_value_out("result", of.result))


# ---- bodies ---------------------------------------------------------------------------------------------------------


def _value_out(name: str, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a body or a result: JSON, else base64, else the key that encrypts it."""
    if value is None:
        return {}
    if is_encrypted(value):
        return {"encrypted": key_of(value) or "unknown"}
    try:
        _ANY.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {f"{name}_base64": base64.b64encode(value).decode()}
    return {name: Raw(value)}


def body_of(body: Raw, coded: str | None, depth: int, pointer: str) -> bytes:
    """Return the bytes of a body that was sent. Problem: it is invalid, or too deep."""
    content = bytes(body)
    if coded is not None:
        if content:
            raise bad_field(f"{pointer}/body_base64", "give body or body_base64, not both")
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise bad_field(f"{pointer}/body_base64", "this is not base64: use A-Z a-z 0-9 + / and =") from None
    if not content:
        return b"null"
    try:
        value = _ANY.decode(content)
    except RecursionError:
        raise _too_deep(depth) from None
    except UnicodeDecodeError:
        raise bad_field(f"{pointer}/body", "this is not UTF-8: send other bytes as body_base64") from None
    except msgspec.DecodeError as error:
        raise bad_field(f"{pointer}/body", f"this is not JSON: {error}") from None
    if content.count(b"[") + content.count(b"{") > depth and _depth(value, depth) > depth:
        raise _too_deep(depth)
    return content


def _depth(value: Any, most: int) -> int:
    """Return the depth of a value. It looks at most one level beyond `most`."""
    level, depth = [value], 0
    while level and depth <= most:
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        depth += bool(inner)
        level = [part for parts in inner for part in parts]
    return depth


def _too_deep(depth: int) -> Problem:
    return Problem("too-deep", f"a body may have {depth} levels: put it as text, or as body_base64")


# ---- many jobs ------------------------------------------------------------------------------------------------------


class Turns:
    """The count of work in this turn of the loop, so that requests with many jobs let others have turns."""

    def __init__(self) -> None:
        self._size = 0

    async def after(self, body: bytes) -> None:
        """Let others have their turn if enough was done, a job with this body included."""
        self._size += len(body) + _EACH
        if self._size >= _TURN:
            self._size = 0
            await asyncio.sleep(0)


async def jobs_out(jobs: Sequence[Job], shown: Callable[[Job], Any]) -> Any:
    """Return the list of jobs for an answer, encoded job by job."""
    turns = Turns()
    parts = []
    for job in jobs:
        parts.append(msgspec.json.encode(shown(job)))
        await turns.after(job.body)
    return msgspec.Raw(b"[%s]" % b",".join(parts))


# ---- where a list goes on -------------------------------------------------------------------------------------------


def cursor(place: str) -> str:
    """Return the cursor of the part of a list that comes after a place."""
    return base64.urlsafe_b64encode(place.encode()).decode()


def after_cursor(cursor: str | None) -> str:
    """Return the place of a cursor; "" is the beginning. Problem: the text is not a cursor."""
    try:
        place = base64.urlsafe_b64decode(cursor or "").decode()
    except ValueError:
        raise no_cursor() from None
    if "\0" in place:
        raise no_cursor()
    return place


def no_cursor() -> Problem:
    """Return the problem of an invalid cursor."""
    return bad_parameter("cursor", "use `next` of the answer before")


# ---- what names a job's state, and a claim --------------------------------------------------------------------------


def etag(job: Job) -> str:
    """Return the entity tag of a job. Each claim, each edit and each replacing put changes it."""
    return f'"{job.state.value}-{job.due:x}-{job.claims:x}"'


def receipt(key: bytes, id: int, claims: int) -> str:
    """Return the receipt of a claim, a text that proves that a holder of the key issued it."""
    claim = b"%d.%d" % (id, claims)
    return base64.urlsafe_b64encode(b"%s.%s" % (claim, _mac(key, claim))).decode().rstrip("=")


def receipt_of(key: bytes, text: str) -> tuple[int, int]:
    """Return the id and the claim in a receipt. Problem: no holder of the key issued the text."""
    try:
        id, claims, mac = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).split(b".", 2)
        if len(id) <= 20 and len(claims) <= 20 and compare_digest(mac, _mac(key, b"%s.%s" % (id, claims))):
            return int(id), int(claims)
    except ValueError:
        pass
    raise Problem("not-found", "this is not a receipt: use the one that came with the job")


def _mac(key: bytes, claim: bytes) -> bytes:
    return digest(key, claim, "sha256")[:15]
