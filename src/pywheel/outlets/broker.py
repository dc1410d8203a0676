"""What the outlets into brokers have in common: what of a job becomes what of a message, and where it may go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from .._errors import BadOption, PywheelError
from ..jobs.address import TO
from ..jobs.durations import Duration, duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .contract import C, Outlet, delivery_id
from .settings import Settings

__all__ = [
    "CONTENT_TYPE", "MESSAGE_ID", "BrokerOutlet", "NotConfirmed", "address", "chosen", "common", "is_address",
    "is_own", "message_id", "passed", "patient", "patterns",
]  # fmt: skip

CONTENT_TYPE: Final = "content-type"
MESSAGE_ID: Final = "message-id"
"""The header that names a message, instead of the job's own id. The bridge keeps there what a producer gave."""
_OWN: Final = frozenset({TO, CONTENT_TYPE, MESSAGE_ID, "exchange"})
_OWN_PREFIXES: Final = ("amqp-", "kafka-")
_ANY: Final = ("*",)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between tries to connect


class NotConfirmed(PywheelError):
    """A broker did not confirm a message: the attempt failed. The broker may have the message all the same."""


def message_id(job: Job) -> str:
    """Return what names a job's message, the same at each attempt: the header `message-id`, or the delivery's id."""
    return job.headers.get(MESSAGE_ID) or delivery_id(job)


def passed(job: Job) -> dict[str, str]:
    """Return the job's headers that become the message's: all but those that say something to the outlet."""
    return {name: value for name, value in job.headers.items() if not is_own(name)}


def is_own(name: str) -> bool:
    """Whether a job's header says something to an outlet."""
    return name in _OWN or name.startswith(_OWN_PREFIXES)


def patterns(value: Any, name: str) -> tuple[str, ...]:
    """Return patterns of names. BadOption if they are none."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadOption(f"{name} is a list of patterns such as 'orders.*', not {value!r:.60}")
    found = tuple(value)
    if not all(isinstance(pattern, str) for pattern in found):
        raise BadOption(f"{name} is a list of patterns such as 'orders.*', not {value!r:.60}")
    return found


def chosen(name: str, allowed: tuple[str, ...], what: str, option: str = "allow") -> str:
    """Return a name that a job gives. GiveUp if the outlet does not allow it."""
    if not any(fnmatchcase(name, pattern) for pattern in allowed):
        raise GiveUp(f"this outlet does not let a job choose the {what} {name[:80]!r}: {option} names those it may")
    return name


class BrokerOutlet(Outlet[C]):
    """Delivers to a place of a broker: its own, or the one that a job names in `to`.

    Args:
        place: where it delivers what does not say `to`; empty if each job must say.
        allow: patterns of what jobs may say in `to`; unless told `place` alone, anything if that is empty.
        timeout: how long a broker may take to be reached, and then to confirm: together less than the handler's ttr.
        name: for people; the topic that it handles unless told.
    """

    places: str
    """What the broker calls where it delivers: stream, subject."""

    def __init__(self, place: str, *, allow: Iterable[str] | None, timeout: Duration, name: str | None) -> None:
        super().__init__(name)
        if not isinstance(place, str):
            raise BadOption(f"the {self.places} must be a str, not {type(place).__name__}")
        self.place = place
        if allow is None:
            allow = () if place else _ANY
        self.allow = patterns(allow, "allow")
        self.timeout = duration(timeout, "timeout", 1, error=BadOption) / 1000
        self.longest = 2 * self.timeout
        self.open_timeout = self.timeout + 1.0  # `patient` knows better what to say

    @property
    def target(self) -> str:
        """Where it delivers what does not say `to`."""
        return self.place

    def place_of(self, job: Job) -> str:
        """Return where a job goes. GiveUp if it may not, or does not say though it must."""
        named = job.headers.get(TO)
        if named is not None:
            return self.allowed(named)
        if not self.place:
            raise GiveUp(f"the job does not say in `to` to which {self.places} it goes, and the outlet has none")
        return self.place

    def allowed(self, named: str) -> str:
        """Return a place that a job names: the outlet's own, or one of `allow`. GiveUp if it is neither."""
        return named if self.place and named == self.place else chosen(named, self.allow, self.places)


def address(settings: Settings) -> str:
    """Return a broker's address: `url`, or what `url_env` or `url_file` leads to, for one with a password."""
    found = settings.address("url")
    if found is None:
        raise settings.error("url", "give one address: url, or with a password url_env or url_file")
    return found


def is_address(url: Any, schemes: Iterable[str]) -> TypeGuard[str]:
    """Whether it is the address of a host, or of a socket, with one of these schemes."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        return bool(parts and parts.scheme in schemes and (parts.hostname or parts.path) and parts.port != 0)
    except ValueError:  # of its port, or of brackets
        return False


def common(name: str, settings: Settings) -> dict[str, Any]:
    """Return the words of a table that all outlets into brokers know."""
    said = settings.says("allow")
    allow = settings.texts("allow", _ANY)
    return {
        "allow": allow if said else None,
        "timeout": settings.seconds("timeout", 15.0),
        "name": name,
    }


async def patient(connect: Callable[[], Awaitable[C]], seconds: float, away: type[Exception]) -> C:
    """Return a connection; while the broker is away try again, for so long. NotConfirmed if it stays away.

    A broker that restarts costs the jobs that wait here no attempt, and leaves them in their order.
    """
    loop = asyncio.get_running_loop()
    end, pause, why = loop.time() + seconds, _FIRST_PAUSE, ""
    while True:
        try:
            async with asyncio.timeout_at(end):
                return await connect()
        except (away, OSError) as error:  # TimeoutError is one
            why = str(error) or why or "it does not answer"
            if loop.time() + pause >= end:
                raise NotConfirmed(f"the broker cannot be reached: {why}") from error
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
