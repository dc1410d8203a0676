"""Coroutine handlers: tasks on one event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from ...execution import end_child
from ...jobs.handler import Handler, current_job, rest_of, to_the_end
from ...jobs.managed import close_all
from ..leases import Lease
from .pool import Outside, Pool, Runner

_LOOK: Final = 1.0  # seconds between looks whether a program has closed its loop


class Loop(Runner, ABC):
    """The event loop of all coroutine handlers. Any thread may call its methods, unless they say otherwise."""

    closed = False
    """Whether the loop is closed, though the worker goes on."""

    @abstractmethod
    def _started(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs or will run."""

    def ends(self) -> bool:
        """Whether the program cancels all tasks of the loop. Call this on the loop."""
        return False

    def interrupted(self, error: KeyboardInterrupt) -> None:
        """Take in the KeyboardInterrupt that a handler raised. Call this on the loop."""

    def block(self) -> None:
        """Note that a job that should have started did not; the loop resets the flag when it runs again."""
        if not self.blocked:
            self.blocked = True
            self.call(setattr, self, "blocked", False)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop, soon, or as soon as the loop has a thread; never if the loop is closed."""
        try:
            self._started().call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self.closed:
                raise

    def finish(self, result: Any) -> Any:
        """Return the result of a plain function, awaited on the loop if it is awaitable.

        Raises:
            TypeError: the result is a generator.
            RuntimeError: the loop is closed, or was closed before the result was there.
        """
        rest = rest_of(result)
        if rest is None:
            return result
        ending = asyncio.run_coroutine_threadsafe(_outcome(rest), self._started())
        while not ending.done():
            wait([ending], _LOOK)
            if self.closed:
                raise RuntimeError("the loop was closed before the handler had ended")
        value, error = ending.result()
        if isinstance(error, asyncio.CancelledError):
            raise CancelledError from error
        if error is not None:
            raise error
        return value

    def close_all(self, functions: Iterable[Any], seconds: float) -> None:
        """Have handlers close their resources on the loop, if it runs, within `seconds`."""
        if self._runs():
            closing = asyncio.run_coroutine_threadsafe(close_all(functions), self._started())
            with suppress(TimeoutError, CancelledError):
                closing.result(seconds)

    @abstractmethod
    def _runs(self) -> bool:
        """Whether handlers may have opened resources on the loop, and can close them."""

    def stop(self) -> None:
        """Stop the loop, if it is the worker's own."""


async def _outcome(rest: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return the result or the error of an awaitable. A SystemExit that it raised would end the loop for all."""
    try:
        return await to_the_end(rest), None
    except BaseException as error:  # noqa: BLE001
        return None, error


class OwnLoop(Loop):
    """The worker's own loop, in a daemon thread that starts when it is first needed."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._factory = factory or asyncio.new_event_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = False
        self._over = False  # whether `stop` was called
        self._stopped = False
        self._mutex = threading.Lock()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._mutex:
            if self._loop is None:
                self._loop = self._factory()
        self.tend()
        return self._loop

    def _runs(self) -> bool:
        return self._running

    def tend(self) -> None:
        """Start the loop's thread if there is none; if the system refuses, the next call tries again."""
        with self._mutex:
            if self._loop is not None and not self._running:
                self._running = self._start("pywheel-loop", partial(self._run, self._loop))

    def finish(self, result: Any) -> Any:
        """Do as the base. After `stop`, as when a handler ends beyond its grace, this thread runs a loop for it."""
        if not self._over or (rest := rest_of(result)) is None:
            return super().finish(result)
        with asyncio.Runner(loop_factory=self._factory) as runner:
            return runner.run(to_the_end(rest))

    def stop(self) -> None:
        """Stop the loop, and cancel the tasks that still run."""
        with self._mutex:
            self._over = True
            if self._running and self._loop is not None:
                self._loop.call_soon_threadsafe(self._halt, self._loop)
            elif self._loop is not None:
                self._loop.close()

    def _halt(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stopped = True
        loop.stop()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        _HERE.loop = loop
        while not self._stopped:
            with suppress(SystemExit, KeyboardInterrupt):  # a task raised it, and its job got it: the others go on
                loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class AdoptedLoop(Loop):
    """The loop of a program, which runs it and may close it at any time.

    Args:
        loop: the loop that runs in this thread.
        task: the worker's task, which is cancelled when the program ends all its tasks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> None:
        self._loop = loop
        self._task = task
        self._cancels = 0 if task is None else task.cancelling()  # of before, in spite of which the task has gone on

    @property
    def closed(self) -> bool:  # type: ignore[override]  # other loops are never closed
        """Whether the program has closed the loop."""
        return self._loop.is_closed()

    def _started(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def _runs(self) -> bool:
        return not self.closed

    def ends(self) -> bool:
        """Whether the worker's task was cancelled, such as by `asyncio.run` at the end of the program."""
        return self._task is not None and self._task.cancelling() > self._cancels

    def interrupted(self, error: KeyboardInterrupt) -> None:
        """Raise the error in the program's loop: Ctrl-C is meant for the program, not for the handler alone."""
        self._loop.call_soon(_raise, error)

    @contextmanager
    def adopted(self) -> Iterator[None]:
        """Note for this thread, within this context, that handlers run on its loop."""
        here = _HERE.__dict__  # this thread's: a task that is dropped may leave the context in another thread
        here["loop"], here["workers"] = self._loop, here.get("workers", 0) + 1
        try:
            yield
        finally:
            here["workers"] -= 1
            if not here["workers"]:
                here["loop"] = None


def _raise(error: BaseException) -> None:
    raise error


_HERE: Final = threading.local()  # the loop of a thread in which handlers run, and the workers that have adopted it


def _after_fork() -> None:
    """End the loop in a child that a handler has forked: its other tasks belong to the worker or the program.

    A child that the program itself has forked is left alone.
    """
    loop: Any = getattr(_HERE, "loop", None)
    if loop is not None and (not getattr(_HERE, "workers", 0) or current_job.get() is not None):
        for handle in tuple(getattr(loop, "_ready", ())):  # uvloop hides this list, and runs one more turn
            handle.cancel()
        loop.call_soon(end_child, SystemExit("a handler forked, and its child waits on the loop of its parent"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class AsyncPool(Pool):
    """A pool of tasks on a loop."""

    def __init__(self, handler: Handler, outside: Outside, loop: Loop) -> None:
        super().__init__(handler, outside, loop)
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()

    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs."""
        self._queue.extend(leases)
        self._loop.call(self._start)

    def cancel(self) -> None:
        """Cancel the running handlers. Their jobs go back unspent, unless a handler ends in another way."""
        self.stop()
        if self._running:
            self._loop.call(self._cancel)

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()

    def _start(self) -> None:
        if self._loop.ends():  # a handler that began now would not be among the tasks that are cancelled
            self.stop()
        for _ in range(min(self.handler.concurrency - len(self._running), len(self._queue))):
            task = asyncio.get_running_loop().create_task(self._handle())
            self._running.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _handle(self) -> None:
        try:
            lease = self._queue.popleft()
        except IndexError:  # the job was taken back, or another task has it
            return
        if self._starts(lease):
            error, lease.result = await self._execution.arun(lease.job)
            if error is None:
                self._ended(lease)
                return
            if lease.ended:  # it was given back
                return
            lease.error = error
            if isinstance(error, asyncio.CancelledError):
                lease.handled = not (self._stopped or self._loop.ends())
            self._ended(lease)
            if isinstance(error, KeyboardInterrupt):
                self._loop.interrupted(error)
