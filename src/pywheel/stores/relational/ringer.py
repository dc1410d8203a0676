"""The ringer: a thread that tells workers of other processes what changed, off the way of those who changed it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from ..._errors import StoreError

__all__ = ["Ringer"]

_MOST: Final = 2_000  # jobs that one worker is told of at once: beyond it reads them all

Hints = dict[str, set[int] | None]


class Ringer:
    """Gathers hints while it sends others. Its thread begins with the first; what cannot be sent is dropped."""

    def __init__(self, send: Callable[[Hints], None]) -> None:
        self._send = send
        self._queue: SimpleQueue[Hints | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, hints: Hints) -> None:
        """Tell workers of jobs, soon: by id; None: to read all again; none: to look who is there."""
        if not hints:
            return
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="pywheel-ringer", daemon=True)
                    thread.start()
                    self._thread = thread
        self._queue.put(hints)

    def _run(self) -> None:
        while (hints := self._queue.get()) is not None:
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    self._queue.put(None)
                    break
                _merge(hints, more)
            try:
                self._send(hints)
            except StoreError:  # they read in time; the next hint may get through
                continue

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
