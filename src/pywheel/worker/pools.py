"""A topic's jobs in this worker: those that run, on threads or on the event loop, and those that wait for that."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ..clock import Clock
from ..events import Events, JobStarted
from ..jobs.handler import Handler, current_job, to_the_end
from ..jobs.job import Job
from ..jobs.results import result_of
from .forks import end_child
from .leases import Lease
from .runners import Loop, Runner, Threads
from .ticks import is_tick

__all__ = ["AsyncPool", "Outside", "Pool", "ThreadPool"]

_QUICK: Final = 0.0005  # seconds: of handlers that take less, one thread at a time does more than many
_PROGRESS: Final = 0.002  # seconds without which one thread is not enough


class Outside(NamedTuple):
    """What a pool needs of its worker. All may be called from any thread."""

    done: Callable[[Lease], None]
    clock: Clock
    events: Events
    admit: Callable[[Job], None] = lambda _: None
    """Asked before a tick of a schedule is handled: what it raises is what its handler would have raised."""


class Pool(ABC):
    """Runs one topic's handler, up to `concurrency` at once; the rest of what it was fed waits in it.

    A job waits in `_queue` until the very moment at which it starts: so it can be taken back until then.
    """

    def __init__(self, handler: Handler, outside: Outside, runner: Runner) -> None:
        self.handler = handler
        self.runner = runner
        self.done, self._clock, self._events, self._admit = outside
        self._queue: deque[Lease] = deque()
        self._stopped = False

    @abstractmethod
    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs. Only the dispatcher calls this."""

    def tend(self, now: float) -> float | None:  # noqa: ARG002  (a pool that needs no tending)
        """See to it that what waits goes on; return when to call again, None if there is no need. By the dispatcher."""
        return None

    @property
    def waiting(self) -> int:
        """How many jobs wait in it."""
        return len(self._queue)

    def take_back(self) -> list[Lease]:
        """Return the jobs that were not started; they never will be."""
        back = []
        while True:
            try:
                back.append(self._queue.popleft())
            except IndexError:
                return back

    def stop(self) -> None:
        """Start nothing more; do not wait."""
        self._stopped = True

    def cancel(self) -> None:
        """Cancel what runs, where that can be done: it is given back unspent."""
        self.stop()

    def _starts(self, lease: Lease) -> bool:
        """Whether the handler may start now; if not, somebody else may have the job by now."""
        now = self._clock.time()
        late = -self._clock.until(lease.job.due)  # negative if the clock was stepped back since the claim
        if self._stopped or late < 0 or now >= lease.start_by:
            lease.handled = False
            self._ended(lease)
            return False
        lease.started = now
        if self._events.listeners:
            self._events.tell(JobStarted(lease.job, late))
        return True

    def _ended(self, lease: Lease) -> None:
        lease.ended = self._clock.time()
        self.done(lease)


class ThreadPool(Pool):
    """A topic's share of the threads: up to `concurrency` of them take from one queue until it is empty."""

    def __init__(self, handler: Handler, outside: Outside, threads: Threads, loop: Loop) -> None:
        super().__init__(handler, outside, threads)
        self._threads = threads
        self._loop = loop
        self._mutex = threading.Lock()
        self._active = 0  # threads that serve this topic
        self._seconds = 1.0  # that a handler takes, roughly
        self._progress = 0.0  # when a handler last began

    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs; call for threads as they are needed."""
        self._queue.extend(leases)
        if self._seconds >= _QUICK:
            self._call(len(self._queue))
        else:
            self._call_one()  # `tend` calls for more if this was a mistake

    def tend(self, now: float) -> float | None:
        """Call for more threads if jobs wait and none has begun for a while."""
        if not self._queue or self._stopped:
            return None
        self._threads.tend()
        if self._active >= self.handler.concurrency:
            return None
        if now - self._progress >= _PROGRESS:
            self._call(len(self._queue))
            return None
        return self._progress + _PROGRESS

    def _call(self, wanted: int) -> None:
        with self._mutex:  # a thread counts itself out after its last look into the queue: nothing is left behind
            new = max(min(wanted, self.handler.concurrency - self._active), 0)
            self._active += new
        for _ in range(new):
            self._threads.call(self._serve)

    def _call_one(self) -> None:
        with self._mutex:
            if self._active:
                return
            self._active = 1
        self._threads.call(self._serve)

    def _serve(self) -> None:
        while True:
            try:
                lease = self._queue.popleft()
            except IndexError:
                with self._mutex:
                    if self._queue:  # fed since: `feed` may have counted on this thread
                        continue
                    self._active -= 1
                    return
            self._handle(lease)

    def _handle(self, lease: Lease) -> None:
        if not self._starts(lease):
            return
        self._progress = lease.started or 0.0
        current_job.set(lease.job)
        try:
            if self._events.tracer is None:
                self._run(lease)
            else:
                with self._events.tracer.handling(lease.job):
                    self._run(lease)
        except BaseException as raised:  # noqa: BLE001  (sys.exit in a handler ends the attempt, not the worker)
            lease.error = raised
        self._ended(lease)
        self._seconds += (lease.ended - self._progress - self._seconds) / 8

    def _run(self, lease: Lease) -> None:
        job, process = lease.job, os.getpid()
        if job.headers and is_tick(job):  # most have none
            self._admit(job)
        try:
            result = self.handler.function(job)
        finally:
            if os.getpid() != process:
                end_child(sys.exception())
        if result is not None:
            result = self._loop.finish(result)
        if self.handler.results:
            lease.result = result_of(result)


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
        if not self._starts(lease):
            return
        current_job.set(lease.job)
        try:
            if lease.job.headers and is_tick(lease.job):
                await asyncio.to_thread(self._admit, lease.job)
            if self._events.tracer is None:
                await self._run(lease)
            else:
                with self._events.tracer.handling(lease.job):
                    await self._run(lease)
        except asyncio.CancelledError as cancelled:
            lease.error = cancelled
            lease.handled = not self._stopped
        except BaseException as raised:  # noqa: BLE001  (an exit ends the attempt, not the worker)
            lease.error = raised
        self._ended(lease)

    async def _run(self, lease: Lease) -> None:
        process = os.getpid()
        try:
            result = await to_the_end(self.handler.function(lease.job))
        finally:
            error = sys.exception()
            if os.getpid() != process and not isinstance(error, GeneratorExit):  # that is a copy which somebody drops
                end_child(error)
        if self.handler.results:
            lease.result = result_of(result)
