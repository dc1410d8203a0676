"""What a program provides to its tasks: a database session, opened before each job and closed after it."""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, get_args, get_origin

from .._errors import BadOption
from ..jobs.job import Job
from .hints import hints, parameters

__all__ = ["Provider", "Providers", "provided"]

_ITERATORS: Final = {
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.Iterable,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterable,
}


class _Provided:
    """The default of a parameter that the queue provides."""

    def __repr__(self) -> str:
        return "provided"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"nothing was provided, so there is no {name}: a plain call of a task gives all itself")


provided: Final[Any] = _Provided()
"""The default that says: the queue provides this one, a put does not. For type checkers, and for readers."""


class Provider:
    """A generator function, or an async one, that yields once what it provides, and closes it then.

    Raises:
        TypeError: it is something else.
        BadOption: it takes more than the job.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.is_async = inspect.isasyncgenfunction(function)
        if not self.is_async and not inspect.isgeneratorfunction(function):
            raise TypeError(
                f"provide takes a generator function, which yields once what it provides, not {function!r:.80}"
            )
        self.name: str = function.__name__
        self.function = function
        takes = len(parameters(function))
        self._takes_job = takes == 1
        if takes > 1:
            raise BadOption(f"{self.name} provides with nothing but the job: it has more parameters than one")
        self._manager: Callable[..., Any] = (asynccontextmanager if self.is_async else contextmanager)(function)

    @property
    def type(self) -> Any:
        """What it yields, by its annotation; None if it has none that names a class of the program's."""
        returned = hints(self.function).get("return")
        if get_origin(returned) not in _ITERATORS:
            return None
        yielded = get_args(returned)[0]
        plain = not isinstance(yielded, type) or yielded.__module__ == "builtins"  # such are arguments
        return None if plain else yielded

    def open(self, job: Job, stack: ExitStack | AsyncExitStack) -> Any:
        """Return what it provides; the stack closes it. It sees what the handler raises, and keeps nobody from it."""
        manager = self._manager(job) if self._takes_job else self._manager()
        value = manager.__enter__()
        stack.push(partial(_closed, manager))
        return value

    async def aopen(self, job: Job, stack: AsyncExitStack) -> Any:
        """`open`, of an async one."""
        manager = self._manager(job) if self._takes_job else self._manager()
        value = await manager.__aenter__()
        stack.push_async_exit(partial(_aclosed, manager))
        return value


def _closed(manager: Any, *raised: Any) -> bool:
    manager.__exit__(*raised)
    return False  # whether or not the provider raised it again: the job has failed, and what was opened before is told


async def _aclosed(manager: Any, *raised: Any) -> bool:
    await manager.__aexit__(*raised)
    return False


class Providers:
    """All that a program provides."""

    def __init__(self) -> None:
        self._by_name: dict[str, Provider] = {}
        self.count = 0
        """How many they are; who has looked before sees that there are more."""

    def add(self, function: Callable[..., Any]) -> None:
        """Take one in. BadOption if it is none, or its name is taken."""
        provider = Provider(function)
        if provider.name in self._by_name:
            raise BadOption(f"something else is provided as {provider.name!r}")
        self._by_name[provider.name] = provider
        self.count = len(self._by_name)

    def wanted(self, name: str, annotation: Any) -> Provider | None:
        """Return what provides a parameter: what yields its type, or else has its name. BadOption if two yield it."""
        found = [one for one in self._by_name.values() if annotation is one.type is not None]
        if len(found) == 1:
            return found[0]
        if found and name not in self._by_name:
            names = " and ".join(provider.name for provider in found)
            raise BadOption(f"{names} both provide a {annotation.__qualname__}: name the parameter after one of them")
        return self._by_name.get(name)
