"""The common part of outlets into brokers: from a job to a message, and where it may go."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from fnmatch import fnmatchcase
from typing import ClassVar, Final, TypeVar

from .._errors import BadOption, PywheelError
from ..jobs.address import TO
from ..jobs.durations import Duration, duration
from ..jobs.handler import GiveUp
from ..jobs.job import Job
from .contract import Outlet, delivery_id, texts

CONTENT_TYPE: Final = "content-type"
MESSAGE_ID: Final = "message-id"
"""The header with a message's id, in place of the delivery's id. The bridge keeps the producer's id there."""
_OWN: Final = frozenset({TO, CONTENT_TYPE, MESSAGE_ID})
_OWN_PREFIXES: Final = ("amqp-", "kafka-")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between tries to connect
_CLOSING: Final = 2.0  # seconds


class NotConfirmed(PywheelError):
    """A message without a broker's confirmation: the attempt failed. The broker may have the message all the same."""


def message_id(job: Job) -> str:
    """Return the id of a job's message, the same at each attempt: the header `message-id`, or the delivery's id."""
    return job.headers.get(MESSAGE_ID) or delivery_id(job)


def passed(job: Job) -> dict[str, str]:
    """Return the headers of the job that go into the message: all except those for the outlet."""
    return {name: value for name, value in job.headers.items() if not is_own(name)}


def is_own(name: str) -> bool:
    """Whether a job's header is for the outlet."""
    return name in _OWN or name.startswith(_OWN_PREFIXES)


class Link(ABC):
    """A connection to a broker."""

    confirmed = 0
    """How many messages the broker has confirmed."""
    closed = False
    """Whether the connection is of no more use, so that another one must be opened."""

    async def blocked(self) -> str:
        """Return why the broker takes nothing for now, or "" if it has not said so."""
        return ""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, within two seconds."""


L = TypeVar("L", bound=Link)


class BrokerOutlet(Outlet[L]):
    """An outlet into a place of a broker: its own, or the one that a job names in `to`.

    A subclass implements `connect` and `publish`.

    Args:
        place: the destination of jobs without a `to`; empty if each job must have one.
        allow: patterns of the places that jobs may name in `to`. By default `place` alone, or any if that is empty.
        timeout: how long a broker may take to be reached, and then to confirm: together less than the handler's ttr.
        name: for people. By default the topic that it handles.
    """

    broker: ClassVar[str]
    """The broker's name, for people."""
    places: ClassVar[str]
    """The broker's word for a destination: stream, subject."""
    away: tuple[type[Exception], ...]
    """The exceptions of the client for a missing answer and for an error from the broker; OSError is among them."""
    keeps_time: ClassVar[bool] = False
    """Whether the client keeps the timeout itself."""

    def __init__(self, place: str, *, allow: Iterable[str] | None, timeout: Duration, name: str | None) -> None:
        super().__init__(name)
        if not isinstance(place, str):
            raise BadOption(f"the {self.places} must be a str, not {type(place).__name__}")
        self.place = place
        if allow is None:
            allow = () if place else ("*",)
        self.allow = texts(allow, "allow")
        self.timeout = duration(timeout, "timeout", 1, error=BadOption) / 1000
        self.longest = 2 * self.timeout
        self.open_timeout = self.timeout + 1.0  # `open` has the better error message

    # ---- what a broker says -----------------------------------------------------------------------------------------

    @abstractmethod
    async def connect(self) -> L:
        """Return a connection on the running loop."""

    @abstractmethod
    async def publish(self, link: L, job: Job) -> str:
        """Publish a job; return a note on the answer once it is confirmed. GiveUp: no attempt can publish it."""

    # ---- an outlet --------------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        return self.place

    async def open(self) -> L:
        """Return a connection; while the broker is away, try again until the timeout. NotConfirmed: it stays away.

        A broker that restarts costs waiting jobs no attempt, and does not change their order.
        """
        loop = asyncio.get_running_loop()
        end, pause, why = loop.time() + self.timeout, _FIRST_PAUSE, ""
        while True:
            try:
                async with asyncio.timeout_at(end):
                    return await self.connect()
            except self.away as error:
                why = str(error) or why or "it does not answer"
                if loop.time() + pause >= end:
                    raise NotConfirmed(f"the broker cannot be reached: {why}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def deliver(self, connection: L, job: Job) -> str:
        """Publish a job; return once it is confirmed. NotConfirmed: not within the timeout."""
        if connection.closed:
            self.drop(connection)
            connection = await self._connection()
        began = connection.confirmed
        try:
            async with nullcontext() if self.keeps_time else asyncio.timeout(self.timeout):
                answer = await self.publish(connection, job)
        except TimeoutError:
            why = await connection.blocked()
            if not why and connection.confirmed == began:  # the connection may be dead without anybody noticing
                self.drop(connection)
            late = f"{self.broker} did not confirm within {self.timeout:g} s"
            raise NotConfirmed(f"{late} ({why or 'no answer'})") from None
        except self.away as error:
            raise NotConfirmed(f"{self.broker} did not confirm: {str(error) or type(error).__name__}") from error
        connection.confirmed += 1
        return answer

    async def close(self, connection: L) -> None:
        with suppress(Exception):  # TimeoutError, and the client's exceptions
            async with asyncio.timeout(_CLOSING):
                await connection.close()

    # ---- where a job goes -------------------------------------------------------------------------------------------

    def place_of(self, job: Job) -> str:
        """Return the destination of a job. GiveUp: it may not go there, or names none though it must."""
        named = job.headers.get(TO)
        if named is not None:
            return self.allowed(named)
        if not self.place:
            raise GiveUp(f"the job names no {self.places} in `to`, and the outlet has none")
        return self.place

    def allowed(self, named: str) -> str:
        """Return the place that a job names: the outlet's own, or one of `allow`. GiveUp: it is neither."""
        if (self.place and named == self.place) or any(fnmatchcase(named, pattern) for pattern in self.allow):
            return named
        raise GiveUp(f"jobs may not choose the {self.places} {named[:80]!r} here: `allow` lists those they may choose")
