"""Values that a program provides to its tasks, such as a database session: opened before each job, closed after it."""

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
"""The default of a parameter that the queue provides and a put does not give. For type checkers and readers."""


class Provider:
    """A generator function, or an async one, that yields a value once, and closes it afterwards.

    Raises:
        TypeError: it is not a generator function.
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
        if takes > 1:
            raise BadOption(f"{self.name} provides with nothing but the job: it has more parameters than one")
        manager: Callable[..., Any] = (asynccontextmanager if self.is_async else contextmanager)(function)
        self._manager: Callable[[Job], Any] = manager if takes else lambda _: manager()

    @property
    def type(self) -> Any:
        """The type that it yields, by its annotation; None unless that names a class of the program."""
        returned = hints(self.function).get("return")
        if get_origin(returned) not in _ITERATORS:
            return None
        yielded = get_args(returned)[0]
        plain = not isinstance(yielded, type) or yielded.__module__ == "builtins"  # built-in types are arguments
        return None if plain else yielded

    def open(self, job: Job, stack: ExitStack | AsyncExitStack) -> Any:
        """Return the value; the stack closes it. The generator sees the handler's error, but cannot suppress it."""
        manager = self._manager(job)
        value = manager.__enter__()
        stack.push(partial(_closed, manager))
        return value

    async def aopen(self, job: Job, stack: AsyncExitStack) -> Any:
        """`open`, for an async generator."""
        manager = self._manager(job)
        value = await manager.__aenter__()
        stack.push_async_exit(partial(_aclosed, manager))
        return value


def _closed(manager: Any, *raised: Any) -> bool:
    manager.__exit__(*raised)
    return False  # even if the generator swallowed the error: the job has failed, and outer generators see that


async def _aclosed(manager: Any, *raised: Any) -> bool:
    await manager.__aexit__(*raised)
    return False


class Providers:
    """All providers of a program."""

    def __init__(self) -> None:
        self._by_name: dict[str, Provider] = {}
        self.count = 0
        """The number of providers. A larger number than before means that there are new ones."""

    def add(self, function: Callable[..., Any]) -> None:
        """Add a provider. TypeError or BadOption if the function cannot be one; BadOption if its name is taken."""
        provider = Provider(function)
        if provider.name in self._by_name:
            raise BadOption(f"something else is provided as {provider.name!r}")
        self._by_name[provider.name] = provider
        self.count = len(self._by_name)

    def wanted(self, name: str, annotation: Any) -> Provider | None:
        """Return a parameter's provider: the one of its type, or else of its name. BadOption if two yield the type."""
        found = [one for one in self._by_name.values() if annotation is one.type is not None]
        if len(found) == 1:
            return found[0]
        if found and name not in self._by_name:
            names = " and ".join(provider.name for provider in found)
            raise BadOption(f"{names} both provide a {annotation.__qualname__}: name the parameter after one of them")
        return self._by_name.get(name)
