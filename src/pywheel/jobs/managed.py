"""Handlers that are objects with something to open and to close, such as connections."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from .commands import Command
from .job import Job
from .queries import Query

__all__ = ["ManagedHandler", "Notes", "close_all"]

R = TypeVar("R")
_LOGGER: Final = logging.getLogger("pywheel.jobs")


class Notes(Protocol):
    """What an outlet may ask of a store. Blocking calls, for threads."""

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query, as of notes. StoreError."""

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands, as a store does. StoreError."""


class ManagedHandler(ABC):
    """A handler that a worker tells where it is, and when to let go."""

    @abstractmethod
    async def __call__(self, job: Job) -> None:
        """Handle a job."""

    @abstractmethod
    def attach(self, topic: str, notes: Notes, concurrency: int) -> None:
        """Take in a topic that it handles, the notes of its store, and how many of its jobs are under way at most.

        Called before the first job.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close what it has opened on the running loop. Called on the loop of its jobs, after the last of them."""


async def close_all(functions: Iterable[Any]) -> None:
    """Close what handlers have opened on the running loop. Never raises an Exception: each is logged."""
    for function in dict.fromkeys(function for function in functions if isinstance(function, ManagedHandler)):
        try:
            await function.aclose()
        except Exception:  # the others are closed all the same
            _LOGGER.exception("a handler could not be closed: %r", function)
