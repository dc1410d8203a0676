"""A program's functions around each of its handlers, and for dead jobs."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from .checks import callable_with
from .handler import Handler, is_async, rest_of, to_the_end
from .job import Job, State

_LOGGER: Final = logging.getLogger("pywheel.jobs")

Before = Callable[[Job], object]
After = Callable[[Job, BaseException | None], object]
Dead = Callable[[Job], object]


class Middleware:
    """A program's functions, by when they are called."""

    def __init__(self) -> None:
        self.before: list[Before] = []
        self.after: list[After] = []
        self.dead: list[Dead] = []

    def add(self, functions: list[Any], function: Callable[..., object], what: str) -> None:
        """Add a function. TypeError if it is a coroutine function, or cannot be called."""
        if not callable(function):
            raise TypeError(f"{what} takes a function, not {function!r:.40}")
        awaited = is_async(function) and functions is not self.dead
        if awaited or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{what} takes a plain function, as it is called around handlers in threads too")
        if functions is self.after:
            callable_with(function, 2, "after takes a function of the job and the error")
        else:
            callable_with(function, 1, f"{what} takes a function of the job")
        functions.append(function)

    def around(self, handler: Handler) -> Handler:
        """Return a handler with these functions around it, or the handler itself if there are none."""
        function = self.around_function(handler.function)
        return handler if function is handler.function else replace(handler, function=function)

    def around_function(self, function: Callable[[Job], Any]) -> Callable[[Job], Any]:
        """Return a function of the same kind, with these functions around it, or the function itself if there are none.

        Each call has a context of its own: the handler sees the context variables that the functions set, and then they
        are gone.
        """
        if not self.before and not self.after:
            return function

        async def on_loop(job: Job) -> Any:
            return await self._call(function, job)

        def in_thread(job: Job) -> Any:
            context = contextvars.copy_context()
            result = context.run(self._call, function, job)
            return _within(context, result) if inspect.iscoroutine(result) else result

        return functools.update_wrapper(on_loop if is_async(function) else in_thread, function)

    def call_dead(
        self,
        job: Job,
        error: str | None,
        finish: Callable[[Any], object],
        logged: type[BaseException] | tuple[type[BaseException], ...] = (Exception, SystemExit),
    ) -> None:
        """Call the functions for a dead job. `finish` awaits the coroutine of a coroutine function.

        Errors that are `logged` are not raised: they would end the thread, before the other functions are called.
        """
        dead = job._replace(state=State.DEAD, last_error=error, lease_until=None)
        for function in self.dead:
            try:
                finish(function(dead))
            except logged:
                _LOGGER.exception("%r failed for the dead job %d of %r", function, job.id, job.topic)

    def _call(self, function: Callable[[Job], Any], job: Job) -> Any:
        """Return a handler's result, or a coroutine that awaits the rest of it."""
        try:
            for before in self.before:
                before(job)
            result = function(job)
            rest = rest_of(result)
        except BaseException as error:
            self._leave(job, error)
            raise
        if rest is not None:
            return self._wait(job, rest)
        self._leave(job, None)
        return result

    async def _wait(self, job: Job, rest: Awaitable[Any]) -> Any:
        try:
            result = await to_the_end(rest)
        except BaseException as error:
            self._leave(job, error)
            raise
        self._leave(job, None)
        return result

    def _leave(self, job: Job, error: BaseException | None) -> None:
        for after in reversed(self.after):
            try:
                after(job, error)
            except (Exception, SystemExit, asyncio.CancelledError):  # the handler has done its work: no repetition
                _LOGGER.exception("%r failed after job %d of %r", after, job.id, job.topic)


async def _within(context: contextvars.Context, rest: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.get_running_loop().create_task(rest, context=context)
