"""Handlers that are objects with resources to open and close, such as connections."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from .commands import Command
from .job import Job
from .queries import Query

R = TypeVar("R")
_LOGGER: Final = logging.getLogger("pywheel.jobs")


class Notes(Protocol):
    """The calls to a store that an outlet may make. They block, and are for threads."""

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query, such as for a note. StoreError."""

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands, as a store does. StoreError."""


class ManagedHandler(ABC):
    """A handler that learns its topic from the worker, and when to close its resources."""

    @abstractmethod
    async def __call__(self, job: Job) -> None:
        """Handle a job."""

    @abstractmethod
    def attach(self, topic: str, notes: Notes, concurrency: int) -> None:
        """Tell the handler a topic of its own, the notes of its store, and how many of its jobs run at most.

        Called before the first job.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the handler's resources on the running loop. Called on the loop of its jobs, after the last of them."""


async def close_all(functions: Iterable[Any]) -> None:
    """Close the handlers' resources on the running loop. Logs each Exception, and raises none."""
    for function in dict.fromkeys(function for function in functions if isinstance(function, ManagedHandler)):
        try:
            await function.aclose()
        except Exception:  # the others are closed nevertheless
            _LOGGER.exception("a handler could not be closed: %r", function)
