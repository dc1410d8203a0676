"""The contract of outlets: handlers that deliver their jobs elsewhere, at least once, and note the answer.

An outlet is registered like any handler, ``queue.handler("shop.notify", concurrency=200)(Webhook(...))``. It returns
once the receiver has confirmed. An exception is a failed attempt; GiveUp also makes the job dead, and RetryLater sets
the delay. NotNow gives the job back unspent.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, ClassVar, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from .._errors import BadOption
from ..jobs.address import TO
from ..jobs.job import Job
from ..jobs.managed import ManagedHandler, Notes
from .answers import Answers, in_background

C = TypeVar("C")
_LONGEST_NAME: Final = 100


def _short(name: str) -> str:
    """Return a name short enough to begin a note's name."""
    return (name or "outlet")[:_LONGEST_NAME].replace(":", ".")


def delivery_id(job: Job) -> str:
    """Return the id of a delivery, by which a receiver drops repeats: the same at each attempt, on each worker.

    Besides the job's id and the time of its put it has a hash of what is delivered, as another store may have given out
    the same id in the same ms. Jobs of two stores that are equal in all of that have one id. An edit changes the id.
    """
    head = json.dumps([job.topic, job.key, sorted(job.headers.items())]).encode()
    return f"job_{job.id}_{job.created:x}_{blake2b(head + job.body, digest_size=8).hexdigest()}"


class Outlet(ManagedHandler, ABC, Generic[C]):
    """A handler with a connection, which opens on the loop of its jobs with the first job and closes with the worker.

    A subclass implements `open`, `deliver` and `close`. One object may serve several topics, and several workers of a
    process: each loop has a connection of its own.

    Args:
        name: for people, and for `pywheel outlets`. By default the first topic that it handles.
    """

    kind: ClassVar[str]
    """The kind of its target: ``webhook``, ``rabbitmq``."""
    secret_words: ClassVar[frozenset[str]] = frozenset()
    """Arguments that must not be in a config file, as they are secrets."""
    open_timeout: float = 15.0
    """Seconds within which the connection must open."""
    longest: float | None = None
    """Seconds that a delivery may take, if that is bounded: its handler's ttr is longer."""
    room: int | None = None
    """The most deliveries of a topic at once: the least of its topics' values. None before it has a topic."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None and _short(name) != name:
            raise BadOption(
                f"the name of an outlet has 1 to {_LONGEST_NAME} characters and no colon, not {name[:60]!r}"
            )
        self.name = name
        self.answers = Answers(self.kind)
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[C]] = WeakKeyDictionary()

    @property
    def target(self) -> str:
        """The destination of jobs without a `to`, without secrets, for people. Empty if each job must have one."""
        return ""

    # ---- what a kind says -------------------------------------------------------------------------------------------

    @abstractmethod
    async def open(self) -> C:
        """Return a connection on the running loop. An exception fails an attempt of each job that waits for it."""

    @abstractmethod
    async def deliver(self, connection: C, job: Job) -> str | None:
        """Deliver a job; return once it is confirmed, with a note on the answer, such as ``200``, or None."""

    @abstractmethod
    async def close(self, connection: C) -> None:
        """Close a connection, within a second or so."""

    # ---- a handler --------------------------------------------------------------------------------------------------

    async def __call__(self, job: Job) -> None:
        """Deliver a job."""
        where = job.headers.get(TO) or self.target
        try:
            status = await self.deliver(await self._connection(), job)
        except Exception as error:
            self.answers.note(where, None, error)
            raise
        self.answers.note(where, status)

    def attach(self, topic: str, notes: Notes, concurrency: int) -> None:
        """Take the topic as the name, if there is none, and keep answers in these notes."""
        self.name = self.name or _short(topic)
        self.room = concurrency if self.room is None else min(self.room, concurrency)
        self.answers.keep_in(notes, self.name)

    async def aclose(self) -> None:
        """Close the running loop's connection, if there is one, and keep the last answers. The outlet stays usable."""
        opening = self._connections.pop(asyncio.get_running_loop(), None)
        try:
            if opening is not None:
                await self._close(opening)
        finally:
            await self.answers.flush()
            self.answers.look_again()

    def drop(self, connection: C) -> None:
        """Close a broken connection in the background. The next job opens another one."""
        loop = asyncio.get_running_loop()
        opening = self._connections.get(loop)
        if opening is not None and opening.done() and not _failed(opening) and opening.result() is connection:
            del self._connections[loop]
            in_background(self._close(opening))

    async def _connection(self) -> C:
        """Return the connection, which one caller opens for all. A failure is for all of them; the next one tries."""
        loop = asyncio.get_running_loop()
        opening = self._connections.get(loop)
        if opening is None or _failed(opening):
            opening = self._connections[loop] = loop.create_task(self._opened())
        return await asyncio.shield(opening)  # a cancelled caller does not cancel the others' connection

    async def _opened(self) -> C:
        async with asyncio.timeout(self.open_timeout):
            return await self.open()

    async def _close(self, opening: asyncio.Task[C]) -> None:
        if not opening.done():
            opening.cancel()
        [connection] = await asyncio.gather(opening, return_exceptions=True)
        if not isinstance(connection, BaseException):
            await self.close(connection)


def _failed(opening: asyncio.Task[Any]) -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


def texts(value: Any, name: str, *, least: int = 0) -> tuple[str, ...]:
    """Return non-empty texts. BadOption: they are something else, or fewer than `least`."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadOption(f"{name} must be a list of texts, not {value!r:.60}")
    found = tuple(value)
    if not all(isinstance(text, str) and text for text in found):
        raise BadOption(f"{name} must be a list of texts, none of them empty")
    if len(found) < least:
        raise BadOption(f"{name} is empty: leave it out, or name at least one")
    return found
