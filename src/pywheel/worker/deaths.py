"""Tells of dead jobs, in a thread of its own: however long a program takes for that, no job waits for it."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
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

__all__ = ["LOST", "Deaths"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")

_REST: Final = 1.0  # seconds between looks whose leases others have ended, if a program has an on_dead
_LONG_REST: Final = 10.0  # if it has none, and only logs are to know
_SHARE: Final = 20  # times what a look took: it may have to pass many of other topics
LOST: Final = "its last lease was lost: the worker was killed or cut off, or the handler took longer than its ttr"
"""The `last_error` that `on_dead` gets of a job that did not fail."""


class Deaths:
    """Calls `on_dead` for one job after the other, and tells listeners of those whose last lease was lost.

    Of these the store says, to one of the workers of the topic, whoever has ended the lease: `Store.died`.

    program     whose jobs they are: its store, its topics, and its events, which are told of lost leases
    notifier    who else works
    middleware  of the program
    finish      awaits what has to be awaited
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
        self._looking = False  # whether a look is to come
        self._look_at = 0.0
        self._thread: threading.Thread | None = None

    # ---- from the dispatcher ----------------------------------------------------------------------------------------

    def __call__(self, job: Job, error: str | None) -> None:
        """Take in that a job of this worker is dead."""
        if self._middleware.dead:
            self._do(partial(self._call, job, error))

    def lost(self, ids: Sequence[int]) -> None:
        """Take in that jobs, whosesoever, are dead, as their last leases were lost."""
        self._do(partial(self._lost, ids))

    def rung(self) -> None:
        """Take in that somebody may have ended the last lease of jobs."""
        if not self._looking:
            self._looking = True
            self._do(lambda: None)  # there is a time now at which to look

    def _do(self, function: Callable[[], object]) -> None:
        self._told.put(function)
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="pywheel-deaths", daemon=True)
            with suppress(RuntimeError):  # the system has none now: the next job that is dead tries again
                thread.start()
                self._thread = thread

    def close(self, seconds: float) -> None:
        """Wait up to so many seconds until all are told."""
        if self._thread is not None:
            self._told.put(None)
            self._thread.join(seconds)

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
            function()
        if self._looking:
            self._look()

    def _lost(self, ids: Sequence[int]) -> None:
        try:
            handled = {topic for member in self._notifier.members() for topic in member.topics}
            for id in ids:
                job = self._store.ask(GetJob(id))
                if job is not None and job.topic not in handled | set(self._topics):  # nobody else may ever tell of it
                    self._events.emit(JobDied(job))
        except StoreError as error:
            _LOGGER.warning("whose the jobs %s are, which are dead, is not known: %s", ids, error)
        self._look()

    def _look(self) -> None:
        """Take what there is of jobs whose last leases were lost."""
        self._looking = False
        began = time.monotonic()
        try:
            for id in self._store.died(self._topics):
                job = self._store.ask(GetJob(id))
                if job is not None:  # else it was deleted meanwhile
                    self._events.emit(JobDied(job))
                    self._call(job, LOST)
        except StoreError:  # the dispatcher says so: look again
            self._looking = True
        now = time.monotonic()
        self._look_at = now + max(_REST if self._middleware.dead else _LONG_REST, _SHARE * (now - began))

    def _call(self, job: Job, error: str | None) -> None:
        contextvars.copy_context().run(self._middleware.call_dead, job, error, self._finish)
