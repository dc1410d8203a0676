"""Tells of dead jobs, in a thread of its own: however long a program takes for that, no job waits for it."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from .._errors import StoreError
from ..events import Events, JobDied
from ..jobs.job import Job
from ..jobs.middleware import Middleware
from ..stores.contract import Store
from ..stores.notifier import Notifier
from .death_notes import leave_word, word_of

__all__ = ["LOST", "Deaths"]

_LOGGER: Final = logging.getLogger("pywheel.jobs")

_REST: Final = 1.0  # seconds between looks at what others have found
LOST: Final = "its last lease was lost: the worker was killed or cut off, or the handler took longer than its ttr"
"""The `last_error` that `on_dead` gets of a job that did not fail."""


class Deaths:
    """Calls `on_dead` for one job after the other, and tells listeners of those whose last lease was lost.

    A job of another program's topic has its worker told: by a note, and by a ring.

    store       where the job is that was claimed by somebody else
    notifier    by which other workers are rung
    middleware  of the program
    topics      those of the program
    events      told of jobs whose last lease was lost
    finish      awaits what has to be awaited
    """

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        middleware: Middleware,
        topics: Collection[str],
        events: Events,
        finish: Callable[[Any], object],
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._middleware = middleware
        self._topics = topics
        self._events = events
        self._finish = finish
        self._told: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._looking = False  # whether a look is to come
        self._look_at = 0.0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- from the dispatcher ----------------------------------------------------------------------------------------

    def __call__(self, job: Job, error: str | None) -> None:
        """Take in that a job of this worker is dead."""
        if self._middleware.dead:
            self._do(partial(self._call, job, error))

    def lost(self, ids: Iterable[int]) -> None:
        """Take in that jobs, whosesoever, are dead, as their last leases were lost."""
        for id in ids:
            self._do(partial(self._tell_lost, id))

    def rung(self) -> None:
        """Take in that others may have left word of dead jobs."""
        if self._middleware.dead and not self._looking:
            self._looking = True
            self._do(self._look)

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
            self._closing.set()
            self._told.put(None)
            self._thread.join(seconds)

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (function := self._told.get()) is not None:
            function()

    def _tell_lost(self, id: int) -> None:
        try:
            job = self._store.get(id)
            if job is None:  # deleted meanwhile
                return
            self._events.tell(JobDied(job))
            if job.topic not in self._topics:
                leave_word(self._store, job)
                for member in self._notifier.members():
                    if job.topic in member.topics:
                        self._notifier.ring(member.worker)
        except StoreError as error:
            _LOGGER.error("job %d is dead: %s; on_dead may not be called: %s", id, LOST, error)  # noqa: TRY400
            return
        if job.topic in self._topics:
            self._call(job, LOST)

    def _look(self) -> None:
        """See of which dead jobs others have left word, once a second at most."""
        self._closing.wait(max(self._look_at - time.monotonic(), 0.0))
        self._looking = False
        self._look_at = time.monotonic() + _REST
        try:
            for id in word_of(self._store, self._topics):
                job = self._store.get(id)
                if job is not None:
                    self._call(job, LOST)
        except StoreError as error:
            _LOGGER.warning("whether others know of dead jobs is not known: %s", error)

    def _call(self, job: Job, error: str | None) -> None:
        contextvars.copy_context().run(self._middleware.call_dead, job, error, self._finish)
