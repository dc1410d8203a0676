"""The ringer: a thread that tells workers of other processes what changed, off the way of those who changed it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from ..._errors import StoreError

__all__ = ["Hints", "Jobs", "Ringer"]

_MOST: Final = 2_000  # jobs that one worker is told of at once: beyond it reads them all
_APART: Final = 0.005  # seconds between looks who is to be told of jobs

Hints = dict[str, set[int] | None]
"""Jobs by worker; None: to read all again; none: to look who is there."""
Jobs = dict[int, tuple[str, int]]
"""Topic and due time, by id."""


class _Told(NamedTuple):
    by: float  # the monotonic time
    hints: Hints
    jobs: Jobs


class Ringer:
    """Gathers hints while it sends others. Its thread begins with the first; what cannot be sent is dropped.

    `send` sends hints. `whom` returns the hints that jobs are for, which may take a query.
    """

    def __init__(self, send: Callable[[Hints], None], whom: Callable[[Jobs], Hints]) -> None:
        self._send = send
        self._whom = whom
        self._queue: SimpleQueue[_Told | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._looked = 0.0

    def add(self, hints: Hints) -> None:
        """Tell workers, soon."""
        if hints:
            self._put(_Told(0, hints, {}))

    def later(self, jobs: Jobs, seconds: float) -> None:
        """Tell of jobs whom they concern, in so many seconds at the latest."""
        self._put(_Told(max(time.monotonic() + seconds, self._looked + _APART), {}, jobs))

    def _put(self, told: _Told) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="pywheel-ringer", daemon=True)
                    thread.start()
                    self._thread = thread
        self._queue.put(told)

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            by, hints, jobs = told
            while (more := self._more(by)) is not None:
                by = min(by, more.by)
                _merge(hints, more.hints)
                jobs.update(more.jobs)
            try:
                if jobs:
                    self._looked = time.monotonic()
                    _merge(hints, self._whom(jobs))
                if hints:
                    self._send(hints)
            except StoreError:  # they read in time; the next hint may get through
                continue

    def _more(self, by: float) -> _Told | None:
        """Return what comes until then; None if nothing does, or nothing more will."""
        try:
            more = self._queue.get(timeout=max(by - time.monotonic(), 0))
        except Empty:
            return None
        if more is None:
            self._queue.put(None)
        return more

    def close(self) -> None:
        """End the thread, once it has sent what waits."""
        self._queue.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)


def _merge(hints: Hints, more: Hints) -> None:
    for worker, ids in more.items():
        before = hints.get(worker, set())
        if ids is None or before is None or len(before) + len(ids) > _MOST:
            hints[worker] = None
        else:
            hints[worker] = before | ids
