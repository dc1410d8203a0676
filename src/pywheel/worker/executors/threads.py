"""Handlers that are plain functions: threads that all topics share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from ...jobs.handler import Handler
from ..leases import Lease
from .pool import Outside, Pool, Runner

_QUICK: Final = 0.0005  # seconds: with handlers that take less, one thread at a time handles more than many threads
_PROGRESS: Final = 0.002  # seconds without the start of a handler after which one thread is not enough
_IDLE: Final = 30.0  # seconds after which an idle thread ends


class Threads(Runner):
    """Daemon threads that all topics share: one starts when none is idle, and ends after a long idle time.

    A *ticket* is a function that a thread calls once. There are never more threads than `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._tickets: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends a thread
        self._threads = 0
        self._spare = 0  # idle threads less tickets that wait for one; below zero tickets wait

    def call(self, ticket: Callable[[], None]) -> None:
        """Have a thread call a ticket. If no thread can be started now, the ticket waits for one."""
        with self._mutex:
            self._spare -= 1
        self._tickets.put(ticket)
        self.tend()

    def block(self) -> None:
        """Note that tickets wait, if they still do: otherwise no thread would ever reset the flag."""
        with self._mutex:
            self.blocked = self._spare < 0

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

    def stop(self) -> None:
        """Have each thread end once it is idle."""
        for _ in range(self._threads):
            self._tickets.put(None)

    def _work(self) -> None:
        while True:
            try:
                ticket = self._tickets.get(timeout=_IDLE)
            except Empty:
                ticket = None
            if ticket is None:
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
                if self._spare >= 0:  # no more tickets wait
                    self.blocked = False


class ThreadPool(Pool):
    """A topic's share of the threads: up to `concurrency` of them take from one queue until it is empty.

    `finish` awaits the result of a plain function, if it is awaitable.
    """

    def __init__(self, handler: Handler, outside: Outside, threads: Threads, finish: Callable[[Any], Any]) -> None:
        super().__init__(handler, outside, threads)
        self._threads = threads
        self._finish = finish
        self._mutex = threading.Lock()
        self._active = 0  # threads that serve this topic
        self._seconds = 1.0  # roughly, for one handler
        self._progress = 0.0  # when a handler last began

    def feed(self, leases: list[Lease]) -> None:
        """Take claimed jobs, and call for as many threads as they need."""
        self._queue.extend(leases)
        if self._seconds >= _QUICK:
            self._call(len(self._queue), self.handler.concurrency)
        else:
            self._call(1, 1)  # `tend` calls for more if this was a mistake

    def tend(self, now: float) -> float | None:
        """Call for more threads if jobs wait and none has begun for a while."""
        if not self._queue or self._stopped:
            return None
        self._threads.tend()
        if self._active >= self.handler.concurrency:
            return None
        if now - self._progress >= _PROGRESS:
            self._call(len(self._queue), self.handler.concurrency)
            return None
        return self._progress + _PROGRESS

    def _call(self, wanted: int, most: int) -> None:
        """Call for `wanted` more threads, so that at most `most` serve this topic."""
        with self._mutex:  # a thread counts itself out after its last look into the queue, so no job is left behind
            new = max(min(wanted, most - self._active), 0)
            self._active += new
        for _ in range(new):
            self._threads.call(self._serve)

    def _serve(self) -> None:
        while True:
            try:
                lease = self._queue.popleft()
            except IndexError:
                with self._mutex:
                    if self._queue:  # jobs came since: `feed` may have counted on this thread
                        continue
                    self._active -= 1
                    return
            if self._starts(lease):
                self._handle(lease)

    def _handle(self, lease: Lease) -> None:
        self._progress = started = lease.started or 0.0
        lease.error, lease.result = self._execution.run(lease.job, self._finish)
        self._ended(lease)
        self._seconds += (lease.ended - started - self._seconds) / 8
