"""Checkpoints: a thread writes the log back into the file. SQLite would do it in the commit that makes the log long.

That takes some milliseconds, in which no job would begin. If this thread falls behind, the writer does it after all
(`wal_autocheckpoint`): beside a writer that never rests no log can begin anew.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from ..._forks import renew_after_fork

if TYPE_CHECKING:
    from .database import Database

_EVERY: Final = 800  # rows that were changed, each in two or three pages: about 4 MB of log


class Checkpoints:
    """The checkpoints of one database. Only its writer uses them; the thread keeps no store alive."""

    def __init__(self, database: Database) -> None:
        self._database = weakref.ref(database)
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Begin without a thread: at first, and in a forked child."""
        self._thread: threading.Thread | None = None
        self._wake: SimpleQueue[bool] = SimpleQueue()  # not an Event, whose lock a signal handler may find taken
        self._at = 0
        weakref.finalize(self, self._wake.put, False)

    def wrote(self, changes: int) -> None:
        """Note the number of rows that a connection has changed since it was opened."""
        if 0 <= changes - self._at < _EVERY:
            return
        self._at = changes
        with suppress(RuntimeError):  # the system gives no thread, or the interpreter ends: then the writer checkpoints
            if self._thread is None or not self._thread.is_alive():
                work = (self._database, self._wake)
                thread = threading.Thread(target=_work, args=work, name="pywheel-checkpoints", daemon=True)
                thread.start()
                self._thread = thread
            self._wake.put(True)

    def close(self) -> None:
        """End the thread, after the step under way. Idempotent."""
        self._wake.put(False)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():  # a finaliser may run in any thread
            thread.join()


def _work(of: weakref.ref[Database], wake: SimpleQueue[bool]) -> None:
    while wake.get():
        with suppress(Exception):  # the writer meets the same error
            database = of()
            if database is not None:
                database.read(_checkpoint)
        del database
        with suppress(Empty):  # writes made meanwhile wait for the next call: the writer may have to come between
            while wake.get_nowait():
                pass
            return


def _checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
