"""The worker: the handlers of a queue at work in this process, until they are told to stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from .._errors import BadJob, StoreError
from ..jobs.commands import Leave
from ..jobs.durations import Duration, duration
from ..jobs.handler import Handler, is_async
from ..observe.log import about, event
from ..observe.metrics import Metrics
from ..stores.contract import Store
from .dispatcher import Dispatcher
from .pools import AsyncPool, Loop, Outside, Pool, ThreadPool

__all__ = ["Worker"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Program(Protocol):
    """What a worker works for: a JobQueue, or anything that has its store, its handlers and its metrics."""

    store: Store
    handlers: dict[str, Handler]
    metrics: Metrics


class Worker:
    """Runs the handlers of `queue`. Any number of workers, in any number of processes, may share a store.

    grace   how long handlers may go on after `stop`; what is not finished then goes back without spending an attempt
    keep    how long done and cancelled jobs and their history are kept; None for ever. Dead jobs are kept until purged
    name    for the history; otherwise host and process
    """

    def __init__(
        self, queue: Program, *, grace: Duration = 30, keep: Duration | None = None, name: str | None = None
    ) -> None:
        if not queue.handlers:
            raise BadJob("the queue has no handlers: register one with @queue.handler(topic)")
        self.queue = queue
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._grace = duration(grace, "grace") / 1000
        self._keep = None if keep is None else duration(keep, "keep")
        self._loop = Loop()
        self._stopping = threading.Event()
        self._listener = queue.store.listen(self.name)
        try:
            self.dispatcher = Dispatcher(
                queue.store, self._listener, dict(queue.handlers), self._pool, queue.metrics, self._keep
            )
        except BaseException:
            self._listener.close()
            raise
        self._thread: threading.Thread | None = None

    def _pool(self, handler: Handler, outside: Outside) -> Pool:
        if is_async(handler.function):
            return AsyncPool(handler, outside, self._loop)
        return ThreadPool(handler, outside)

    def run(self) -> None:
        """Work until `stop`, or, in the main thread, until SIGTERM or SIGINT; a second signal ends the grace period."""
        with self._signals():
            try:
                event(logging.INFO, "worker_started", worker=self._listener.worker, store=self.queue.store.url)
                while not self._stopping.is_set():
                    self.dispatcher.step()
                    if not self._stopping.is_set():
                        self.dispatcher.sleep()
                self._drain()
            finally:
                self._end()

    def start(self) -> None:
        """Work in a daemon thread of its own."""
        self._thread = threading.Thread(target=self.run, name="pywheel-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin to drain: claim nothing more. From any thread, and from signal handlers; `join` waits for the end."""
        if self._stopping.is_set():
            self._grace = 0.0
        self._stopping.set()
        self._listener.wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of a worker that was started; return whether it has come."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _drain(self) -> None:
        clock, dispatcher = self.queue.store.clock, self.dispatcher
        began = clock.time()
        dispatcher.drain()
        event(logging.INFO, "worker_drains", worker=self._listener.worker, grace=self._grace)
        while dispatcher.busy and clock.time() - began < self._grace:
            dispatcher.step()
            self._listener.wait(min(max(self._grace - (clock.time() - began), 0), 0.05))
        for job in dispatcher.abandon():
            event(logging.WARNING, "job_given_back", **about(job))
        dispatcher.step()

    def _end(self) -> None:
        for lane in self.dispatcher.lanes.values():
            lane.pool.stop()
        self._loop.stop()
        with suppress(StoreError):
            self.queue.store.apply([Leave(self._listener.worker)])
        self._listener.close()
        event(logging.INFO, "worker_stopped", worker=self._listener.worker)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT, where signals can be had: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def told(number: int, frame: Any) -> None:  # noqa: ARG001  (what signal.signal calls)
            self.stop()

        before = {number: signal.signal(number, told) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
