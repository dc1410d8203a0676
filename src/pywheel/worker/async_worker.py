"""The worker of a program that has a loop: coroutine handlers run there, beside what else the program does on it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import Self, Unpack

from ..execution.loading import no_worker_while_importing
from ..jobs.new_job import misspelt
from .base import BaseWorker, Program, WorkerOptions, log_end
from .executors import AdoptedLoop
from .worker import stop_on_signals

__all__ = ["AsyncWorker"]


class AsyncWorker:
    """Runs the handlers of a program, coroutine functions on the program's own loop: with its clients and pools.

    ``async with AsyncWorker(queue): ...`` works in the background, and drains at the end: as in the lifespan of a
    server. ``await AsyncWorker(queue).run()`` works until it is stopped. It is made as a `Worker` is, with the same
    options but for `loop_factory`; any number of both share a store.

    On the loop run coroutine handlers, what plain ones return to be awaited, providers, `before` and `after` around
    them, and `on_dead`, in the context of the task that runs the worker. Plain handlers run in threads, as does all
    that talks to the store. A handler that blocks the loop holds up the program; jobs that cannot begin meanwhile are
    left to other workers.

    The store is opened when it begins to work, in a thread. One worker works once.

    Raises:
        TypeError: this is no program. All else is said when it begins.
    """

    def __init__(self, program: Program, **options: Unpack[WorkerOptions]) -> None:
        no_worker_while_importing()
        misspelt(options, WorkerOptions, "an AsyncWorker")
        if isinstance(program, type) or not hasattr(program, "handlers"):  # to ask for its store would open that
            raise TypeError(f"a worker works for a JobQueue, not {program!r:.40}")
        self._program = program
        self._options = options
        self._mutex = threading.RLock()  # a signal handler may come in the midst of `stop`
        self._worker: BaseWorker | None = None  # once the store is open
        self._stops = 0
        self._ended: asyncio.Future[None] | None = None  # once it has begun
        self._opened = asyncio.Event()
        self._running: asyncio.Task[None] | None = None  # of `async with`
        self._entered = False

    @property
    def told_to_stop(self) -> bool:
        """Whether `stop` was called, or the task that runs it was cancelled, or a signal came that stops."""
        return self._stops > 0

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop`, or until the task is cancelled: then handlers get their grace before this ends.

        A second `stop`, or cancellation, ends the grace. Handlers that go on are cancelled at its end, and their jobs
        given back, unspent.

        Args:
            signals: stop at SIGTERM, SIGINT and SIGHUP, in the main thread, as `Worker.run` does. Else they are the
                program's own affair, as a server's.

        Raises:
            BadOption, TypeError, StoreError: as a `Worker` says when it is made.
            StoreClosed: the store was closed meanwhile.
            StoreReplaced: its files were deleted or replaced, once the handlers under way have had their grace.
            RuntimeError: it has run before, or the system has no thread left.
        """
        if self._ended is not None:
            raise RuntimeError("an AsyncWorker works once: make another one")
        loop = asyncio.get_running_loop()
        self._ended = ended = loop.create_future()
        adopted = AdoptedLoop(loop, asyncio.current_task())
        work = partial(copy_context().run, self._work, loop, adopted)
        thread = threading.Thread(target=work, name="pywheel-worker", daemon=True)
        with adopted.adopted(), self._signals() if signals else nullcontext():
            thread.start()
            cancelled: asyncio.CancelledError | None = None
            while not ended.done():
                try:
                    await asyncio.wait([ended])
                except asyncio.CancelledError as raised:
                    cancelled = raised
                    self.stop()
            thread.join()  # it has told, and ends
        error = ended.exception()
        if cancelled is not None:
            if error is not None:
                log_end(error)
            raise cancelled
        if error is not None:
            raise error

    def stop(self) -> None:
        """Begin to drain: claim nothing more. From any thread, and from signal handlers; `run` ends with the drain.

        A second call ends the grace.
        """
        with self._mutex:
            self._stops += 1
            if self._worker is not None:
                self._worker.stop()

    def _signals(self) -> AbstractContextManager[None]:
        return stop_on_signals(self.stop, lambda: self.told_to_stop)

    # ---- in a thread ------------------------------------------------------------------------------------------------

    def _work(self, loop: asyncio.AbstractEventLoop, adopted: AdoptedLoop) -> None:
        error: BaseException | None = None
        try:
            worker = BaseWorker(self._program, adopted, **self._options)
            with self._mutex:
                self._worker = worker
                for _ in range(self._stops):
                    worker.stop()
            with suppress(RuntimeError):  # the loop is closed: the worker learns it
                loop.call_soon_threadsafe(self._opened.set)
            worker.work()
        except BaseException as raised:  # noqa: BLE001  (whoever runs it has it)
            error = raised
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._end, error)

    # ---- on the loop ------------------------------------------------------------------------------------------------

    def _end(self, error: BaseException | None) -> None:
        assert self._ended is not None
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
        self._opened.set()

    # ---- in the background ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin to work. Errors as those of `run`."""
        self._running = asyncio.create_task(self.run(), name="pywheel-worker")
        self._running.add_done_callback(self._say_end)
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            self.stop()
            with suppress(Exception):
                await self._running
            raise
        if self._running.done():
            self._running.result()
        self._entered = True
        return self

    def _say_end(self, running: asyncio.Task[None]) -> None:
        self._opened.set()
        error = None if running.cancelled() else running.exception()
        if error is not None and self._entered:
            log_end(error)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Drain. An error that has ended the worker was logged then, and is raised unless there is another one."""
        assert self._running is not None
        if not self._stops:
            self.stop()
        try:
            await self._running
        except Exception:
            if error is None:
                raise
