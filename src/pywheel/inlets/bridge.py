"""The bridge: takes messages from a broker and puts them as jobs. A message is settled after its put is durable."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

from .._errors import BadJob, PywheelError, StoreClosed, StoreError, StoreReplaced
from ..client.queue import JobQueue
from ..jobs.commands import Put
from .received import Message, put_of

_LOGGER: Final = logging.getLogger("pywheel.bridge")
_BYTES: Final = 8 << 20  # bytes of bodies in one transaction: other writers wait for its end
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between tries, of the broker and of the store


class SourceAway(PywheelError):
    """A broker cannot be reached, or the connection broke. Messages that were not settled come again."""


class Source(ABC):
    """A source of messages. A message that is not settled comes again, here or to another bridge."""

    name: str
    """A name for people, without secrets."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and begin to take messages. SourceAway."""

    @abstractmethod
    async def batch(self, stopped: asyncio.Event) -> list[Message]:
        """Wait for messages, or until `stopped`; return the messages, oldest first. SourceAway."""

    @abstractmethod
    async def settle(self, taken: Sequence[Message], refused: Sequence[Message]) -> None:
        """Take messages off the broker for good: those that are jobs now, and those that cannot be jobs. SourceAway."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect. Messages that were not settled come again."""


class Bridge:
    """Carries messages from a source into a topic of a queue, in batches: one transaction each.

    If a message is put but cannot be settled, it comes again. It is still put once, if it has an id. A message that
    cannot be a job is refused and logged. While the store is away, messages wait in the broker.
    BadJob if the topic is not valid.
    """

    def __init__(self, queue: JobQueue, topic: str, source: Source) -> None:
        queue.job(topic)  # BadJob
        self._queue = queue
        self._topic = topic
        self._source = source
        self._stopped = asyncio.Event()
        self.taken = 0
        """The number of messages that have become jobs."""
        self.refused = 0
        """The number of messages that could not become jobs."""

    def stop(self) -> None:
        """Take no more messages; `run` ends when those that are jobs are settled. Call this on the loop's thread."""
        self._stopped.set()

    async def run(self) -> None:
        """Work until `stop`.

        Raises:
            StoreClosed, StoreReplaced: further tries would fail.
        """
        pause, clock = _FIRST_PAUSE, self._queue.store.clock
        while not self._stopped.is_set():
            opened = inf
            try:
                await self._source.open()
                opened = clock.time()
                _LOGGER.info("takes messages from %s", self._source.name)
                while not self._stopped.is_set():
                    for part in _parts(await self._source.batch(self._stopped)):
                        if not await self._carry(part):
                            break  # stopped, and the store has not taken all: leave the later parts
                        pause = _FIRST_PAUSE  # not before: a message may break each connection that it comes by
            except SourceAway as error:
                if clock.time() - opened > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE  # it was there, though maybe no message came
                _LOGGER.warning("%s is away, again in %g s: %s", self._source.name, pause, error)
            finally:
                await self._source.close()
            await self._rest(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _carry(self, messages: list[Message]) -> bool:
        """Put the messages that can be jobs, refuse the others, and settle both. Return whether all are settled."""
        taken: list[Message] = []
        refused: list[Message] = []
        puts: list[tuple[Message, Put]] = []
        for message in messages:
            try:
                puts.append((message, put_of(self._queue, self._topic, message)))
            except BadJob as error:
                self._refuse(message, error)
                refused.append(message)
        async for message, outcome in self._put(puts):
            if isinstance(outcome, BaseException):
                self._refuse(message, outcome)
                refused.append(message)
            else:
                taken.append(message)
        await self._source.settle(taken, refused)
        self.taken += len(taken)
        self.refused += len(refused)
        return len(taken) + len(refused) == len(messages)

    def _refuse(self, message: Message, why: BaseException) -> None:
        _LOGGER.warning("refused a message of %s: %s (%s)", self._source.name, why, message.place)

    async def _put(self, puts: list[tuple[Message, Put]]) -> AsyncIterator[tuple[Message, Any]]:
        """Yield messages with the outcomes of their puts; try until the store has answered.

        After `stop` it tries no more: messages that the store has not taken are left out, and stay unsettled.
        """
        pause = _FIRST_PAUSE
        while puts:
            outcomes = await self._applied([put for _, put in puts])
            left = []
            for (message, put), outcome in zip(puts, outcomes, strict=True):
                if isinstance(outcome, StoreError):
                    left.append((message, put))
                else:
                    yield message, outcome
            self._queue.calls.applied([put for _, put in puts], outcomes)
            if left:
                if self._stopped.is_set():
                    return
                await self._rest(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            puts = left

    async def _applied(self, puts: list[Put]) -> Sequence[Any]:
        """Return the outcome of each put; a StoreError for each if the store fails."""
        try:
            return await asyncio.to_thread(self._queue.store.apply, puts)
        except (StoreClosed, StoreReplaced):
            raise
        except StoreError as error:
            _LOGGER.warning("%d messages wait for the store: %s", len(puts), error)
            return [error] * len(puts)

    async def _rest(self, seconds: float) -> None:
        """Wait for `seconds`, or until `stop`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()


def _parts(received: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield received messages in parts of about `_BYTES`."""
    part: list[Message] = []
    size = 0
    for message in received:
        part.append(message)
        size += len(message.body)
        if size >= _BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
