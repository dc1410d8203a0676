"""Tells a program of its dead jobs, in a thread of its own: however long that takes, no job waits for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from ..jobs.job import Job
from ..jobs.middleware import Middleware

__all__ = ["Deaths"]


class Deaths:
    """Calls `on_dead` for one job after the other. `finish` awaits what has to be awaited."""

    def __init__(self, middleware: Middleware, finish: Callable[[Any], object]) -> None:
        self._middleware = middleware
        self._finish = finish
        self._told: SimpleQueue[tuple[Job, str | None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, job: Job, error: str | None) -> None:
        """Take in that a job is dead. Only the dispatcher calls this."""
        if not self._middleware.dead:
            return
        self._told.put((job, error))
        if self._thread is None:
            thread = threading.Thread(target=self._tell, name="pywheel-deaths", daemon=True)
            with suppress(RuntimeError):  # the system has none now: the next job that is dead tries again
                thread.start()
                self._thread = thread

    def close(self, seconds: float) -> None:
        """Wait up to so many seconds until all are told."""
        if self._thread is not None:
            self._told.put(None)
            self._thread.join(seconds)

    def _tell(self) -> None:
        while (told := self._told.get()) is not None:
            contextvars.copy_context().run(self._middleware.call_dead, *told, self._finish)
