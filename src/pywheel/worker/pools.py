"""Where handlers run: threads that all topics share for functions, an event loop for coroutine functions."""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from ..clock import Clock
from ..events import Events, JobStarted
from ..jobs.handler import Handler, current_job, rest_of
from .leases import Lease

__all__ = ["AsyncPool", "Loop", "Outside", "Pool", "ThreadPool", "Threads"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_QUICK: Final = 0.0005  # seconds: of handlers that take less, one thread at a time does more than many
_PROGRESS: Final = 0.002  # seconds without which one thread is not enough
_IDLE: Final = 30.0  # seconds after which an idle thread ends


class Outside(NamedTuple):
    """What a pool needs of its worker. All may be called from any thread."""

    done: Callable[[Lease], None]
    clock: Clock
    events: Events


class Pool(ABC):
    """Runs one topic's handler, up to `concurrency` at once; the rest of what it was fed waits in it."""

    def __init__(self, handler: Handler, outside: Outside) -> None:
        self.handler = handler
        self.done, self._clock, self._events = outside
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


class Threads:
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
            try:
                threading.Thread(target=self._work, name="pywheel-handlers", daemon=True).start()
            except RuntimeError as error:
                with self._mutex:
                    self._threads -= 1
                    self._spare -= 1
                _LOGGER.warning("no thread for a handler: %s", error)
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


class ThreadPool(Pool):
    """A topic's share of the threads: up to `concurrency` of them take from one queue until it is empty."""

    def __init__(self, handler: Handler, outside: Outside, threads: Threads, loop: Loop) -> None:
        super().__init__(handler, outside)
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
            result = self.handler.function(lease.job)
            if result is not None:
                self._loop.finish(result)
        except BaseException as raised:  # noqa: BLE001  (sys.exit in a handler ends the attempt, not the worker)
            lease.error = raised
        self._ended(lease)
        self._seconds += (lease.ended - self._progress - self._seconds) / 8


class Loop:
    """An event loop in a daemon thread, shared by the pools of all coroutine handlers; started when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._mutex = threading.Lock()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop, soon."""
        self._started().call_soon_threadsafe(function, *arguments)

    def finish(self, result: Any) -> None:
        """Await what a plain function returned, if it is to be awaited, on the loop. TypeError for a generator."""
        rest = rest_of(result)
        if rest is not None:
            asyncio.run_coroutine_threadsafe(_finished(rest), self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._mutex:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(loop,), name="pywheel-loop", daemon=True).start()
                self._loop = loop
            return self._loop

    def stop(self) -> None:
        """Stop it; tasks that still run are cancelled."""
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


async def _finished(result: Awaitable[Any]) -> None:
    rest: Awaitable[Any] | None = result
    while rest is not None:
        rest = rest_of(await rest)


class AsyncPool(Pool):
    """Tasks on a loop."""

    def __init__(self, handler: Handler, outside: Outside, loop: Loop) -> None:
        super().__init__(handler, outside)
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
        while len(self._running) < self.handler.concurrency:
            try:
                lease = self._queue.popleft()
            except IndexError:
                return
            task = asyncio.get_running_loop().create_task(self._handle(lease))
            self._running.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _handle(self, lease: Lease) -> None:
        if not self._starts(lease):
            return
        current_job.set(lease.job)
        try:
            await _finished(self.handler.function(lease.job))
        except asyncio.CancelledError as cancelled:
            lease.error = cancelled
            lease.handled = not self._stopped
        except BaseException as raised:  # noqa: BLE001  (an exit ends the attempt, not the worker)
            lease.error = raised
        self._ended(lease)
