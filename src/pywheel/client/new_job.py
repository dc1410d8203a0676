"""From what a caller says about a job to its record. On the way of every put, so it is written to be quick."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from .._errors import BadJob
from ..jobs.checks import whole
from ..jobs.durations import Duration, duration, moment
from ..jobs.job import NewJob

__all__ = ["name", "new_job"]

LONGEST_NAME: Final = 16_384  # characters of a topic or a key
_MOST_ATTEMPTS: Final = 1_000_000
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_job(
    now: int,
    max_body: int,
    topic: str,
    body: Any,
    delay: Duration | None,
    at: datetime | None,
    key: str | None,
    replace: bool,
    ttr: Duration | None,
    max_attempts: int | None,
    headers: Mapping[str, str] | None,
    traceparent: str | None,
) -> NewJob:
    """Return the record; `JobQueue.put` says what the arguments mean. BadJob for those that make no sense."""
    if at is not None:
        if delay is not None:
            raise BadJob("give delay or at, not both")
        now = moment(at)
    elif delay is not None:
        now += duration(delay)
    if type(body) is not bytes:
        body = _bytes(body)
    if len(body) > max_body:
        raise BadJob(f"the body has {len(body)} bytes, the limit is {max_body}: store it elsewhere, put its name")
    if headers or traceparent:
        headers = _headers(headers, traceparent)
    fields = (
        name(topic, "topic"),
        body,
        now,
        None if key is None else name(key, "key"),
        None if ttr is None else max(duration(ttr, "ttr"), 1),
        None if max_attempts is None else whole(max_attempts, "max_attempts", _MOST_ATTEMPTS),
        headers or None,
        replace,
    )
    return tuple.__new__(NewJob, fields)  # without the function that a named tuple's own is


def name(value: Any, what: str) -> str:
    """Return a topic or a key. BadJob if it cannot be one."""
    if not isinstance(value, str):
        raise BadJob(f"a {what} must be a str, not {type(value).__name__}")
    if not value or len(value) > LONGEST_NAME:
        raise BadJob(f"a {what} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadJob(f"a {what} must be valid Unicode: {error.reason}") from error
    return value


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJob(f"the body cannot be written as JSON ({error}): give bytes, or plain data") from error


def _headers(headers: Mapping[str, str] | None, traceparent: Any) -> dict[str, str]:
    known: dict[Any, Any] = dict(headers or {})
    if traceparent is not None:
        if not isinstance(traceparent, str) or not _TRACEPARENT.fullmatch(traceparent):
            raise BadJob(f"{traceparent!r:.80} is no W3C traceparent")
        known["traceparent"] = traceparent
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in known.items()):
        raise BadJob("headers must be text by name")
    return known
