"""What runs a job: a function of the program, and on what terms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._errors import BadJob, PywheelError
from .checks import whole
from .commands import Terms
from .job import Job
from .retry import RetryPolicy

__all__ = ["GiveUp", "Handler", "RetryLater", "is_async"]


class GiveUp(PywheelError):
    """Raised by a handler: no further attempt makes sense, the job is dead now."""


class RetryLater(PywheelError):
    """Raised by a handler: the attempt failed, and the next one is due after `delay`, whatever the policy says."""

    def __init__(self, delay: Any, message: str = "") -> None:
        from .durations import duration

        super().__init__(message or f"again in {delay}")
        self.delay = duration(delay)


@dataclass(frozen=True, slots=True)
class Handler:
    """A topic's handler. `function` takes the Job; what it returns is ignored, what it raises is a failed attempt."""

    topic: str
    function: Callable[[Job], Any]
    concurrency: int
    ttr: int
    retry: RetryPolicy
    keep_lease: bool

    def __post_init__(self) -> None:
        whole(self.concurrency, "concurrency", 10_000)
        if self.ttr < 1:
            raise BadJob("ttr must be 1 ms or more")
        if not callable(self.function):
            raise BadJob(f"a handler must be callable, not {type(self.function).__name__}")

    @property
    def terms(self) -> Terms:
        """On what terms its jobs are claimed."""
        return Terms(self.ttr, self.retry.max_attempts, self.retry.delays)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
