"""The store in one SQLite file, shared by the threads of many processes of one host."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote

from ..._errors import StoreClosed, StoreError
from ...clock import Clock, MonotonicClock
from ...jobs import commands as o
from ...jobs.checks import whole
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..contract import Hints, Listener, Store
from ..group_commit import Commit, GroupCommit
from . import maintenance
from .commands import claims, manage, puts, shards
from .connection import BUSY_SECONDS, FOREIGN, ours, translated
from .database import CLOSED, ORDINARY, Database, leave_alone
from .notifier import SqliteNotifier
from .queries import Reader
from .side_files import open_beside, side_errors
from .transaction import Batch, Names

__all__ = ["SqliteStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_Apply = Callable[[Batch, Any], list[Any]]
_APPLY: dict[type, _Apply] = {
    o.Put: puts.put,
    o.Cancel: manage.cancel,
    o.Reschedule: manage.reschedule,
    o.Retry: manage.retry,
    o.Reserve: claims.reserve,
    o.Claim: claims.claim,
    o.Ack: claims.ack,
    o.Nack: claims.nack,
    o.Release: claims.release,
    o.Touch: claims.touch,
    o.Expire: claims.expire,
    o.Pause: manage.pause,
    o.Purge: manage.purge,
    o.Leave: shards.leave,
}


class SqliteStore(Store):
    """Jobs in a file: WAL, synchronous=FULL, so what was applied survives the loss of power.

    Beside the file lie ``-wal`` and ``-shm`` of SQLite, ``-lock`` (who writes next), ``-window`` and ``-bell-*`` (who
    wants to be woken); all but ``-wal`` hold nothing that lasts. They are where the file is, not where links to it are.
    """

    durability = "fsync"

    def __init__(self, path: str | Path, *, clock: Clock | None = None, create: bool = True) -> None:
        self.path = os.path.realpath(path)
        self.url = f"sqlite:///{quote(os.fsencode(self.path))}"
        self.clock = clock or MonotonicClock()
        self._forked = False
        """Whether this is a child that has not used the store yet."""
        self._closed = False
        self._paused = False  # while a fork is under way
        self._renewing = threading.RLock()
        self._topics = Names("topic_id", "topic_add")
        self._workers = Names("worker_id", "worker_add")
        self._apply: dict[type, _Apply] = {**_APPLY, o.Hold: self._hold}
        self._group_commit = GroupCommit(self._transact, _separate, BUSY_SECONDS)
        self._database = Database(self.path, create=create, forget=self._forget)
        try:
            self._database.open(time.monotonic() + BUSY_SECONDS)
            self._notifier = self._new_notifier()
        except BaseException:
            self._database.close()
            raise
        _STORES.add(self)

    # ---- writing --------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[o.Op]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that come meanwhile share one commit."""
        try:
            return self._group_commit.apply(ops)
        except FOREIGN as error:
            raise ours(error, self.path) from error
        finally:
            if self._database.over:
                self.close()  # what a signal handler closed in the middle of this

    def _transact(self, ops: Sequence[o.Op], until: float, commit: Commit | None) -> list[Any]:
        """Apply the commands of one or more callers; wake whom it concerns."""
        if self._forked:
            self._renew()
        outcomes, told = self._database.write(until, self._work, ops, commit)
        # The bells after the commit: then a horizon that moved meanwhile is seen here, or the one who moved it sees it.
        try:
            if isinstance(told, int):
                self._missed(told)
            else:
                self._tell(told)
        except OSError as error:
            if isinstance(error, TimeoutError):  # a signal handler's; sockets that do not wait have none
                raise
        return outcomes

    def _work(
        self, connection: sqlite3.Connection, ops: Sequence[o.Op], commit: Commit | None
    ) -> tuple[list[Any], int | Batch]:
        """Apply the commands in a transaction; return the outcomes, and whom it concerns: a due time, or a batch."""
        now, horizon = self.clock.wall(), self._notifier.horizon()
        if len(ops) == 1 and (alone := puts.put_alone(connection, ops[0], now, self._topics, horizon)) is not None:
            id, due = alone
            return [[id]], due
        batch = Batch(connection, now, self._topics, self._workers, horizon)
        return self._commit(batch, ops, commit), batch

    def _commit(self, batch: Batch, ops: Sequence[o.Op], commit: Commit | None) -> list[Any]:
        batch.connection.execute("BEGIN IMMEDIATE")
        if len(ops) == 1:
            outcomes = self._apply[type(ops[0])](batch, ops)
        else:
            outcomes = []
            for kind, same in groupby(ops, type):
                outcomes += self._apply[kind](batch, list(same))
        if batch.hinted:
            batch.store_hints()
        if commit is None:
            batch.connection.execute("COMMIT")
            return outcomes
        # Between the end of COMMIT and what is noted below nothing is called: there no signal handler can come in.
        commit.outcomes, commit.stored = outcomes, None
        try:
            batch.connection.execute("COMMIT")
        except sqlite3.Error:
            commit.stored = False
            raise
        except BaseException:
            commit.stored = not batch.connection.in_transaction
            raise
        commit.stored = True
        return outcomes

    def _forget(self) -> None:
        """Know no numbers of names any more: some may have been rolled back."""
        self._topics.forget()
        self._workers.forget()

    def _tell(self, batch: Batch) -> None:
        """Ring for what is in somebody's window now."""
        if batch.first_beyond is not None:
            self._missed(batch.first_beyond)
        if batch.first_hinted is not None:
            self._notifier.ring(batch.first_hinted)

    def _missed(self, due: int) -> None:
        """Have windows read again if one of them reached out to this due time while it was stored without a hint."""
        if due <= self._notifier.horizon():
            self._notifier.reload()
            self._notifier.ring(due)

    def _hold(self, batch: Batch, ops: Sequence[o.Hold]) -> list[dict[int, int]]:
        return shards.hold(batch, ops, self._dead)

    def _dead(self, worker: str, asking: str) -> bool:
        """Whether a worker of this host is known not to run: its slot is silent, or belongs to the one who asks."""
        slot = worker.rpartition("@")[2]
        return slot == asking.rpartition("@")[2] or (slot.isdecimal() and not self._notifier.runs(int(slot)))

    # ---- reading --------------------------------------------------------------------------------------------------

    def get(self, ref: o.Ref) -> Job | None:
        """Return a job, or None."""
        return self._read(Reader.get, ref, self.clock.wall())

    def jobs(self, topic: str | None, state: State | None, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return self._read(Reader.jobs, topic, state, after, limit, self.clock.wall())

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return self._read(Reader.counts, self.clock.wall())

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return self._read(Reader.topics)

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self._read(Reader.history, id)

    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed."""
        return self._read(Reader.next_due)

    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return delayed jobs by (due, id)."""
        return self._read(Reader.window, topics, shards, after, until, limit)

    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after`."""
        return self._read(Reader.first_due, topics, after)

    def hints(self, cursor: int) -> Hints:
        """Return what changed since `cursor`."""
        self._open()
        if cursor < 0:
            return Hints(_join(self._notifier.reloads, self._read(Reader.hint_cursor)), [], reload=False)
        reloads, sequence = _split(cursor)
        missed = self._notifier.reloads
        rows = self._read(Reader.hints, sequence)
        gap = bool(rows) and rows[0][0] != sequence + 1
        stirred = any(job == 0 for _, job, _, _ in rows)
        due = [Due(due, job, topic) for _, job, due, topic in rows if due is not None and topic is not None]
        last = rows[-1][0] if rows else sequence
        return Hints(_join(missed, last), due, gap or stirred or missed & _MASK != reloads)

    # ---- the file -------------------------------------------------------------------------------------------------

    def vacuum(self, pages: int) -> int:
        """Give about so many pages of 2 KiB that purged jobs left back to the system; return how many were.

        In one turn to write, some microseconds a page. 0 for a file made by pywheel 0.1: it uses the room again, but
        keeps it until `rewrite`.
        """
        return self._alone(maintenance.vacuum, whole(pages, "the number of pages", 2**31 - 1))

    def rewrite(self) -> None:
        """Write the file anew, without free room. O(jobs): nobody can write meanwhile, and it takes as much disk."""
        self._alone(maintenance.rewrite)

    def backup(self, path: str | Path) -> None:
        """Copy all jobs as they are now into a new file, a store like this one, while others write. O(jobs).

        StoreError if the file exists already.
        """
        self._open()
        maintenance.backup(self.path, os.path.realpath(path))

    def check(self) -> list[str]:
        """Return what is wrong with the file, [] if nothing is. O(file); others may read and write meanwhile."""
        return self._read(lambda reader: maintenance.check(reader._connection))

    def _alone(self, work: Callable[..., _R], *args: Any) -> _R:
        """Return what `work(connection, ...)` does between the commits of this process, in a turn to write."""
        with translated(self.path):
            until = time.monotonic() + BUSY_SECONDS
            result: _R = self._group_commit.alone(self._database.write, until, work, *args)
            return result

    # ---- life -----------------------------------------------------------------------------------------------------

    def listen(self, name: str) -> Listener:
        """Return a new listener."""
        self._open()
        return self._notifier.listen(name)

    def close(self) -> None:
        """Close the file, after the transaction under way, if any. Idempotent; all else raises StoreClosed then."""
        self._database.over = True
        if not self._closed:
            with suppress(StoreError):  # busy: then the call that is under way closes it when it ends
                self._group_commit.alone(self._shut)

    def _shut(self) -> None:
        if not self._closed:
            self._database.close()
            self._closed = True
            if not self._forked:  # else it is the parent's
                self._notifier.close()

    @property
    def _connection(self) -> sqlite3.Connection:
        """The connection that writes, for tests and measurements."""
        return self._database.connection

    def _read(self, method: Callable[Concatenate[Reader, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._database.read(method, *args, **kwargs)

    def _open(self) -> None:
        """Raise StoreClosed if it is; in a forked child, open what was the parent's anew."""
        if self._database.over:
            raise StoreClosed(CLOSED)
        if self._forked:
            self._renew()

    def _renew(self) -> None:
        with self._renewing:
            if self._forked:
                self._notifier = self._new_notifier()
                self._forked = False

    def _new_notifier(self) -> SqliteNotifier:
        os.close(open_beside(self.path, "window", 0))  # with the right mode
        with side_errors(self.path):
            return SqliteNotifier(self.path)

    def _before_fork(self) -> None:
        self._paused = self._group_commit.pause()
        if self._paused:
            self._database.before_fork()

    def _after_fork_in_parent(self) -> None:
        if self._paused:  # else a signal handler forked in the middle of this thread's own commit
            self._database.after_fork_in_parent()
            self._group_commit.resume()

    def _after_fork_in_child(self) -> None:
        if not self._forked:
            leave_alone(self._notifier)  # its files and sockets are the parent's too
        self._forked = True
        self._renewing = threading.RLock()
        self._group_commit.renew()
        self._database.after_fork_in_child()


_STORES: Final[weakref.WeakSet[SqliteStore]] = weakref.WeakSet()
_paused: list[SqliteStore] = []


def _separate(error: BaseException) -> bool:
    """Whether one caller's commands may be the reason: a value that SQLite does not take."""
    return isinstance(error, ORDINARY) and not isinstance(error, StoreError)


def _before_fork() -> None:
    _paused[:] = _STORES
    for store in _paused:
        store._before_fork()


def _after_fork_in_parent() -> None:
    for store in _paused:
        store._after_fork_in_parent()
    _paused.clear()


def _after_fork_in_child() -> None:
    for store in _STORES:
        store._after_fork_in_child()
    _paused.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


_BITS = 40
_MASK = (1 << 20) - 1


def _join(reloads: int, sequence: int) -> int:
    """Pack what a listener has seen into one cursor."""
    return (reloads & _MASK) << _BITS | sequence


def _split(cursor: int) -> tuple[int, int]:
    return cursor >> _BITS, cursor & ((1 << _BITS) - 1)
