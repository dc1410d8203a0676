"""The worker of a program that has a loop: coroutine handlers run there, beside the program's other tasks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from typing import Self, Unpack

from ..execution.loading import no_worker_while_importing
from ..jobs.new_job import misspelt
from .base import BaseWorker, Program, WorkerOptions, log_end
from .executors.coroutines import AdoptedLoop
from .worker import stop_on_signals


class AsyncWorker:
    """Runs the handlers of a program. Coroutine handlers run on the program's own loop, with its clients and pools.

    ``async with AsyncWorker(queue): ...`` works in the background and drains at the end, such as in the lifespan of a
    server. ``await AsyncWorker(queue).run()`` works until `stop`. The options are those of `Worker`, without
    `loop_factory`. Any number of both kinds may share a store.

    The loop runs coroutine handlers, the awaitables that plain handlers return, providers, `before` and `after` around
    them, and `on_dead`, in the context of the task that runs the worker. Threads run plain handlers and all calls of
    the store. A handler that blocks the loop holds up the program; other workers take the jobs that cannot begin
    meanwhile.

    A thread opens the store when the worker begins to work. One worker works once.

    Raises:
        TypeError: this is not a program. All other errors are raised when the worker begins.
    """

    def __init__(self, program: Program, **options: Unpack[WorkerOptions]) -> None:
        no_worker_while_importing()
        misspelt(options, WorkerOptions, "an AsyncWorker")
        if isinstance(program, type) or not hasattr(program, "handlers"):  # asking for its store would open the store
            raise TypeError(f"a worker works for a JobQueue, not {program!r:.40}")
        self._program = program
        self._options = options
        self._mutex = threading.RLock()  # a signal handler may interrupt `stop`
        self._worker: BaseWorker | None = None  # set once the store is open
        self._stops = 0
        self._ended: asyncio.Future[None] | None = None  # set once `run` has begun
        self._opened = asyncio.Event()
        self._running: asyncio.Task[None] | None = None  # of `async with`
        self._entered = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._program!r}>"

    @property
    def told_to_stop(self) -> bool:
        """Whether `stop` was called, the task of `run` was cancelled, or a stopping signal arrived."""
        return self._stops > 0

    async def run(self, *, signals: bool = False) -> None:
        """Work until `stop`, or until the task is cancelled; then give handlers their grace before returning.

        A second `stop` or cancellation ends the grace. Coroutine handlers that still run at its end are cancelled,
        isolated ones are killed, and their jobs are given back, unspent.

        Args:
            signals: stop at SIGTERM, SIGINT and SIGHUP, in the main thread, as `Worker.run` does. By default the
                program handles signals, as a server does.

        Raises:
            BadOption, TypeError, StoreError: as the constructor of `Worker` raises them.
            StoreClosed: the store was closed meanwhile.
            StoreReplaced: the store's files were deleted or replaced. Running handlers get their grace first.
            RuntimeError: this worker has run before, or the system has no thread left.
        """
        if self._ended is not None:
            raise RuntimeError("an AsyncWorker works once: make another one")
        loop = asyncio.get_running_loop()
        self._ended = ended = loop.create_future()
        adopted = AdoptedLoop(loop, asyncio.current_task())
        work = partial(copy_context().run, self._work, loop, adopted)
        thread = threading.Thread(target=work, name="pywheel-worker", daemon=True)
        stopping = stop_on_signals(self.stop, lambda: self.told_to_stop) if signals else nullcontext()
        with adopted.adopted(), stopping:
            thread.start()
            cancelled: asyncio.CancelledError | None = None
            while not ended.done():
                try:
                    await asyncio.wait([ended])
                except asyncio.CancelledError as raised:
                    cancelled = raised
                    self.stop()
            thread.join()  # it has reported its end, and returns
        error = ended.exception()
        if cancelled is not None:
            if error is not None:
                log_end(error)
            raise cancelled
        if error is not None:
            raise error

    def stop(self) -> None:
        """Begin to drain: claim nothing more; `run` returns after the drain. Any thread or signal handler may call it.

        A second call ends the grace.
        """
        with self._mutex:
            self._stops += 1
            if self._worker is not None:
                self._worker.stop()

    # ---- in a thread ------------------------------------------------------------------------------------------------

    def _work(self, loop: asyncio.AbstractEventLoop, adopted: AdoptedLoop) -> None:
        error: BaseException | None = None
        try:
            worker = BaseWorker(self._program, adopted, **self._options)
            with self._mutex:
                self._worker = worker
                for _ in range(self._stops):
                    worker.stop()
            with suppress(RuntimeError):  # the loop is closed: the worker notices by itself
                loop.call_soon_threadsafe(self._opened.set)
            worker.work()
        except BaseException as raised:  # noqa: BLE001  (the awaiter of `run` gets it)
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

    # ---- in the background ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin to work. Raises as `run` does."""
        self._opened.clear()  # a worker that works once more fails before the body
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
        """Drain. Raise the error that ended the worker, which was logged then, unless the body raised another."""
        assert self._running is not None
        if not self._stops:
            self.stop()
        try:
            await self._running
        except Exception:
            if error is None:
                raise
