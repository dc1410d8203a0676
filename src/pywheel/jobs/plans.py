"""Each method of the queue is written once, as a plan; the blocking method and its awaitable twin both carry it out."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from .._errors import PywheelError

if TYPE_CHECKING:
    from ..stores import Store
    from ..stores.ops import Op
    from .queue import JobQueue

__all__ = ["Change", "Look", "Turns", "both"]

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
        if isinstance(outcome, PywheelError):
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


class Turns:
    """Group commit for asyncio.

    The changes that tasks ask for within one turn of their loop share one transaction, and so do those that come while
    it runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = weakref.WeakKeyDictionary()

    def add(self, change: Change[_T]) -> asyncio.Future[_T]:
        """Return a future of the change's result, on the running loop."""
        loop = asyncio.get_running_loop()
        turn = self._loops.get(loop)
        if turn is None:
            turn = self._loops[loop] = _Turn()
        future: asyncio.Future[_T] = loop.create_future()
        turn.waiting.append((change, future))
        if not turn.busy:
            turn.busy = True
            loop.call_soon(self._begin, loop, turn)
        return future

    def _begin(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        changes, turn.waiting = turn.waiting, []
        ops = [change.op for change, _ in changes]
        running = loop.run_in_executor(None, self._store.apply, ops)
        running.add_done_callback(functools.partial(self._end, loop, turn, changes))

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: _Turn,
        changes: list[tuple[Change[Any], asyncio.Future[Any]]],
        running: asyncio.Future[list[Any]],
    ) -> None:
        error = asyncio.CancelledError() if running.cancelled() else running.exception()
        outcomes = [error] * len(changes) if error else running.result()
        for (change, future), outcome in zip(changes, outcomes, strict=True):
            if future.done():  # cancelled meanwhile; the change has happened all the same
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome if change.finish is None else change.finish(outcome))
        if turn.waiting:
            loop.call_soon(self._begin, loop, turn)
        else:
            turn.busy = False


class _Turn:
    __slots__ = ("__weakref__", "busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: list[tuple[Change[Any], asyncio.Future[Any]]] = []
