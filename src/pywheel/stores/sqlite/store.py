"""The store in one SQLite file, shared by the threads of many processes of one host."""

from __future__ import annotations

import errno
import os
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ..._errors import StoreClosed, StoreError, StoreFull, StoreReadOnly
from ...clock import Clock, MonotonicClock
from ...jobs import commands as o
from ...jobs.job import Attempt, Counts, Due, Job, Topic, shard_of
from ..checks import sound
from ..contract import Filter, Span, Store
from ..group_commit import GroupCommit
from ..notifier import Notifier
from .commands import announce, claims, endings, manage, puts
from .connection import NO_ROOM, connect, ours, translated, upgrade
from .presence import Presence
from .queries import Reader
from .transaction import Names, Transaction
from .write_lock import WriteLock

__all__ = ["SqliteStore"]

_Apply = Callable[[Transaction, Any], list[Any]]
_APPLY: dict[type, _Apply] = {
    o.Put: puts.put,
    o.Cancel: manage.cancel,
    o.Reschedule: manage.reschedule,
    o.Retry: manage.retry,
    o.Delete: manage.delete,
    o.Pause: manage.pause,
    o.Purge: manage.purge,
    o.Reserve: claims.reserve,
    o.Claim: claims.claim,
    o.Begin: claims.begin,
    o.Touch: claims.touch,
    o.Ack: endings.ack,
    o.Nack: endings.nack,
    o.Release: endings.release,
    o.Expire: endings.expire,
    o.Announce: announce.announce,
}


class SqliteStore(Store):
    """Jobs in a file: WAL, synchronous=FULL, so what was applied survives the loss of power.

    Beside the file lie ``-wal`` and ``-shm`` of SQLite, ``-gate`` and ``-turn`` (who writes next), ``-workers`` and
    ``-bell-*`` (who is there and wants to be woken); all but ``-wal`` hold nothing that lasts.
    """

    durability = "fsync"

    def __init__(self, path: str | Path, *, clock: Clock | None = None) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  (resolving links would lose the name that others use)
        self.url = f"sqlite:///{self.path}"
        self.clock = clock or MonotonicClock()
        self._over: str | None = None
        """Why it cannot be used any more."""
        self._forked = False
        self._topics = Names("topic_id", "topic_add")
        self._workers = Names("worker_id", "worker_add")
        self._apply = _APPLY
        self._group_commit = GroupCommit(self._transact, lambda error: not isinstance(error, StoreError))
        self._connection = connect(self.path)
        parts: list[Any] = [self._connection]
        try:
            with translated(self.path):
                parts.append(write_lock := _beside(self.path, WriteLock))
                self._write_lock: WriteLock = write_lock
                self._in_turn(lambda: upgrade(self._connection, self.path))
                parts.append(presence := _beside(self.path, self._presence_of))
                self._presence: Presence = presence
                self._reader = Reader(self.path)
            _STORES.add(self)
        except BaseException:
            for part in parts:
                part.close()
            raise

    # ---- writing --------------------------------------------------------------------------------------------------

    def apply(self, ops: Sequence[o.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that come meanwhile share one commit."""
        if self._over is not None:
            raise StoreClosed(self._over)
        return sound(ops, self._group_commit.apply) if ops else []

    def _in_turn(self, action: Callable[[], Any]) -> Any:
        try:
            self._write_lock.enter()
            return action()
        finally:
            self._write_lock.leave()

    def _transact(self, ops: Sequence[o.Command[Any]]) -> list[Any]:
        """Apply the commands of one or more callers; wake whom it concerns."""
        try:
            try:
                self._write_lock.enter()
                now, alone = self.clock.wall(), None
                if len(ops) == 1:
                    alone = puts.put_alone(self._connection, ops[0], now, self._topics, self._presence.furthest)
                if alone is None:
                    transaction = Transaction(self._connection, now, self._topics, self._workers, self._presence)
                    outcomes = self._commit(transaction, ops)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._write_lock.leave()
        except sqlite3.Error as error:
            raise ours(error, self.path) from error
        # The bells after the commit: then a horizon that moved meanwhile is seen here, or the one who moved it sees it.
        if alone is not None:
            id, topic, due = alone
            self._presence.missed(topic, shard_of(id), due)
            return [[id]]
        transaction.tell()
        return outcomes

    def _commit(self, transaction: Transaction, ops: Sequence[o.Command[Any]]) -> list[Any]:
        self._connection.execute("BEGIN IMMEDIATE")
        if len(ops) == 1:
            outcomes = self._apply[type(ops[0])](transaction, ops)
        else:
            outcomes = []
            for kind, same in groupby(ops, type):
                outcomes += self._apply[kind](transaction, list(same))
        transaction.commit()
        return outcomes

    def _roll_back(self) -> None:
        self._topics.forget()
        self._workers.forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _presence_of(self, path: str) -> Presence:
        return Presence(path, self.clock, lambda name, values: self._reader.rows(name, values))

    # ---- reading --------------------------------------------------------------------------------------------------

    def get(self, ref: o.Ref) -> Job | None:
        """Return a job, or None."""
        self._open()
        return self._reader.get(ref, self.clock.wall())

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        self._open()
        return self._reader.jobs(filter, after, limit, self.clock.wall())

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        self._open()
        return self._reader.counts(self.clock.wall())

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        self._open()
        return self._reader.topics()

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        self._open()
        return self._reader.history(id, self.clock.wall())

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id)."""
        self._open()
        return self._reader.windows(spans, limit)

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        self._open()
        return self._reader.first_dues(spans, self.clock.wall())

    def next_lease(self) -> int | None:
        """Return when some lease may be over at the earliest."""
        self._open()
        return self._presence.next_lease()

    # ---- life -----------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        return self._presence.notifier(name)

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long."""
        self._open()
        return self._presence.quiet(topic, seconds)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._over == _CLOSED:
            return
        self._over = _CLOSED
        if not self._forked:  # a forked child leaves its parent's connections alone
            with suppress(StoreError), translated(self.path):
                self._reader.close()
                self._connection.close()
            self._write_lock.close()
            self._presence.close()

    def _open(self) -> None:
        if self._over is not None:
            raise StoreClosed(self._over)


_CLOSED: Final = "this store is closed: open another one"
_STORES: Final[weakref.WeakSet[SqliteStore]] = weakref.WeakSet()


def _after_fork() -> None:
    for store in _STORES:
        store._forked = True
        store._over = store._over or "this store was opened before a fork: open another one in the child"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _beside(path: str, kind: Callable[[str], Any]) -> Any:
    """Open the files beside the database; they need the same permissions as SQLite's own."""
    try:
        return kind(path)
    except PermissionError as error:
        raise StoreReadOnly(f"{path}: cannot write {error.filename}: mend the permissions of the folder") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(NO_ROOM.format(path=path)) from error
        raise StoreError(f"{path}: the files beside it cannot be used: {error}") from error
