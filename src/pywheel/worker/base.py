"""The base of all workers: the life of one, from its announcement to the end of its last handler."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypedDict

from .._errors import BadOption, StoreClosed, StoreError, StoreReplaced
from ..events import Events, WorkerDrains, WorkerStarted, WorkerStopped
from ..execution.loading import chosen, no_worker_while_importing
from ..jobs.checks import whole
from ..jobs.commands import Release
from ..jobs.durations import KEEP, Duration, duration
from ..jobs.handler import MOST_AT_ONCE, Handler, is_async
from ..jobs.managed import ManagedHandler
from ..jobs.middleware import Middleware
from ..stores.contract import Store
from ..stores.notifier import ORDERS
from ..stores.schedule_notes import TOPIC
from ..tasks.handler import TaskHandler
from .chores import retention
from .deaths import Deaths
from .dispatcher import MAX_BYTES, Dispatcher
from .executors.coroutines import AsyncPool, Loop
from .executors.pool import Outside, Pool
from .executors.processes import IsolatedPool
from .executors.threads import ThreadPool, Threads
from .leases import Lease
from .schedules import declare, declare_lost, with_planner

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_MOST_THREADS: Final = 1_024
_CANCELLED: Final = 1.0  # seconds that cancelled tasks have to end
_CLOSED: Final = 2.0  # seconds for handlers to close their resources, and for the calls of on_dead to end
_LOOK: Final = 0.05  # seconds between looks at the handlers that still run


class Program(Protocol):
    """The program of a worker: a JobQueue, or any object with the same store, handlers and events."""

    @property
    def store(self) -> Store: ...  # noqa: D102
    @property
    def handlers(self) -> Mapping[str, Handler]: ...  # noqa: D102
    @property
    def events(self) -> Events: ...  # noqa: D102


class WorkerOptions(TypedDict, total=False):
    """The options of every kind of worker; `Worker` explains them."""

    topics: Collection[str] | None
    concurrency: int | None
    grace: Duration
    keep: Duration | None
    name: str | None
    max_bytes: int
    pulse: Callable[..., None] | None


class BaseWorker:
    """Runs a program's handlers, from the thread that calls `work`, until `stop`. Coroutine handlers run on a loop."""

    def __init__(
        self,
        program: Program,
        loop: Loop,
        *,
        topics: Collection[str] | None = None,
        concurrency: int | None = None,
        grace: Duration = 30,
        keep: Duration | None = KEEP,
        name: str | None = None,
        max_bytes: int = MAX_BYTES,
        pulse: Callable[..., None] | None = None,
    ) -> None:
        no_worker_while_importing()
        if isinstance(program, type) or not all(hasattr(program, name) for name in ("store", "handlers", "events")):
            raise TypeError(f"a worker works for a JobQueue, not {program!r:.40}")
        self.program = program
        self._pulse = pulse or (lambda **_: None)
        self.store = program.store
        handlers = with_planner(program, chosen(program.handlers, topics))
        limited = [topic for topic, handler in handlers.items() if handler.limits is not None]
        if limited and not self.store.keeps_limits:
            raise BadOption(f"limit= and rate= of {limited[0][:80]!r} want one store, and {self.store.url} is several")
        for handler in handlers.values():
            if isinstance(handler.function, TaskHandler):
                handler.function.check()
        if concurrency is not None:
            whole(concurrency, "concurrency", MOST_AT_ONCE, error=BadOption)
        self.grace = duration(grace, "grace", error=BadOption) / 1000
        """Seconds that handlers may go on after `stop`."""
        self._events = program.events
        self._middleware: Middleware = getattr(program, "middleware", None) or Middleware()
        self._loop = loop
        in_threads = [handler for handler in handlers.values() if handler.isolate or not is_async(handler.function)]
        most = sum(handler.concurrency for handler in in_threads)
        self._threads = Threads(min(max(most, 1), _MOST_THREADS))
        self._stopping = False  # no Event: a signal may interrupt its own handler, and would find the Event locked
        self._announced = False
        self.told_to_stop = False
        """Whether `stop` was called, or a stopping signal arrived."""
        self._notifier = self.store.notifier(name or f"{socket.gethostname()}:{os.getpid()}")
        self.name = self._notifier.worker
        """The worker's id: its name, and a part that is unique among the workers of that name."""
        self._deaths = Deaths(program, self._notifier, self._middleware, self._loop.finish)
        try:
            options: Any = {"kept": retention(keep), "max_bytes": max_bytes, "concurrency": concurrency}
            options["dead"] = self._deaths
            self.dispatcher = Dispatcher(self.store, self._notifier, handlers, self._pool, self._events, **options)
        except BaseException:
            self._notifier.close()
            raise
        for topic, handler in handlers.items():
            if isinstance(handler.function, ManagedHandler):
                handler.function.attach(topic, self.store, handler.concurrency)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} on {self.store.url}>"

    def _pool(self, handler: Handler, outside: Outside) -> Pool:
        if handler.isolate:
            return IsolatedPool(handler, outside, self._threads, self.program)
        if handler.topic != TOPIC:  # the program's middleware does not see the planner's job
            handler = self._middleware.around(handler)
        if is_async(handler.function):
            return AsyncPool(handler, outside, self._loop)
        return ThreadPool(handler, outside, self._threads, self._loop.finish)

    # ---- life -------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Work until `stop`. The caller handles signals.

        Raises:
            StoreClosed: the store was closed meanwhile.
            StoreReplaced: the store's files were deleted or replaced. Running handlers get their grace first.
        """
        with _frozen():
            try:
                self._work()
                self._drain()
            except StoreClosed:
                if not self._stopping:
                    raise
            except StoreReplaced:
                self._drain(gone=True)
                raise
            finally:
                self._end()

    def stop(self) -> None:
        """Begin to drain: claim nothing more. Any thread or signal handler may call this.

        A second call ends the grace.
        """
        if self.told_to_stop:
            self.end_grace()
        self.told_to_stop = True
        self.retire()

    def retire(self) -> None:
        """Begin to drain, to make room for another worker. Unlike `stop`, a second call does not end the grace."""
        self._stopping = True
        self._notifier.wake()

    def end_grace(self) -> None:
        """Wait no longer for handlers."""
        self.grace = 0.0

    def _work(self) -> None:
        self._events.emit(WorkerStarted(self.name, self.store.url))
        self._announce()
        while not self._stopping:
            stored = self.dispatcher.step()
            if stored and not self._announced:
                self._announce()
            elif stored and self.dispatcher.forgotten:
                self._declare_lost()
            if stored:
                self._obey()
            self._turned(ready=self._announced and self.dispatcher.prepared)
            if not self._stopping:
                self.dispatcher.sleep()

    def _obey(self) -> None:
        """Carry out an operator's order to this worker."""
        order, quiet = self.dispatcher.order, self.dispatcher.quiet
        if order == ORDERS["stop"]:
            _LOGGER.info("told to stop: %s drains", self.name)
            self.stop()
        elif (order == ORDERS["quiet"]) is not quiet:
            _LOGGER.info("told to be %s: %s", "at work again" if quiet else "quiet", self.name)
            if quiet:
                self.dispatcher.take_again()
            else:
                self.dispatcher.hush()
            self._announced = False  # the loop tries again while the store is away
            self._announce()

    def _turned(self, *, ready: bool) -> None:
        """Report that the dispatcher goes on. If the program has closed its loop, give back the jobs that ran there."""
        self._pulse(ready=ready)
        if self._loop.closed:
            self.retire()
            if lost := self.dispatcher.lose(AsyncPool):
                _LOGGER.warning("the loop was closed under %d handlers: stop the worker before that", lost)

    def _announce(self) -> None:
        with _patient("the worker cannot be announced yet"):
            self.dispatcher.announce()
            if not self._stopping:
                declare(self.program, again=True)
            self._announced = True

    def _declare_lost(self) -> None:
        with _patient("schedules cannot be declared again yet"):
            if declare_lost(self.program):
                _LOGGER.warning("the store lost all schedules, as after FLUSHALL: those of the code are declared again")
            self.dispatcher.forgotten = False

    def _drain(self, *, gone: bool = False) -> None:
        """Let handlers finish. The other workers learn at once that this one claims nothing more.

        If the store is gone, they learn neither that nor how the jobs end.
        """
        told = gone and self._stopping
        if gone:
            self._stopping = self.told_to_stop = True  # from here on a signal ends the grace
        self.dispatcher.drain()
        if gone:
            self.dispatcher.abandon()
        else:
            self._announce()
        if not told:
            self._events.emit(WorkerDrains(self.name, self.grace))
        began = time.monotonic()
        self._finish(Pool, lambda: self.grace - (time.monotonic() - began), gone=gone)
        for topic in self.dispatcher.topics.values():
            topic.pool.cancel()
        cancelled = AsyncPool, IsolatedPool
        self._finish(cancelled, lambda: _CANCELLED + self.grace - (time.monotonic() - began), gone=gone)
        if gone:
            return
        self.dispatcher.step()
        with _patient("how many jobs ended of late is not kept"):
            self.dispatcher.keep_ends()
        if left := self.dispatcher.abandon():
            _LOGGER.warning("%d handlers go on beyond their grace", len(left))
            atexit.register(_give_back, self.store, left, os.getpid())

    def _finish(self, only: type[Pool] | tuple[type[Pool], ...], seconds: Callable[[], float], *, gone: bool) -> None:
        """Wait, and settle jobs as they end, until no pool of a kind has any left, or the time is over."""
        if not gone:
            self.dispatcher.go_on()
        while self.dispatcher.busy(only) and (left := seconds()) > 0:
            if gone:
                time.sleep(min(left, _LOOK))
            else:
                self.dispatcher.sleep(min(left, _LOOK))
                self.dispatcher.go_on()
            self._turned(ready=True)

    def _end(self) -> None:
        for topic in self.dispatcher.topics.values():
            topic.pool.stop()
        self._threads.stop()
        self._deaths.close(_CLOSED)
        self._loop.close_all([topic.handler.function for topic in self.dispatcher.topics.values()], _CLOSED)
        self._loop.stop()
        self._notifier.close()
        self._events.emit(WorkerStopped(self.name))


@contextmanager
def _patient(what: str) -> Iterator[None]:
    """Log an operation that fails because the store is away; the next turn tries again."""
    try:
        yield
    except (StoreClosed, StoreReplaced):
        raise
    except StoreError as error:
        _LOGGER.warning("%s: %s", what, error)


@contextmanager
def _frozen() -> Iterator[None]:
    """Exclude the program's objects from garbage collection meanwhile, if this is the main thread of its process."""
    if threading.current_thread() is not threading.main_thread() or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _give_back(store: Store, leases: list[Lease], process: int) -> None:
    """Give back, unspent, the jobs that still run when the process ends. No other worker may run them before."""
    left = [Release(lease.job.id, lease.job.claims) for lease in leases if not lease.ended]
    if left and os.getpid() == process:
        with suppress(StoreError):
            store.apply(left)


def log_end(error: BaseException) -> None:
    """Log that a worker ends by an error, where no caller waits for its end."""
    advice = "; stop it before you close its queue" if isinstance(error, StoreClosed) else ""
    _LOGGER.error("the worker ends: %s%s", error, advice)
