"""What every method of the queue stands on: one command, one outcome, blocking or for asyncio."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from ..events import Events, JobsPut
from ..jobs.commands import Command, Put
from ..stores.contract import Store, intact
from .async_batches import AsyncBatches, Promise
from .traced import Traced

__all__ = ["Base"]

R = TypeVar("R")


class Base:
    """A store, who is told of what happened, and the batches of asyncio."""

    store: Store
    events: Events
    max_body: int
    _batches: AsyncBatches

    def apply(self, command: Command[R]) -> R:
        """Apply a command of `pywheel.jobs.commands`; return its outcome, which its class says. One commit.

        What the other methods do, by commands: for those who make these themselves, as the HTTP API does.

        Raises:
            PywheelError: the outcome is one, or the store cannot do it; then nothing has changed.
        """
        if self.events.tracer is None:
            [outcome] = self.store.apply((command,))
        else:
            with Traced(self.events.tracer, (command,)) as traced:
                traced.outcomes = self.store.apply(traced.commands)
            [outcome] = traced.outcomes
        if isinstance(outcome, BaseException):
            raise outcome
        if self.events.listeners:
            self._applied((command,), (outcome,))
        return outcome  # type: ignore[no-any-return]  # what the command's class says

    def apply_for(self, command: Command[R], promise: Promise) -> None:
        """`aapply`, without a coroutine: the promise gets the outcome, on the running loop, or what would be raised.

        For servers, whose requests are answered without a task of their own. Tracers do not see it.
        """
        self._batches.add_for(command, promise)

    async def aapply(self, command: Command[R]) -> R:
        """`apply`, for asyncio: a command shares a transaction with those of other tasks."""
        if self.events.tracer is None:
            return await self._batches.add(command)
        with Traced(self.events.tracer, (command,)) as traced:
            traced.outcomes = [await self._batches.add(command) for command in traced.commands]
        return traced.outcomes[0]  # type: ignore[no-any-return]  # what the command's class says

    def _outcome(self, command: Command[R]) -> Awaitable[R]:
        """`aapply`, without a coroutine of its own where there is no tracer."""
        return self._batches.add(command) if self.events.tracer is None else self.aapply(command)

    def apply_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in order, in one transaction; return the outcome of each.

        An outcome may be an exception, a PywheelError that says why its command has changed nothing: the others have
        happened. What several stores share is in `SetNote` and `Store.apply`.

        Raises:
            StoreError: the store cannot do it; then nothing has changed.
        """
        if self.events.tracer is None:
            outcomes = intact(self.store.apply(commands))
        else:
            with Traced(self.events.tracer, commands) as traced:
                traced.outcomes = outcomes = intact(self.store.apply(traced.commands))
        self._applied(commands, outcomes)
        return outcomes

    async def aapply_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """`apply_all`, for asyncio."""
        if self.events.tracer is None:
            return await self._together(commands)
        with Traced(self.events.tracer, commands) as traced:
            traced.outcomes = outcomes = await self._together(traced.commands)
        return outcomes

    async def _together(self, commands: Sequence[Command[Any]]) -> list[Any]:
        return intact(await self._batches.together(commands))

    def _put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        if self.events.tracer is None:
            return self.store.put_within(connection, put)
        with Traced(self.events.tracer, (put,)) as traced:
            traced.outcomes = [self.store.put_within(connection, command) for command in traced.commands]  # type: ignore[arg-type]  # puts
        return traced.outcomes[0]  # type: ignore[no-any-return]  # as above

    def _applied(self, commands: Sequence[Command[Any]], outcomes: Sequence[Any]) -> None:
        """Tell of the jobs that were put; called after they are durable."""
        if not self.events.listeners:
            return
        puts: Counter[str] = Counter()
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(command, Put) and not isinstance(outcome, BaseException):
                puts.update([job.topic for job in command.jobs])
        for topic, count in puts.items():
            self.events.emit(JobsPut(topic, count))
