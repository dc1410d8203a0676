"""What handlers run on, shared by all pools of a worker: threads, and an event loop.

Either may be unable to start anything: a handler blocks the loop, or the system has no thread to give. Then it is
*blocked*, and the worker claims nothing for it until it starts something again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final
from weakref import WeakSet

from ..jobs.attached import let_go
from ..jobs.handler import rest_of, to_the_end
from .forks import end_child

__all__ = ["Loop", "Runner", "Threads"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_IDLE: Final = 30.0  # seconds after which an idle thread ends


class Runner:
    """Starts what pools give it, as soon as it can."""

    blocked = False
    """Whether what should have started did not, and nothing has shown since that it could."""
    _refused = False  # the system has no thread; said once

    def block(self) -> None:
        """Note that what should have started did not."""
        self.blocked = True

    def tend(self) -> None:
        """Start the threads that are missing; if the system refuses, the next call tries again."""

    def _start(self, name: str, target: Callable[[], None]) -> bool:
        try:
            threading.Thread(target=target, name=name, daemon=True).start()
        except RuntimeError as error:
            if not self._refused:
                _LOGGER.warning("no thread for handlers, their jobs are left to other workers: %s", error)
            self._refused = True
        else:
            self._refused = False
        return not self._refused


class Threads(Runner):
    """Daemon threads that all topics share: one starts when none is idle, and ends when it was idle for long.

    A *ticket* is a function that a thread calls once. There are never more threads than `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._tickets: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads = 0
        self._spare = 0  # idle threads less tickets that wait for one; below zero tickets wait

    def call(self, ticket: Callable[[], None]) -> None:
        """Have a thread call a ticket. If no thread can be started now, it waits for one."""
        with self._mutex:
            self._spare -= 1
        self._tickets.put(ticket)
        self.tend()

    def tend(self) -> None:
        """Start the threads that are missing; if the system refuses, the next call tries again."""
        while self._spare < 0:
            with self._mutex:
                if self._spare >= 0 or self._threads >= self._most:
                    return
                self._threads += 1
                self._spare += 1
            if not self._start("pywheel-handlers", self._work):
                with self._mutex:
                    self._threads -= 1
                    self._spare -= 1
                return

    def _work(self) -> None:
        while True:
            try:
                ticket = self._tickets.get(timeout=_IDLE)
            except Empty:
                with self._mutex:
                    if self._spare > 0:
                        self._spare -= 1
                        self._threads -= 1
                        return
                continue
            ticket()
            del ticket
            with self._mutex:
                self._spare += 1
                if self._spare >= 0:  # no ticket waits any more
                    self.blocked = False


class Loop(Runner):
    """An event loop in a daemon thread, for all coroutine handlers; started when first needed."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._factory = factory or asyncio.new_event_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs = False
        self._stopped = False
        self._thread: int | None = None
        self._mutex = threading.Lock()

    def block(self) -> None:
        """Note that what should have started did not; the loop itself says when it can again."""
        if not self.blocked:
            self.blocked = True
            self.call(self._answer)

    def _answer(self) -> None:
        self.blocked = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop, soon; if it gets no thread now, when it does."""
        self._started().call_soon_threadsafe(function, *arguments)

    def finish(self, result: Any) -> Any:
        """Return what a plain function returned, awaited on the loop if it is to be. TypeError for a generator."""
        rest = rest_of(result)
        if rest is None:
            return result
        return asyncio.run_coroutine_threadsafe(to_the_end(rest), self._started()).result()

    def let_go(self, functions: Iterable[Any], seconds: float) -> None:
        """Have handlers close what they have opened on the loop, if it runs, within so many seconds."""
        with self._mutex:
            loop = self._loop if self._runs else None
        if loop is not None:
            closing = asyncio.run_coroutine_threadsafe(let_go(functions), loop)
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
        process, self._thread = os.getpid(), threading.get_ident()
        _RUNNING.add(self)
        while not self._stopped:
            with suppress(SystemExit, KeyboardInterrupt):  # a task's, which has it: the others go on
                loop.run_forever()
            if os.getpid() != process:
                end_child(SystemExit("a handler forked, and its child waits on the loop, which is the worker's"))
        _RUNNING.discard(self)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def after_fork(self) -> None:
        """In a child that one of its tasks has forked: run nothing more, for the others are the worker's."""
        if self._loop is not None and self._thread == threading.get_ident():
            for handle in tuple(getattr(self._loop, "_ready", ())):  # of uvloop nobody may: it runs one turn more
                handle.cancel()
            self._loop.stop()


_RUNNING: Final[WeakSet[Loop]] = WeakSet()


def _after_fork() -> None:
    for loop in tuple(_RUNNING):
        loop.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
