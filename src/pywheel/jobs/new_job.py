"""From a caller's options to the record of a new job. Written for speed, as every put uses it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from .._errors import BadJob
from .address import TO, checked_to
from .bodies import encoded
from .checks import did_you_mean, name, whole
from .commands import Edit, Ref, reference
from .durations import Duration, delay_ms, duration, moment
from .handler import current_job
from .job import FIELDS, PRIORITIES, Job, NewJob

_MOST_ATTEMPTS: Final = 1_000_000
_TEXT_BY_NAME: Final = "headers must be text by name"
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class _Kept(TypedDict, total=False):
    delay: Duration | None
    max_attempts: int | None
    headers: Mapping[str, str] | None
    priority: int
    expires: Duration | None


class SharedOptions(_Kept, total=False):
    """The options of all jobs of a task. `JobQueue.put` describes them."""

    replace: bool
    to: str | None
    dedupe_for: Duration | None


class JobOptions(SharedOptions, total=False):
    """The options of a new job, beside its body. `JobQueue.put` describes them."""

    at: datetime | None
    ttr: Duration | None
    key: str | None
    traceparent: str | None


class EditOptions(_Kept, total=False):
    """The options of an edit of a delayed job. `Jobs.edit` describes them."""

    at: datetime | None
    ttr: Duration | None
    body: Any


class PutOptions(JobOptions, total=False):
    """The options of a put, beside the body."""

    connection: object


def new_job(
    max_body: int,
    topic: str,
    body: Any,
    delay: Duration | None = None,
    at: datetime | None = None,
    key: str | None = None,
    replace: bool = False,
    ttr: Duration | None = None,
    max_attempts: int | None = None,
    headers: Mapping[str, str] | None = None,
    to: str | None = None,
    traceparent: str | None = None,
    dedupe_for: Duration | None = None,
    priority: int = 0,
    expires: Duration | None = None,
) -> NewJob:
    """Return the record of a new job; `put` describes the arguments. BadJob for arguments that make no sense."""
    due, wait, parent = 0, None, None
    if at is None:
        wait = 0 if delay is None else delay_ms(delay)  # the store adds it to its own clock
    elif delay is None:
        due = moment(at)
    else:
        raise BadJob("give delay or at, not both")
    if type(body) is not bytes:
        body = encoded(body)
    if len(body) > max_body:
        raise too_long(body, max_body)
    if headers is not None or traceparent or to is not None:
        headers = _headers(headers, to, traceparent)
    if key is not None:
        parent = parent_of(topic, key)
    elif replace:
        raise BadJob("replace is about the job that has the key: give the key too")
    fields = (
        name(topic, "topic"),
        body,
        due,
        None if key is None else name(key, "key"),
        None if ttr is None else duration(ttr, "ttr", 1),
        None if max_attempts is None else whole(max_attempts, "max_attempts", _MOST_ATTEMPTS),
        headers or None,
        priority if priority == 0 else whole(priority, "priority", PRIORITIES, -PRIORITIES),
        None if expires is None else duration(expires, "expires", 1),
        replace,
        wait,
        parent,
        None if dedupe_for is None else _dedupe(dedupe_for, key),
    )
    return tuple.__new__(NewJob, fields)  # avoids a named tuple's own constructor, a slower function


def edit(max_body: int, ref: Ref | Job, expect: Job | None = None, **options: Unpack[EditOptions]) -> Edit:
    """Return the command that edits a delayed job. BadJob for arguments that make no sense, or for none."""
    misspelt(options, EditOptions, "an edit")
    if not isinstance(expect, Job | None):
        raise BadJob(f"expect must be the Job as it was read, not {expect!r:.40}")
    given: Any = {name: value for name, value in options.items() if value is not None or name not in ("delay", "at")}
    if not given:
        raise BadJob("nothing is given that is to change, such as delay or at")
    made = new_job(max_body, "any", **{"body": b"", **given})
    return Edit(
        reference(ref),
        made.due if "at" in given else None,
        made.delay if "delay" in given else None,
        None if expect is None else (expect.due, expect.claims),
        made.body if "body" in given else None,
        {field.name: getattr(made, field.name) for field in FIELDS if field.name in given},
    )


def batch(jobs: Iterable[NewJob]) -> tuple[NewJob, ...]:
    """Return the jobs of a `put_many`. BadJob if one is not a NewJob."""
    if not isinstance(jobs, Iterable):
        raise BadJob(f"put_many takes what queue.job(...) returns, many of them, not {type(jobs).__name__}")
    many = tuple(jobs)
    for job in many:
        if not isinstance(job, NewJob):
            raise BadJob(f"put_many takes what queue.job(...), or a task's job(...), returns, not {job!r:.40}")
    return many


def parent_of(topic: str, key: str) -> tuple[int, int] | None:
    """Return the receipt of the job whose handler puts this one, if that has the same topic and key."""
    running = current_job.get()
    if running is not None and running.key == key and running.topic == topic:
        return running.id, running.claims
    return None


def too_long(body: bytes, max_body: int) -> BadJob:
    """Return the error for a body that is too long."""
    return BadJob(f"the body has {len(body)} bytes, the limit is {max_body}: store it elsewhere, put its name")


def misspelt(options: Mapping[str, Any], known: type | AbstractSet[str], what: str) -> None:
    """Raise TypeError for an option that is not among `known`: names, or the fields of a TypedDict."""
    names = known.__annotations__.keys() if isinstance(known, type) else known
    for option in options.keys() - names:
        raise TypeError(f"{option[:80]!r} is not an option of {what}{did_you_mean(option, names)}")


def _dedupe(dedupe_for: Duration, key: str | None) -> int:
    if key is None:
        raise BadJob("dedupe_for says how long a key stays taken: give the key too")
    return duration(dedupe_for, "dedupe_for", 1)


def _headers(headers: Mapping[str, str] | None, to: Any, traceparent: Any) -> dict[str, str]:
    if headers is not None and not isinstance(headers, Mapping):
        raise BadJob(_TEXT_BY_NAME)
    known: dict[Any, Any] = dict(headers or {})
    if traceparent is not None:
        if not isinstance(traceparent, str) or not TRACEPARENT.fullmatch(traceparent):
            raise BadJob(f"{traceparent!r:.80} is not a W3C traceparent")
        known["traceparent"] = traceparent
    if to is not None:
        if known.get(TO, to) != to:
            raise BadJob("to and the header 'to' say two different things: give one of them")
        known[TO] = checked_to(to)
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in known.items()):
        raise BadJob(_TEXT_BY_NAME)
    return known
