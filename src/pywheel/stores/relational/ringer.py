"""The ringer: a thread that tells workers of other processes what changed, off the way of those who changed it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from ..._errors import StoreError

__all__ = ["Hints", "Jobs", "Ringer"]

_MOST: Final = 2_000  # jobs that one worker is told of at once: beyond it reads them all
_APART: Final = 0.005  # seconds between looks who is to be told of jobs
_NEVER: Final = float("inf")

Hints = dict[str, set[int] | None]
"""Jobs by worker; None: to read all again; none: to look who is there."""
Jobs = dict[int, tuple[str, int]]
"""Topic and due time, by id."""


class _Told(NamedTuple):
    by: float  # the monotonic time
    hints: Hints
    jobs: Jobs
    sent: list[threading.Event]  # set once all of it was sent, or could not be


class Ringer:
    """Gathers hints while it sends others. Its thread begins with the first; what cannot be sent is dropped.

    `send` sends hints. `whom` returns the hints that jobs are for, which may take a query.
    """

    def __init__(self, send: Callable[[Hints], None], whom: Callable[[Jobs], Hints]) -> None:
        self._send = send
        self._whom = whom
        self._told: deque[_Told] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._sleeps_until = 0.0  # whoever has something that is to be told before rings the bell
        self._looked = 0.0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def add(self, hints: Hints) -> None:
        """Tell workers, soon."""
        if hints:
            self._put(_Told(0, hints, {}, []))

    def later(self, jobs: Jobs, seconds: float) -> None:
        """Tell of jobs whom they concern, in so many seconds at the latest."""
        self._put(_Told(max(time.monotonic() + seconds, self._looked + _APART), {}, jobs, []))

    def flush(self, seconds: float = 1.0) -> None:
        """Return once all was sent that was added before, or after so many seconds."""
        if self._thread is not None and self._thread is not threading.current_thread() and not self._closed:
            sent = threading.Event()
            self._put(_Told(0, {}, {}, [sent]))
            sent.wait(seconds)

    def _put(self, told: _Told) -> None:
        self._told.append(told)
        if told.by < self._sleeps_until:
            self._bell.put(None)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="pywheel-ringer", daemon=True)
                    thread.start()
                    self._thread = thread

    def _run(self) -> None:
        while (told := self._gathered()) is not None:
            with suppress(StoreError):  # they read in time; the next hint may get through
                if told.jobs:
                    self._looked = time.monotonic()
                    _merge(told.hints, self._whom(told.jobs))
                if told.hints:
                    self._send(told.hints)
            for sent in told.sent:
                sent.set()

    def _gathered(self) -> _Told | None:
        """Wait for something that is to be told now; return it, with all that came before. None at the end."""
        all_told = _Told(_NEVER, {}, {}, [])
        while True:
            self._sleeps_until = _NEVER
            closed = self._closed
            while self._told:
                told = self._told.popleft()
                all_told = all_told._replace(by=min(all_told.by, told.by))
                _merge(all_told.hints, told.hints)
                all_told.jobs.update(told.jobs)
                all_told.sent.extend(told.sent)
            self._sleeps_until = all_told.by
            seconds = all_told.by - time.monotonic()
            if closed or seconds <= 0:
                self._sleeps_until = 0  # what comes from now on is looked for before it sleeps again
                return all_told if all_told.by < _NEVER else None
            with suppress(Empty):
                self._bell.get(timeout=None if seconds == _NEVER else seconds)

    def close(self) -> None:
        """End the thread, once it has sent what waits."""
        self._closed = True
        self._bell.put(None)
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
