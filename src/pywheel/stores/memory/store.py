"""The store in the memory of one process: SQLite without a file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from ..._errors import StoreBusy
from ...clock import Clock
from ...jobs import commands as c
from ..checks import sound
from ..contract import Durability
from ..sqlite import forks
from ..sqlite.connection import FOREIGN, ours
from ..sqlite.dialect import SCHEMA
from ..sqlite.engine import SqliteEngine, rows_of
from ..sqlite.presence import Presence

_R = TypeVar("_R")
_FORK_SECONDS: Final = 5.0  # for which a fork waits for the call under way


class MemoryStore(SqliteEngine):
    """Jobs in memory, lost with the process. All else is as in a store that lasts.

    All threads share one connection, one at a time. `random` returns whole numbers of 64 bits for the jitter of
    backoffs, instead of SQLite's own: a program that repeats the same commands can then draw the same jitter.
    """

    durability: Durability = "memory"
    _shared = False

    def __init__(
        self, url: str = "memory:", *, clock: Clock | None = None, random: Callable[[], int] | None = None
    ) -> None:
        self._lock = threading.RLock()
        self._busy = False  # the thread that has the lock is using the connection
        self._paused = False  # a fork is under way, and its thread has the lock
        with forks.gate():
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
            )
            self._connection.executescript(SCHEMA)
        if random is not None:
            self._connection.create_function("random", 0, random)
        super().__init__(url, clock)
        self._presence = self._new_presence()
        forks.add(self)

    def _alone(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `work`, run while no other thread uses the connection. Roll back if it raises."""
        with self._lock:
            if self._busy:
                raise StoreBusy("this thread is using the store already: a signal handler cannot use it too")
            self._open()
            self._busy = True
            try:
                if self._connection.in_transaction:
                    self._undo()  # two signal handlers raised: one in the work, one in its undoing
                return work(self._connection, *args)
            except BaseException as error:
                self._undo()
                if isinstance(error, FOREIGN):
                    raise ours(error, self.url) from error
                raise
            finally:
                self._busy = False
                if self._closed:
                    self._connection.close()  # a signal handler closed the store meanwhile

    _reading = _alone

    def _undo(self) -> None:
        """Roll back, and forget cached values that may be rolled back."""
        self._forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract."""
        return sound(commands, partial(self._alone, self._commit)) if commands else []

    # ---- life -----------------------------------------------------------------------------------------------------

    def _new_presence(self) -> Presence:
        return Presence(None, self.clock, self._rows)

    def _rows(self, text: str, values: Sequence[Any] | dict[str, Any]) -> list[Any]:
        """Return the rows of a statement, also after a commit whose call this thread has not finished."""
        if self._lock._is_owned() and self._busy:  # type: ignore[attr-defined]
            return rows_of(self._connection, text, values)
        return self._alone(rows_of, text, values)

    def close(self) -> None:
        """Release everything: the jobs are lost."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._presence.close()
                if not self._busy:
                    self._connection.close()

    def before_fork(self) -> None:
        """Let no other thread use the connection: the child would wait for it for ever."""
        self._paused = True
        self._paused = self._lock.acquire(timeout=_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._paused and self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock.release()
        self._paused = False

    def after_fork_in_child(self) -> None:
        """Go on with the child's own copy of the jobs."""
        self.after_fork_in_parent()
        self._presence.after_fork()
        self._presence = self._new_presence()
