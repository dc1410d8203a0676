"""The ringer: a thread that tells workers of other processes about changes, so that writers need not wait for it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from ..._errors import StoreError

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_MOST: Final = 2_000  # jobs that one worker is told of at once; with more it reads all again
_APART: Final = 0.005  # seconds between looks for the workers that jobs concern
_NEVER: Final = float("inf")

Hints = dict[str, set[int] | None]
"""Jobs by worker; None: to read all again; an empty set: to look who is there."""
Jobs = Sequence[tuple[int, int, int]]
"""Topic, id and new due time of jobs."""


class Ringer:
    """Gathers hints while it sends others. Its thread starts with the first hint. Hints that fail are dropped.

    `send` sends hints. `whom` returns the hints for jobs, and may run a query.

    A thread without work holds only the bell, so that a store which nobody closes can be freed.
    """

    def __init__(self, send: Callable[[Hints], None], whom: Callable[[Jobs], Hints]) -> None:
        self._send = send
        self._whom = whom
        # The time by which to send, the hints, the jobs, and the events of those who wait for that.
        self._told: deque[tuple[float, Hints, Jobs, list[threading.Event]]] = deque()
        self._bell: SimpleQueue[Ringer | None] = SimpleQueue()  # None ends the thread
        weakref.finalize(self, self._bell.put, None).atexit = False  # a program sends its last hints at exit
        self._sleeps_until = _NEVER  # a caller with an earlier time rings the bell
        self._looked = 0.0
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # a signal handler may put, or close the store, while the thread starts
        self._closed = False

    def add(self, hints: Hints) -> None:
        """Tell workers soon."""
        if hints:
            self._put(0, hints, ())

    def later(self, jobs: Jobs, seconds: float) -> None:
        """Tell the workers that jobs concern, within `seconds`."""
        self._put(max(time.monotonic() + seconds, self._looked + _APART), {}, jobs)

    def flush(self, seconds: float = 1.0) -> None:
        """Return once everything added before was sent, or after `seconds`."""
        if self._thread is not None and self._thread is not threading.current_thread() and not self._closed:
            sent = threading.Event()
            self._put(0, {}, (), sent)
            sent.wait(seconds)

    def _put(self, by: float, hints: Hints, jobs: Jobs, *sent: threading.Event) -> None:
        self._told.append((by, hints, jobs, [*sent]))
        if by < self._sleeps_until:
            self._bell.put(self)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=_run, args=(self._bell,), name="pywheel-ringer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the system has none now: the next hint tries again
            self._thread = None
        except BaseException:  # from a signal handler
            self._thread = None
            raise

    def _turn(self) -> bool:
        """Send hints until none are left; return whether more may come."""
        while True:
            by, hints, sent = _NEVER, Hints(), list[threading.Event]()
            jobs: list[tuple[int, int, int]] = []
            while True:
                self._sleeps_until = _NEVER
                closed = self._closed
                while self._told:
                    soon, more, some, waits = self._told.popleft()
                    by = min(by, soon)
                    _merge(hints, more)
                    jobs += some
                    sent += waits
                self._sleeps_until = by
                if by == _NEVER:
                    return not closed
                left = by - time.monotonic()
                if closed or left <= 0:
                    break
                with suppress(Empty):
                    self._bell.get(timeout=left)
            self._sleeps_until = 0  # the loop finds what is added from here on before it sleeps again
            self._ring(hints, jobs)
            for event in sent:
                event.set()

    def _ring(self, hints: Hints, jobs: Jobs) -> None:
        try:
            if jobs:
                self._looked = time.monotonic()
                _merge(hints, self._whom(jobs))
            if hints:
                self._send(hints)
        except StoreError:  # workers read all in time; the next hint may get through
            pass
        except Exception:  # the thread goes on, whatever the error
            _LOGGER.exception("workers were not told of changes; they find them a little later")

    def close(self) -> None:
        """End the thread, once it has sent what waits."""
        self._closed = True
        self._bell.put(self)
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(1.0)


def _run(bell: SimpleQueue[Ringer | None]) -> None:
    while True:
        ringer = bell.get()
        if ringer is None or not ringer._turn():
            return
        del ringer


def _merge(hints: Hints, more: Hints) -> None:
    for worker, ids in more.items():
        before = hints.get(worker, set())
        if ids is None or before is None or len(before) + len(ids) > _MOST:
            hints[worker] = None
        else:
            hints[worker] = before | ids
