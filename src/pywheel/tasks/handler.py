"""The handlers of tasks: they call a function with the parameters that it has, and close its providers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from .._errors import BadOption
from ..jobs.handler import is_async
from ..jobs.job import Job
from .arguments import encoded_result
from .providers import Provider
from .signature import Asked, Signature


class TaskHandler:
    """Handles jobs by a function that runs in a thread. It has the function's name, for child processes."""

    _awaits = False  # whether async providers can be entered

    def __init__(self, function: Callable[..., Any], signature: Signature, *, encodes: bool) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self._signature = signature
        self._result = encoded_result if encodes else lambda result: result

    def __call__(self, job: Job) -> Any:
        """Handle a job; return the function's result. BadOption if a parameter cannot be provided, BadArguments."""
        arguments, provided = self._given(job)
        if not provided:
            return self._result(self.function(**arguments))
        with ExitStack() as stack:
            for name, provider in provided:
                arguments[name] = provider.open(job, stack)
            result = self.function(**arguments)
            if inspect.isawaitable(result):
                return self._awaited(result, stack.pop_all())
            return self._result(result)

    async def _awaited(self, rest: Awaitable[Any], stack: ExitStack) -> Any:
        with stack:
            return self._result(await rest)

    def _given(self, job: Job) -> tuple[dict[str, Any], list[tuple[str, Provider]]]:
        """Return the arguments of a job, and the providers to open for it, by name."""
        asked = self._signature.asked()
        arguments = asked.arguments.decoded(job.body)
        for name in asked.jobs:
            arguments[name] = job
        return arguments, self._providers(asked) if asked.provided else []

    def check(self) -> None:
        """Raise the error that every job would fail with: BadOption, BadArguments. All types are defined by now."""
        self._providers(self._signature.asked())

    def _providers(self, asked: Asked) -> list[tuple[str, Provider]]:
        """Return the providers of the parameters that need one, by name."""
        found = []
        for name, provider in asked.provided:
            if provider is None:
                raise BadOption(f"nothing provides {name!r} of {self._signature.task}: use @queue.provide")
            if provider.is_async and not self._awaits:
                raise BadOption(f"{self._signature.task} must be async: what provides its {name!r} is")
            found.append((name, provider))
        return found


class AsyncTaskHandler(TaskHandler):
    """Handles jobs by a coroutine function."""

    _awaits = True

    async def __call__(self, job: Job) -> Any:
        """Handle a job; return the function's result. BadOption if a parameter cannot be provided, BadArguments."""
        arguments, provided = self._given(job)
        if not provided:
            return self._result(await self.function(**arguments))
        async with AsyncExitStack() as stack:
            for name, provider in provided:
                given = await provider.aopen(job, stack) if provider.is_async else provider.open(job, stack)
                arguments[name] = given
            return self._result(await self.function(**arguments))


def task_handler(function: Callable[..., Any], signature: Signature, *, encodes: bool) -> TaskHandler:
    """Return a handler that calls a function with the parameters that it has.

    Args:
        function: the program's function.
        signature: its signature.
        encodes: whether results are encoded as bytes.

    Raises:
        TypeError: the function is a generator function, whose body nothing would run.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"a task must not be a generator: remove yield from {function!r:.80}")
    kind = AsyncTaskHandler if is_async(function) else TaskHandler
    return kind(function, signature, encodes=encodes)
