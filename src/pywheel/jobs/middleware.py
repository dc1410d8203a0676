"""What a program has done around each of its handlers, and when a job is dead."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

from .._errors import BadJob
from .handler import Handler, is_async, rest_of
from .job import Job, State

__all__ = ["After", "Before", "Dead", "Middleware"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")

Before = Callable[[Job], object]
After = Callable[[Job, BaseException | None], object]
Dead = Callable[[Job], object]


class Middleware:
    """Functions of a program's own, by when they are called."""

    def __init__(self) -> None:
        self.before: list[Before] = []
        self.after: list[After] = []
        self.dead: list[Dead] = []

    def add(self, functions: list[Any], function: Callable[..., object], what: str) -> None:
        """Take one in. BadJob for one that would have to be awaited, or cannot be called."""
        if not callable(function):
            raise BadJob(f"{what} takes a function, not {function!r:.40}")
        awaited = is_async(function) and functions is not self.dead
        if awaited or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise BadJob(f"{what} takes a plain function, as it is called around handlers in threads too")
        functions.append(function)

    def around(self, handler: Handler) -> Handler:
        """Return a handler with these around it, or the handler itself if there are none."""
        if not self.before and not self.after:
            return handler
        return replace(handler, function=self.around_function(handler.function))

    def around_function(self, function: Callable[[Job], Any]) -> Callable[[Job], Any]:
        """Return a function of the same kind, with these around it, or the function itself if there are none.

        It runs in a context of its own: what they set in context variables is there for the handler, and gone then.
        """
        if not self.before and not self.after:
            return function

        async def on_loop(job: Job) -> Any:
            with self._standing(job):
                return await _to_the_end(function(job))

        def in_thread(job: Job) -> Any:
            context = contextvars.copy_context()
            return context.run(self._call, function, job, context)

        return functools.update_wrapper(on_loop if is_async(function) else in_thread, function)

    def call_dead(self, job: Job, error: str | None, finish: Callable[[Any], object]) -> None:
        """Tell that a job is dead. `finish` awaits what a coroutine function returned. Never raises an Exception."""
        dead = job._replace(state=State.DEAD, last_error=error, lease_until=None)
        for function in self.dead:
            try:
                finish(function(dead))
            except Exception:
                _LOGGER.exception("%r failed for the dead job %d of %r", function, job.id, job.topic)

    def _call(self, function: Callable[[Job], Any], job: Job, context: contextvars.Context) -> Any:
        with ExitStack() as stack:
            stack.enter_context(self._standing(job))
            result = function(job)
            rest = rest_of(result)
            if rest is None:
                return result
            return _within(context, _closing(rest, stack.pop_all()))

    @contextmanager
    def _standing(self, job: Job) -> Iterator[None]:
        error: BaseException | None = None
        try:
            for before in self.before:
                before(job)
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            for after in reversed(self.after):
                try:
                    after(job, error)
                except Exception:  # the handler has done what it did, and is not to do it again
                    _LOGGER.exception("%r failed after job %d of %r", after, job.id, job.topic)


async def _within(context: contextvars.Context, rest: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.get_running_loop().create_task(rest, context=context)


async def _closing(rest: Awaitable[Any], stack: ExitStack) -> Any:
    with stack:
        return await _to_the_end(rest)


async def _to_the_end(result: Any) -> Any:
    """Await a handler's result, and what that leaves; return the last of it."""
    while (rest := rest_of(result)) is not None:
        result = await rest
    return result
