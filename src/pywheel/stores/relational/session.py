"""The carrier of one transaction's statements to a server, and the fate of its commit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..._errors import BadJob, OutcomeUnknown, StoreAway, StoreBusy, StoreError
from ..sql.statement import Batch, Do, Insert, NewNames, Select, Statement, drive
from ..sql.transaction import Names, Taken
from ..within import NO_TRANSACTION

if TYPE_CHECKING:
    from .lanes import Lane
    from .store import RelationalStore

_LOOK: Final = 0.1  # seconds between looks at the fate of a commit
_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"


class Conflict(StoreBusy):
    """Another transaction came first: the command has to begin anew, and see the other's changes."""


class MetLock(StoreBusy):
    """Another transaction holds a lock."""


class OwnSession(ABC):
    """One transaction on a lane's connection. Each batch is a trip."""

    def __init__(self, lane: Lane, until: float) -> None:
        self._lane = lane
        self._store: Any = lane.store
        self._now: int | None = lane.store.now
        self._until = until
        self._connection: Any = None

    # ---- what a database does ---------------------------------------------------------------------------------------

    def _begin(self, batch: Batch) -> Sequence[Any]:
        """Begin, and run statements, in one trip."""
        return self._send(batch)

    @abstractmethod
    def _commit(self, batch: Batch) -> None:
        """Run statements and commit."""

    @abstractmethod
    def _fate(self, put: Insert | None) -> bool | None:
        """Return whether the commit in which the connection broke took place; None if it may be under way.

        OutcomeUnknown if nobody can say. `put` is as for `commit`.
        """

    @abstractmethod
    def _mark(self) -> Statement:
        """Return a change that nobody reads: once it is committed, a synchronous replica has all that came before."""

    @abstractmethod
    def _put(self, insert: Insert, *, again: bool) -> Sequence[int] | None:
        """Insert jobs, count them and commit. `again`: an earlier try may have happened."""

    @abstractmethod
    def _there(self, insert: Insert) -> Sequence[int]:
        """Return the ids of the new jobs that are stored."""

    # ---- how it goes ------------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> Sequence[Any]:
        """Run statements in order; return the rows of each. The first ones begin the transaction."""
        if self._connection is not None:
            return self._send(batch)
        self._connection = self._lane.writing(self._until)
        return self._begin(batch)

    def commit(self, batch: Batch, put: Insert | None = None) -> None:
        """Run statements and commit.

        If the connection breaks, `put`, a job of it, tells whether the commit happened. StoreAway: nothing of it did.
        """
        if self._connection is None:
            return  # no statement was sent
        try:
            self._commit(batch)
        except StoreAway as error:
            self.abandon()
            if not self._happened(put):
                raise StoreAway(f"{error}; nothing of it was stored") from error
            self._replicate()
        self._connection = None

    def _happened(self, put: Insert | None) -> bool:
        """Return whether a commit happened, once that is known. OutcomeUnknown if it is not within the time limit."""
        while True:
            unknown = OutcomeUnknown("the connection broke in a commit, and whether it happened is not known yet")
            try:
                if (happened := self._fate(put)) is not None:
                    return happened
            except OutcomeUnknown:
                raise
            except StoreError as error:  # the server is still away, or busy
                unknown.__cause__ = error
            if time.monotonic() >= self._until:
                raise unknown
            time.sleep(_LOOK)

    def put(self, insert: Insert, topics: Names) -> Sequence[int] | None:
        """Insert jobs, count them and commit, in one trip; once more if the connection broke.

        Return the ids of the jobs that were stored, None for all. Taken: the server was set back, and `topics` are of
        before.
        """
        sent = again = False  # the first try may have happened, though its answer was lost
        for attempt in (1, 2):
            try:
                self._connection = self._lane.writing(self._until)
                again, sent = sent, True
                if again and topics is not self._store._known:
                    used = {row[insert.columns.index("topic")] for row in insert.rows}
                    if not drive(self._send, topics.stand(used)):
                        raise Taken  # else the same ids have to go again: the first try may be under way
                found = (self._there(insert) if again else ()) or self._put(insert, again=again)
                if again:
                    self._replicate()
            except StoreError as error:
                self.abandon()
                away = isinstance(error, StoreAway)
                if attempt == 1 and away and time.monotonic() < self._until:
                    continue
                if sent and (away or (again and not _all_have_keys(insert))):
                    raise OutcomeUnknown(f"{error}; whether it was stored is not known") from error
                raise
            self._connection = None
            return found
        raise AssertionError

    def _replicate(self) -> None:
        """Return once a synchronous replica has a commit that was found; OutcomeUnknown if that takes too long.

        If a session ends while it waits for the replica, the server shows its commit all the same.
        """
        try:
            self._store.run(self._mark(), until=self._until)
        except StoreError as error:
            raise OutcomeUnknown(f"{error}; it is stored, and whether a replica has it is not known") from error

    def _send(self, batch: Batch) -> Sequence[Any]:
        with self._store.translated:
            return self._store.send(self._connection, batch, self._now)  # type: ignore[no-any-return]

    def abandon(self) -> None:
        """Roll back the transaction, if it has begun and not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.roll_back()


class SessionWithin(ABC):
    """A change in a transaction of the caller's own, between two savepoints. The caller commits."""

    fixed = False
    """Whether the transaction sees one moment, however often it looks."""
    _begun = False

    def __init__(self, store: RelationalStore, connection: Any) -> None:
        self._lent = store
        self._theirs = connection
        self._now = store.now

    @abstractmethod
    def _execute(self, text: str) -> Any:
        """Run a statement on the caller's connection."""

    @abstractmethod
    def _is_in_transaction(self) -> bool:
        """Return whether the caller's connection does not commit each statement."""

    @abstractmethod
    def _rows(self, one: Statement) -> Sequence[Any]:
        """Return the rows of a statement."""

    def send(self, batch: Batch) -> Sequence[Any]:
        """Run statements; before the first, set a savepoint."""
        if not self._begun:
            self._begin()
        rows: list[Any] = []
        for one in batch:
            if isinstance(one, NewNames) or (isinstance(one, Do) and one.apart):
                self._lent.run(one)
                rows.append(())
            else:
                rows.append(self._rows(one))
        return rows

    def _begin(self) -> None:
        """Set a savepoint. BadJob for a connection to another database; each connection is asked once."""
        if not self._is_in_transaction():
            raise BadJob(NO_TRANSACTION)
        self._execute("SAVEPOINT pywheel")
        self._begun = True
        if self._theirs not in self._lent.lenders:
            [[name]] = self._rows(Select(f"SELECT {self._lent.dialect.database}"))
            if name != self._lent.database:
                raise BadJob(_OTHER.format(name, self._lent.database))
            with suppress(TypeError):  # a pool's proxy allows no weak reference
                self._lent.lenders.add(self._theirs)

    def commit(self, batch: Batch) -> None:
        """Run statements, and release the savepoint."""
        self.send(batch)
        self._execute("RELEASE SAVEPOINT pywheel")
        self._begun = False

    def abandon(self) -> None:
        """Go back to the savepoint, if it is still there."""
        if self._begun:
            self._begun = False
            with suppress(StoreAway):  # the connection is lost, with the transaction: the first error says why
                self._execute("ROLLBACK TO SAVEPOINT pywheel")
                self._execute("RELEASE SAVEPOINT pywheel")


def _all_have_keys(insert: Insert) -> bool:
    """Return whether no try can store a job twice, as each has a key."""
    if "key" not in insert.columns:
        return False
    place = insert.columns.index("key")
    return all(row[place] is not None for row in insert.rows)
