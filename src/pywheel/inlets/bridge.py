"""The bridge: takes messages from a broker and puts them as jobs. A message is settled after its put is durable."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from .._errors import PywheelError, StoreClosed, StoreError, StoreReplaced
from ..client.queue import JobQueue
from ..events import JobsPut
from ..jobs.commands import Put
from .received import Received

__all__ = ["Bridge", "Source", "SourceAway"]

_LOGGER: Final = logging.getLogger("pywheel.bridge")
_BYTES: Final = 8 << 20  # of bodies in one transaction: others who write wait for its end
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between tries, of the broker and of the store


class SourceAway(PywheelError):
    """A broker cannot be reached, or the connection to it broke: what was not settled comes again."""


class Source(ABC):
    """Where messages come from. One that is not settled comes again, here or to another bridge."""

    name: str
    """For people, without secrets."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and begin to take messages. SourceAway."""

    @abstractmethod
    async def batch(self, stopped: asyncio.Event) -> list[Received]:
        """Wait for messages, or until `stopped`; return what has come, oldest first. SourceAway."""

    @abstractmethod
    async def settle(self, taken: Sequence[Received], refused: Sequence[Received]) -> None:
        """Take messages off the broker for good: those that are jobs now, and those that cannot be any. SourceAway."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect; what was not settled comes again."""


class Bridge:
    """Carries messages from a source into a queue, in batches: one transaction each.

    A message whose put was made, and that comes again as it could not be settled, is put once, if it has an id. A
    message that cannot be a job is refused, and said in the log. While the store is away messages wait where they are.
    """

    def __init__(self, queue: JobQueue, source: Source) -> None:
        self._queue = queue
        self._source = source
        self._stopped = asyncio.Event()
        self.taken = 0
        """How many messages have become jobs."""
        self.refused = 0
        """How many could not."""

    def stop(self) -> None:
        """Take nothing more; `run` ends once what was taken is settled. On the loop's own thread."""
        self._stopped.set()

    async def run(self) -> None:
        """Work until `stop`.

        Raises:
            StoreClosed, StoreReplaced: there is no point in going on.
        """
        pause = _FIRST_PAUSE
        while not self._stopped.is_set():
            try:
                await self._source.open()
                _LOGGER.info("takes messages from %s", self._source.name)
                pause = _FIRST_PAUSE
                while not self._stopped.is_set():
                    for part in _parts(await self._source.batch(self._stopped)):
                        if not await self._carry(part):
                            break  # stopped, and the store has not taken all: nor is what came after it settled
            except SourceAway as error:
                _LOGGER.warning("%s is away, again in %g s: %s", self._source.name, pause, error)
            finally:
                await self._source.close()
            await self._rest(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _carry(self, received: list[Received]) -> bool:
        """Put what can be, refuse the rest, and settle both. Return whether that was all of it."""
        refused = [message for message in received if message.job is None]
        taken, wrong = await self._put([message for message in received if message.job is not None])
        refused += wrong
        for message in refused:
            _LOGGER.warning("refused a message of %s: %s", self._source.name, message.error)
        await self._source.settle(taken, refused)
        self.taken += len(taken)
        self.refused += len(refused)
        return len(taken) + len(refused) == len(received)

    async def _put(self, messages: list[Received]) -> tuple[list[Received], list[Received]]:
        """Return the messages that are jobs now, and those whose put was refused; try until the store has answered.

        After `stop` it tries no more: what the store has not taken is in neither list, and stays unsettled.
        """
        taken: list[Received] = []
        refused: list[Received] = []
        pause = _FIRST_PAUSE
        while messages:
            outcomes = await self._applied([Put((message.job,), message.nonce) for message in messages if message.job])
            left: list[Received] = []
            for message, outcome in zip(messages, outcomes, strict=True):
                if isinstance(outcome, StoreError):
                    left.append(message)
                elif isinstance(outcome, BaseException):
                    refused.append(message._replace(error=str(outcome)))
                else:
                    taken.append(message)
            self._tell(messages, outcomes)
            if left:
                if self._stopped.is_set():
                    break
                await self._rest(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            messages = left
        return taken, refused

    async def _applied(self, puts: list[Put]) -> Sequence[Any]:
        """Return the outcomes of puts, each by itself; a StoreError for each if the store cannot."""
        try:
            return await asyncio.to_thread(self._queue.store.apply, puts)
        except (StoreClosed, StoreReplaced):
            raise
        except StoreError as error:
            _LOGGER.warning("%d messages wait for the store: %s", len(puts), error)
            return [error] * len(puts)

    def _tell(self, messages: list[Received], outcomes: Sequence[Any]) -> None:
        if not self._queue.events.listeners:
            return
        jobs = [m.job for m, outcome in zip(messages, outcomes, strict=True) if not isinstance(outcome, BaseException)]
        for topic in {job.topic for job in jobs if job}:
            self._queue.events.emit(JobsPut(topic, sum(job is not None and job.topic == topic for job in jobs)))

    async def _rest(self, seconds: float) -> None:
        """Wait, or until `stop`."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            pass


def _parts(received: Sequence[Received]) -> Iterator[list[Received]]:
    """Yield what was received, in parts of bounded size."""
    part: list[Received] = []
    size = 0
    for message in received:
        part.append(message)
        size += 0 if message.job is None else len(message.job.body)
        if size >= _BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
