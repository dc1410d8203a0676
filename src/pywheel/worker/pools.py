"""Where handlers run: threads for functions, an event loop for coroutine functions."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..clock import Clock
from ..jobs.handler import Handler
from ..jobs.job import Job
from ..observe.metrics import Metrics

__all__ = ["AsyncPool", "Finished", "Loop", "Outside", "Pool", "ThreadPool"]


class Finished(NamedTuple):
    """A job that left the pool; `error` is what the handler raised."""

    job: Job
    error: BaseException | None
    handled: bool = True  # False: its lease was over before its turn came


class Outside(NamedTuple):
    """What a pool needs of its worker. All may be called from any thread."""

    done: Callable[[Finished], None]
    holds: Callable[[Job], bool]
    """Whether the lease of a claim goes on."""
    clock: Clock
    metrics: Metrics


class Pool(ABC):
    """Runs one topic's handler, up to `concurrency` at once; the rest of what it was fed waits in it."""

    def __init__(self, handler: Handler, outside: Outside) -> None:
        self.handler = handler
        self.done, self._holds, self._clock, self._metrics = outside
        self._queue: deque[Job] = deque()

    @abstractmethod
    def feed(self, jobs: list[Job]) -> None:
        """Take claimed jobs. Only the dispatcher calls this."""

    @property
    def waiting(self) -> int:
        """How many jobs wait in it."""
        return len(self._queue)

    def peek(self) -> list[Job]:
        """Return the jobs that wait in it."""
        return list(self._queue.copy())

    def take_back(self) -> list[Job]:
        """Return the jobs that were not started; they never will be."""
        back = []
        while True:
            try:
                back.append(self._queue.popleft())
            except IndexError:
                return back

    @abstractmethod
    def stop(self) -> None:
        """Start nothing more; do not wait."""

    def _starts(self, job: Job) -> float | None:
        """Return when its handler starts; None if it must not: somebody else may have the job by now."""
        if not self._holds(job):
            self.done(Finished(job, None, handled=False))
            return None
        self._metrics.observe("lateness", job.topic, max(-self._clock.until(job.due), 0.0))
        return self._clock.time()

    def _ended(self, job: Job, started: float, error: BaseException | None) -> None:
        self._metrics.observe("run_time", job.topic, self._clock.time() - started)
        self.done(Finished(job, error))


class ThreadPool(Pool):
    """Daemon threads that take from one queue; they sleep only when it is empty."""

    def __init__(self, handler: Handler, outside: Outside) -> None:
        super().__init__(handler, outside)
        self._mutex = threading.Lock()
        self._idle = 0
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._threads = 0
        self._stopped = False

    def feed(self, jobs: list[Job]) -> None:
        """Take claimed jobs; start threads as they are needed."""
        self._queue.extend(jobs)
        with self._mutex:  # a thread counts itself idle before its last look into the queue: none is missed
            idle = min(self._idle, len(jobs))
            new = min(len(jobs) - idle, self.handler.concurrency - self._threads)
            self._threads += new
        for _ in range(idle):
            self._tokens.put(None)
        for _ in range(new):
            threading.Thread(target=self._work, name=f"pywheel-{self.handler.topic[:40]}", daemon=True).start()

    def stop(self) -> None:
        """Let the threads end once they are idle."""
        self._stopped = True
        for _ in range(self._threads):
            self._tokens.put(None)

    def _work(self) -> None:
        while not self._stopped:
            job = self._next()
            if job is None:
                continue
            started = self._starts(job)
            if started is None:
                continue
            error: BaseException | None = None
            try:
                self.handler.function(job)
            except BaseException as raised:  # noqa: BLE001  (sys.exit in a handler ends the attempt, not the worker)
                error = raised
            self._ended(job, started, error)

    def _next(self) -> Job | None:
        try:
            return self._queue.popleft()
        except IndexError:
            pass
        with self._mutex:
            self._idle += 1
        try:
            return self._queue.popleft()
        except IndexError:
            self._tokens.get()
            return None
        finally:
            with self._mutex:
                self._idle -= 1


class Loop:
    """An event loop in a daemon thread, shared by the pools of all coroutine handlers; started when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop, soon."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run, args=(self._loop,), name="pywheel-loop", daemon=True).start()
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """Stop it; tasks that still run are abandoned."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class AsyncPool(Pool):
    """Tasks on a loop."""

    def __init__(self, handler: Handler, outside: Outside, loop: Loop) -> None:
        super().__init__(handler, outside)
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()
        self._stopped = False

    def feed(self, jobs: list[Job]) -> None:
        """Take claimed jobs."""
        self._queue.extend(jobs)
        self._loop.call(self._start)

    def stop(self) -> None:
        """Start nothing more."""
        self._stopped = True

    def _start(self) -> None:
        while not self._stopped and len(self._running) < self.handler.concurrency:
            try:
                job = self._queue.popleft()
            except IndexError:
                return
            task = asyncio.get_running_loop().create_task(self._handle(job))
            self._running.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _handle(self, job: Job) -> None:
        started = self._starts(job)
        if started is None:
            return
        error: BaseException | None = None
        try:
            await self.handler.function(job)
        except BaseException as raised:  # noqa: BLE001  (an exit ends the attempt, not the worker)
            error = raised
        self._ended(job, started, error)
