"""Each method of the queue is written once, as a plan; the blocking method and its awaitable twin both carry it out.

A plan checks the arguments and returns what the store is to be asked. It is on the way of every put: no object is made
that need not be.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from ..jobs.commands import Op
from ..observe.metrics import Metrics

if TYPE_CHECKING:
    from .queue import JobQueue

__all__ = ["Learn", "change", "look", "plain"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Both: TypeAlias = "tuple[Callable[Concatenate[JobQueue, _P], _T], Callable[Concatenate[JobQueue, _P], Awaitable[_T]]]"
Learn = Callable[[Metrics, Any, Any], _T]
"""Called with a command and its outcome, if that is no error: counts it, and returns what the caller gets."""


def plain(metrics: Metrics, op: Any, outcome: Any) -> Any:  # noqa: ARG001  (a Learn)
    """Return the outcome as it is."""
    return outcome


def change(plan: Callable[Concatenate[JobQueue, _P], Op], learn: Learn[_T]) -> _Both[_P, _T]:
    """Return the method that lets the store apply the plan's command, and its twin for asyncio.

    Bad arguments raise at once in both. An outcome that is an error is raised.
    """

    def blocking(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        op = plan(queue, *args, **kwargs)
        [outcome] = queue.store.apply((op,))
        if isinstance(outcome, BaseException):
            raise outcome
        return learn(queue.metrics, op, outcome)

    def awaitable(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        return queue.batches.add(queue.metrics, plan(queue, *args, **kwargs), learn)

    _name(plan, blocking, awaitable)
    return blocking, awaitable


def look(plan: Callable[Concatenate[JobQueue, _P], Callable[[], _T]]) -> _Both[_P, _T]:
    """Return the method that asks the plan's question, and its twin, which does so in a thread of the loop's pool."""

    def blocking(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return plan(queue, *args, **kwargs)()

    def awaitable(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(None, plan(queue, *args, **kwargs))

    _name(plan, blocking, awaitable)
    return blocking, awaitable


def _name(plan: Callable[..., Any], blocking: Callable[..., Any], awaitable: Callable[..., Any]) -> None:
    for method, name in ((blocking, plan.__name__[1:]), (awaitable, "a" + plan.__name__[1:])):
        functools.update_wrapper(method, plan)
        method.__name__ = name
        method.__qualname__ = f"JobQueue.{name}"
        # What a plan returns is not what the method returns.
        method.__signature__ = inspect.signature(plan).replace(return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
