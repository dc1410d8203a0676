"""The store in the memory of one process: SQLite without a file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from ..._errors import StoreBusy, StoreClosed
from ...clock import Clock, MonotonicClock
from ...jobs import commands as c
from ...jobs.job import Due
from ..checks import sound
from ..contract import Durability
from ..notifier import Member, Notifier, workers
from ..sql.engine import apply
from ..sql.statement import Rows, Steps
from ..sql.store import SqlStore
from ..sql.transaction import Names, Transaction
from ..sqlite import process, verify
from ..sqlite.connection import FOREIGN, ours
from ..sqlite.dialect import SCHEMA, SQLITE, Carrier, Ids
from ..verify import Finding
from .notifier import MemoryNotifier, Presence

__all__ = ["MemoryStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_NEVER: Final = 2**63 - 1
_FORK_SECONDS: Final = 5.0  # that a fork waits for what is under way


class MemoryStore(SqlStore):
    """Jobs in memory, lost with the process. All else is as in a store that lasts.

    All threads share one connection, one at a time. `random` gives whole numbers of 64 bits for the jitter of backoffs,
    in the place of SQLite's own: whoever applies the same commands again can draw the same.
    """

    durability: Durability = "memory"
    dialect = SQLITE

    def __init__(
        self, url: str = "memory:", *, clock: Clock | None = None, random: Callable[[], int] | None = None
    ) -> None:
        self.url = url
        self.clock = clock or MonotonicClock()
        self._lock = threading.RLock()
        self._busy = False  # the thread that has the lock is using the connection
        self._closed = False
        self._paused = False  # a fork is under way, and its thread has the lock
        self._highest: int | None = 0  # the highest id that was given; None: to be looked up
        self._next_lease = _NEVER  # no lease is over earlier
        self._topics, self._workers = Names("topic"), Names("worker")
        self._known, self._known_workers = self._topics, self._workers
        self._presence = Presence(self._lock, self.clock, self._delayed)
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._connection.executescript(SCHEMA)
        if random is not None:
            self._connection.create_function("random", 0, random)
        process.STORES.add(self)

    def _alone(self, work: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what `work` does while no other thread uses the connection. What it leaves undone is rolled back."""
        with self._lock:
            if self._busy:
                raise StoreBusy("this thread is using the store already: a signal handler cannot use it too")
            self._open()
            self._busy = True
            try:
                if self._connection.in_transaction:
                    self._undo()  # two signal handlers raised: one in the work, one in its undoing
                return work(*args, **kwargs)
            except BaseException as error:
                self._undo()
                if isinstance(error, FOREIGN):
                    raise ours(error, self.url) from error
                raise
            finally:
                self._busy = False
                if self._closed:
                    self._connection.close()  # a signal handler closed the store meanwhile

    def _undo(self) -> None:
        """Roll back, and know nothing any more that may have been."""
        self._highest = None
        self._topics.forget()
        self._workers.forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    # ---- writing --------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract."""
        return sound(commands, self._apply)

    def _apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        return self._alone(self._transact, commands)

    def _transact(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        ids = Ids(self._highest)
        tx = self._transaction(ids)
        carrier = Carrier(self._connection, tx.now, begin=True)
        outcomes = carrier.drive(apply(tx, commands))
        carrier.drive(SQLITE.count(tx))
        if carrier.waiting is not None:
            carrier.flush()
        elif self._connection.in_transaction:
            self._connection.execute("COMMIT")
        tx.committed()
        self._highest = ids.highest
        self._tell(tx, carrier)
        return outcomes

    def _transaction(self, ids: Ids) -> Transaction:
        return Transaction(SQLITE, self.clock.wall(), self._topics, self._workers, ids, gone=self._presence.gone)

    def _tell(self, tx: Transaction, carrier: Carrier) -> None:
        """Note when the next lease is over, and wake the workers that a transaction concerns."""
        changes = tx.changes
        if changes.expired is not None:
            [first] = changes.expired
            self._next_lease = _NEVER if first is None else first
        self._next_lease = min(self._next_lease, changes.leases)
        if self._presence.notifiers or changes.announced or changes.paused:
            names = carrier.drive(tx.names((*changes.dues, *changes.paused)))
            self._presence.tell(changes, names)

    # ---- reading --------------------------------------------------------------------------------------------------

    def _read_steps(self, begin: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._alone(self._read, begin(*args, **kwargs))

    def _read(self, steps: Steps[_R]) -> _R:
        return Carrier(self._connection, self.clock.wall()).drive(steps)

    def _first_lease_end(self) -> int | None:
        """Return when some lease may be over at the earliest. No query."""
        self._open()
        return None if self._next_lease == _NEVER else self._next_lease

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is stored. O(jobs): nobody else reads or writes meanwhile."""
        return self._alone(self._verified, repair=repair)

    def _verified(self, *, repair: bool) -> list[Finding]:
        tx = self._transaction(Ids())
        return verify.mended(self._connection, tx.now, tx) if repair else verify.find(self._connection, tx.now)

    # ---- workers --------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        with self._lock:
            self._open()
            return MemoryNotifier(self._presence, name)

    def _list_workers(self) -> list[Member]:
        """Return all workers that have announced topics."""
        with self._lock:
            self._open()
            return workers(self._presence.members())

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        self._open()
        return self._presence.wait_quiet(topic, seconds)

    def _delayed(self, ids: Sequence[int]) -> list[Due]:
        """Return those of some jobs that wait, in the order of their ids here."""
        found = {due.id: due for due in self._read_steps(_delayed, ids)}
        return [found[id] for id in ids if id in found]

    # ---- life -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of everything: the jobs are lost."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._presence.close()
                if not self._busy:
                    self._connection.close()

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed("this store is closed: open another one")

    def before_fork(self) -> None:
        """Let no other thread use the connection: the child would wait for it for ever."""
        self._paused = self._lock.acquire(timeout=_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._lock.release()

    after_fork_in_child = after_fork_in_parent
    """Go on with what is now the child's own."""

    def before_exit(self) -> None:
        """Do nothing: what is in memory ends with the process."""


def _delayed(ids: Sequence[int]) -> Steps[list[Due]]:
    """Return those of some jobs that wait."""
    text = (
        "SELECT j.next, j.id, t.name, j.priority FROM job j JOIN topic t ON t.id = j.topic "
        "WHERE j.id {in ids} AND j.state = 0"
    )
    [rows] = yield (Rows("next id name priority", text, {"ids": list(ids)}),)
    return [Due(*row) for row in rows]
