"""Each method of the queue is written once, as a plan; the blocking method and its awaitable twin both carry it out."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ..stores.ops import Op
    from .queue import JobQueue

__all__ = ["Change", "Look", "both"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Change(Generic[_T]):
    """A command for the store, and what its outcome means to the caller. An outcome that is an error is raised."""

    __slots__ = ("finish", "op")

    def __init__(self, op: Op, finish: Callable[[Any], _T] | None = None) -> None:
        self.op = op
        self.finish = finish

    def result(self, outcome: Any) -> _T:
        """Return what the caller gets."""
        if isinstance(outcome, BaseException):
            raise outcome
        result: _T = outcome if self.finish is None else self.finish(outcome)
        return result


class Look(Generic[_T]):
    """A question to the store."""

    __slots__ = ("ask",)

    def __init__(self, ask: Callable[[], _T]) -> None:
        self.ask = ask


def both(
    plan: Callable[Concatenate[JobQueue, _P], Change[_T] | Look[_T]],
) -> tuple[Callable[Concatenate[JobQueue, _P], _T], Callable[Concatenate[JobQueue, _P], Awaitable[_T]]]:
    """Return the method that carries a plan out, and its twin for asyncio. Bad arguments raise at once in both."""

    @functools.wraps(plan)
    def blocking(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        planned = plan(queue, *args, **kwargs)
        if isinstance(planned, Change):
            return planned.result(queue.store.apply((planned.op,))[0])
        return planned.ask()

    @functools.wraps(plan)
    def awaitable(queue: JobQueue, /, *args: _P.args, **kwargs: _P.kwargs) -> Awaitable[_T]:
        planned = plan(queue, *args, **kwargs)
        if isinstance(planned, Change):
            return queue.turns.add(planned)
        return asyncio.get_running_loop().run_in_executor(None, planned.ask)

    for method, name in ((blocking, plan.__name__[1:]), (awaitable, "a" + plan.__name__[1:])):
        method.__name__ = name
        method.__qualname__ = f"JobQueue.{name}"
    return blocking, awaitable
