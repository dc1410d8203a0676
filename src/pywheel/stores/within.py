"""Puts inside a transaction of the caller's own: the job exists exactly if that transaction commits.

Nobody tells when it does. So a thread looks until the job is there, soon at first, and then tells the workers of it; a
job that is due before is late by so much. A program that ends, or closes its store, looks once more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from inspect import iscoroutinefunction, ismethod
from typing import Any, Final

from .._errors import BadJob, JobExists, StoreError
from ..jobs.commands import Put
from ..jobs.job import Job, State

__all__ = ["CommitWatch", "driver_connection", "taken"]

_LOOKS: Final = (0.005, 0.5)  # seconds between looks: the first, the longest
_GROWTH: Final = 1.3
_PATIENCE: Final = 600.0  # seconds: then it is found by the workers' own reading, within a minute of its due time
_DEPTH: Final = 5


def driver_connection(connection: Any, modules: tuple[str, ...]) -> Any:
    """Return the driver's connection behind a connection: SQLAlchemy's, its session, Django's, or the driver's own.

    BadJob if it is of none of these modules.
    """
    found = connection
    for _ in range(_DEPTH):
        waits = iscoroutinefunction(getattr(found, "commit", None))  # an async driver's: these calls do not wait for it
        if type(found).__module__.partition(".")[0] in modules and not waits:
            return found
        if hasattr(found, "ensure_connection"):  # Django's connects when it is used first
            found.ensure_connection()
        inner = getattr(found, "driver_connection", None)
        if inner is None:
            inner = getattr(found, "connection", None)
            inner = inner() if ismethod(inner) else inner  # SQLAlchemy's session has a method of that name
        found = inner
        if found is None:
            break
    raise BadJob(
        f"connection= is a connection to the store's own database, of {' or '.join(modules)}, SQLAlchemy or Django, "
        f"not {type(connection).__name__}"
    )


def taken(put: Put, get: Callable[[tuple[str, str]], Job | None]) -> JobExists | None:
    """Return the refusal of a put if a live job, as `get` finds it, has one of its keys and keeps it."""
    for new in put.jobs:
        holder = None if new.key is None else get((new.topic, new.key))
        if holder is None or not holder.state.live:
            continue
        yields = new.parent == (holder.id, holder.claims) if holder.state is State.RUNNING else new.replace
        if not yields:
            return JobExists(f"job {holder.id} has the key {str(new.key)[:80]!r} already and is live", holder.id)
    return None


class CommitWatch:
    """Tells of jobs once they are there. Its thread lives while it has something to watch."""

    def __init__(self, there: Callable[[list[int]], set[int]]) -> None:
        self._there = there
        self._lock = threading.RLock()  # a signal handler may close the store in the middle of a put
        self._watched: dict[int, tuple[float, Callable[[], None]]] = {}  # job: until when, and how to tell of it
        self._pause = _LOOKS[0]
        self._news = threading.Event()
        self._running = False
        self.closed = False

    def add(self, id: int, tell: Callable[[], None]) -> None:
        """Call `tell` once a job is there."""
        with self._lock:
            self._watched[id] = (time.monotonic() + _PATIENCE, tell)
            self._pause = _LOOKS[0]
            self._news.set()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="pywheel-commits", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                pause = self._pause
                self._pause = min(pause * _GROWTH, _LOOKS[1])
                if not self._watched or self.closed:
                    self._running = False
                    return
                self._news.clear()
            self._news.wait(pause)
            self._look()

    def _look(self) -> None:
        with self._lock:
            watched = dict(self._watched)
        try:
            there = self._there(list(watched))
        except StoreError:
            there = set()
        now = time.monotonic()
        for id, (until, tell) in watched.items():
            if id in there or now >= until:
                with self._lock:
                    self._watched.pop(id, None)
                if id in there:
                    tell()

    def flush(self) -> None:
        """Tell of those that are there by now. No query if nothing is watched."""
        if self._watched and not self.closed:
            self._look()

    def close(self) -> None:
        """Tell of those that are there, and watch nothing any more."""
        self.flush()
        self.closed = True
        self._news.set()
