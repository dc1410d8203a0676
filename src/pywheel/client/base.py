"""What every method of the queue stands on: one command, one outcome, blocking or for asyncio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from ..events import Events, JobsPut
from ..jobs.commands import Command, Put
from ..stores.contract import Store
from .async_batches import AsyncBatches

__all__ = ["Base"]

R = TypeVar("R")


class Base:
    """A store, who is told of what happened, and the batches of asyncio."""

    store: Store
    events: Events
    max_body: int
    _batches: AsyncBatches

    def _do(self, command: Command[R]) -> R:
        """Return the outcome of a command, or raise it."""
        [outcome] = self.store.apply((command,))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]  # what the command's class says

    async def _ado(self, command: Command[R]) -> R:
        """Return the outcome of a command that went to the store with those of other tasks, or raise it."""
        return await self._batches.add(command)

    def _applied(self, commands: Sequence[Command[Any]], outcomes: Sequence[Any]) -> None:
        """Tell of the jobs that were put; called after they are durable."""
        if not self.events.listeners:
            return
        puts: Counter[str] = Counter()
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(command, Put) and not isinstance(outcome, BaseException):
                puts.update([job.topic for job in command.jobs])
        for topic, count in puts.items():
            self.events.tell(JobsPut(topic, count))
