"""Reports dead jobs in a thread of its own, so that no job waits for a slow `on_dead`."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from .._errors import StoreError
from ..events import Events, JobDied
from ..jobs.job import Job
from ..jobs.middleware import Middleware
from ..jobs.queries import GetJob
from ..stores.contract import Store
from ..stores.notifier import Notifier

_LOGGER: Final = logging.getLogger("pywheel.jobs")

_REST: Final = 1.0  # seconds between looks for jobs that died as another worker ended their lease, with an on_dead
_LONG_REST: Final = 10.0  # the same without an on_dead, for the logs alone
_SHARE: Final = 20  # times as long as a look took is the least rest: a look may have to pass many jobs of other topics
LOST: Final = "its last lease was lost: the worker was killed or cut off, or the handler took longer than its ttr"
"""The `last_error` that `on_dead` gets for a job whose last lease was lost."""


class Deaths:
    """The caller of `on_dead`, for one job after the other. It also emits `JobDied` if the last lease was lost.

    Any worker may end such a lease. `Store.died` gives the job to one of the workers of its topic.

    program     the program with the store, the topics and the events
    notifier    knows the other workers
    middleware  the program's, with its `on_dead`
    finish      awaits an awaitable that `on_dead` returned
    """

    def __init__(
        self, program: Any, notifier: Notifier, middleware: Middleware, finish: Callable[[Any], object]
    ) -> None:
        self._store: Store = program.store
        self._topics: Collection[str] = program.handlers
        self._events: Events = program.events
        self._notifier = notifier
        self._middleware = middleware
        self._finish = finish
        self._told: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._died: deque[int] = deque()  # jobs that died as their last leases were lost, and are not reported yet
        self._looking = False  # whether a look for lost jobs is planned
        self._look_at = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Lock()  # held while a function is added, or `close` decides which is the last one
        self._closed = False

    # ---- from the dispatcher ----------------------------------------------------------------------------------------

    def __call__(self, job: Job, error: str | None) -> None:
        """Take in that a job of this worker is dead."""
        if self._middleware.dead:
            self._do(partial(self._call, job, error))

    def lost(self, ids: Sequence[int]) -> None:
        """Take in that jobs of any topic are dead, as their last leases were lost."""
        self._do(partial(self._lost, ids))

    def rung(self) -> None:
        """Take in that another worker may have ended the last lease of jobs."""
        if not self._looking:
            self._looking = True
            self._told.put(lambda: None)  # wakes the thread, which has a time to look at now
        self._start()

    def _do(self, function: Callable[[], object]) -> None:
        with self._closing:
            self._told.put(function)
            if self._closed:  # a handler has ended beyond its grace: a thread calls this, and ends
                self._thread = None
                self._told.put(None)
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="pywheel-deaths", daemon=True)
            with suppress(RuntimeError):  # the system has none now: the next call tries again
                thread.start()
                self._thread = thread

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` until all dead jobs are reported."""
        with self._closing:
            if not self._told.empty():
                self._start()
            self._closed, thread = True, self._thread
            if thread is not None:
                self._told.put(None)
        if thread is not None:
            thread.join(seconds)

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            seconds = max(self._look_at - time.monotonic(), 0.0) if self._looking else None
            try:
                function = self._told.get(timeout=seconds)
            except Empty:
                function = self._look
            if function is None:
                break
            try:
                function()
            except BaseException:  # of a listener: no other thread would report the next ones
                _LOGGER.exception("dead jobs could not be reported")
        if self._looking:
            self._look()

    def _lost(self, ids: Sequence[int]) -> None:
        try:
            handled = {topic for member in self._notifier.members() for topic in member.topics}
            for id in ids:
                job = self._store.ask(GetJob(id))
                if job is not None and job.topic not in handled | set(self._topics):  # no worker may ever take it
                    self._events.emit(JobDied(job))
        except StoreError as error:
            _LOGGER.warning("whose the jobs %s are, which are dead, is not known: %s", ids, error)
        self._look()

    def _look(self) -> None:
        """Take the jobs whose last leases were lost from the store, and report them."""
        self._looking = False
        began = time.monotonic()
        try:
            self._died += self._store.died(self._topics)
            while self._died:
                job = self._store.ask(GetJob(self._died[0]))
                self._died.popleft()
                if job is not None:  # None: it was deleted meanwhile
                    self._events.emit(JobDied(job))
                    self._call(job, LOST)
        except StoreError:  # the dispatcher reports it: look again
            self._looking = True
        now = time.monotonic()
        self._look_at = now + max(_REST if self._middleware.dead else _LONG_REST, _SHARE * (now - began))

    def _call(self, job: Job, error: str | None) -> None:
        contextvars.copy_context().run(self._middleware.call_dead, job, error, self._finish, BaseException)
