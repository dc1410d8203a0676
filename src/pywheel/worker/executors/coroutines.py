"""Handlers that are coroutine functions: tasks on one event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ...execution import end_child
from ...jobs.handler import Handler, rest_of, to_the_end
from ...jobs.managed import close_all
from ..leases import Lease
from .pool import Outside, Pool, Runner

__all__ = ["AsyncPool", "Loop"]


class Loop(Runner):
    """An event loop in a daemon thread, for all coroutine handlers; started when first needed."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._factory = factory or asyncio.new_event_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs = False
        self._stopped = False
        self._mutex = threading.Lock()

    def block(self) -> None:
        """Note that what should have started did not; the loop itself says when it can again."""
        if not self.blocked:
            self.blocked = True
            self.call(setattr, self, "blocked", False)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop, soon; if it gets no thread now, when it does."""
        self._started().call_soon_threadsafe(function, *arguments)

    def finish(self, result: Any) -> Any:
        """Return what a plain function returned, awaited on the loop if it is to be. TypeError for a generator."""
        rest = rest_of(result)
        if rest is None:
            return result
        return asyncio.run_coroutine_threadsafe(to_the_end(rest), self._started()).result()

    def close_all(self, functions: Iterable[Any], seconds: float) -> None:
        """Have handlers close what they have opened on the loop, if it runs, within so many seconds."""
        with self._mutex:
            loop = self._loop if self._runs else None
        if loop is not None:
            closing = asyncio.run_coroutine_threadsafe(close_all(functions), loop)
            with suppress(TimeoutError, CancelledError):
                closing.result(seconds)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._mutex:
            if self._loop is None:
                self._loop = self._factory()
        self.tend()
        return self._loop

    def tend(self) -> None:
        """Start its thread if it has none; if the system refuses, the next call tries again."""
        with self._mutex:
            if self._loop is not None and not self._runs:
                self._runs = self._start("pywheel-loop", partial(self._run, self._loop))

    def stop(self) -> None:
        """Stop it; tasks that still run are cancelled."""
        with self._mutex:
            if self._runs and self._loop is not None:
                self._loop.call_soon_threadsafe(self._halt, self._loop)
            elif self._loop is not None:
                self._loop.close()

    def _halt(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stopped = True
        loop.stop()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        process, _HERE.loop = os.getpid(), loop
        while not self._stopped:
            with suppress(SystemExit, KeyboardInterrupt):  # a task's, which has it: the others go on
                loop.run_forever()
            if os.getpid() != process:
                end_child(SystemExit("a handler forked, and its child waits on the loop, which is the worker's"))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


_HERE: Final = threading.local()  # the loop of a thread that has one


def _after_fork() -> None:
    """In a child that a task has forked, run nothing more, for the other tasks are the worker's."""
    loop: Any = getattr(_HERE, "loop", None)
    if loop is not None:
        for handle in tuple(getattr(loop, "_ready", ())):  # of uvloop nobody may: it runs one turn more
            handle.cancel()
        loop.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class AsyncPool(Pool):
    """Tasks on a loop."""

    def __init__(self, handler: Handler, outside: Outside, loop: Loop) -> None:
        super().__init__(handler, outside, loop)
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()

    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs."""
        self._queue.extend(leases)
        self._loop.call(self._start)

    def cancel(self) -> None:
        """Cancel what runs: it is given back unspent, unless its handler ends in another way."""
        self.stop()
        if self._running:
            self._loop.call(self._cancel)

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()

    def _start(self) -> None:
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
        except IndexError:  # it was taken back, or another task has it
            return
        if self._starts(lease):
            lease.error, lease.result = await self._execution.arun(lease.job)
            if isinstance(lease.error, asyncio.CancelledError):
                lease.handled = not self._stopped
            self._ended(lease)
