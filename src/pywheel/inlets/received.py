"""From a message, whose headers may have a delay or a time, to a new job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from .._errors import BadJob
from ..client.queue import JobQueue
from ..jobs.commands import Put
from ..jobs.durations import LONGEST, delay_ms, moment

X_DELAY: Final = "x-delay"
"""The header of the delayed-message plugin of RabbitMQ: whole ms."""
DELAY: Final = "pywheel-delay"
"""Our own header: seconds as a number, or text such as ``30m``."""
AT: Final = "pywheel-at"
"""Our own header: ISO 8601 with a time zone."""
OWN_TO: Final = "pywheel-to"
"""Our own header: where an outlet delivers the job."""
OWN_PREFIX: Final = "pywheel-"


class Message(NamedTuple):
    """A message from a source."""

    token: Any  # by which its source settles it
    body: bytes
    headers: Mapping[str, str]  # of the job that it becomes
    said: Mapping[str, Any]  # the message's own headers, with its delay or time
    sent: int | None = None  # when it was sent, in ms; None: unknown
    place: str = ""  # its place in the source, for an error
    identity: Sequence[str | bytes] | None = None  # equal whenever the same message comes; None: it cannot be told
    wrong: str = ""  # why it cannot be a job


def when(headers: Mapping[str, Any], sent: int | None) -> tuple[int, int | None]:
    """Return a message's due time and delay in ms, as NewJob has them; without a header it is due at once.

    A delay counts from the time at which the message was `sent`, if known, else from the time of the put.

    Raises:
        BadJob: a header makes no sense, or there are several.
    """
    given = [name for name in (X_DELAY, DELAY, AT) if headers.get(name) is not None]
    if len(given) > 1:
        raise BadJob(f"the message has {' and '.join(given)}: give one of them")
    if not given:
        return 0, 0
    name, value = given[0], headers[given[0]]
    if name == AT:
        return _moment(value), None
    delay = _milliseconds(value) if name == X_DELAY else delay_ms(_number(value), DELAY)
    return (0, delay) if sent is None else (sent + delay, None)


def _milliseconds(value: Any) -> int:
    """Return the ms of an x-delay, as the plugin reads it: a number, or a whole one as text; below zero means 0."""
    try:
        found = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found > LONGEST:
        raise BadJob(f"{X_DELAY} must be whole ms, at most {LONGEST}, not {value!r:.60}")
    return max(found, 0)


def _number(value: Any) -> Any:
    """Return text with a number as a number: Kafka's headers are all text. Return other values as they are."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _moment(value: Any) -> int:
    try:
        return moment(datetime.fromisoformat(value) if isinstance(value, str) else value, AT)
    except ValueError as error:  # also BadJob
        raise BadJob(f"{AT} {value!r:.60}: {error}") from None


def put_of(queue: JobQueue, topic: str, message: Message) -> Put:
    """Return the command that makes a message a job. BadJob if it cannot be one."""
    if message.wrong:
        raise BadJob(message.wrong)
    due, delay = when(message.said, message.sent)
    job = queue.job(topic, message.body, headers=message.headers)._replace(due=due, delay=delay)
    if message.identity is None:
        return Put((job,))
    return Put((job,), nonce_of(*message.identity, topic, str((due, delay))))


def nonce_of(*parts: str | bytes) -> str:
    """Return a nonce for a put: the same for the same parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return f"bridge:{digest.hexdigest()}"
