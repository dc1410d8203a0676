"""What carries the statements of one transaction to a server, and what became of it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..._errors import BadJob, StoreAway, StoreBusy, StoreError
from ..sql.statement import Batch, Insert, Steps

if TYPE_CHECKING:
    from .store import RelationalStore

__all__ = ["LATER", "NO_TRANSACTION", "Conflict", "OwnSession", "Session", "SessionWithin", "Unknown", "drive"]

T = TypeVar("T")
LATER: Final = -2
"""How far some worker looks, where a put does not ask."""
NO_TRANSACTION: Final = "connection=: there is no transaction, as it commits each statement: begin one"
_OTHER: Final = "connection=: it is one to the database {}, and the jobs are in {}"


class Conflict(StoreBusy):
    """Another transaction came first: begin anew, and see what it has done."""


class Unknown(StoreAway):
    """The connection broke in the commit, and whether it happened is not known."""


class Session(ABC):
    """One transaction. Each batch is a trip."""

    @abstractmethod
    def send(self, batch: Batch) -> Sequence[Any]:
        """Run statements in order; return the rows of each. The first ones begin the transaction."""

    @abstractmethod
    def commit(self, batch: Batch, near: int | None = None, put: int | None = None) -> Sequence[Any]:
        """Run statements and commit; return the rows of the workers if one looks as far as `near`.

        If the connection breaks, `put` is a job that is there exactly if it happened. StoreAway: nothing of it did.
        """

    @abstractmethod
    def abandon(self) -> None:
        """End it without a change, if it has begun and not ended."""


class OwnSession(Session):
    """A transaction on the store's connection that writes."""

    def __init__(self, store: Any, until: float) -> None:
        self._store = store
        self._now: int | None = store.now
        self._until = until
        self._connection: Any = None

    # ---- what a database does ---------------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, batch: Batch) -> Sequence[Any]:
        """Begin, and run statements, in one trip."""

    @abstractmethod
    def _send(self, batch: Batch) -> Sequence[Any]:
        """Run statements."""

    @abstractmethod
    def _commit(self, batch: Batch, near: int | None) -> Sequence[Any]:
        """Run statements and commit; return the rows of the workers if one looks as far as `near`."""

    @abstractmethod
    def _happened(self, put: int | None) -> bool:
        """Return whether the commit took place in which the connection broke. Unknown if that cannot be learned."""

    @abstractmethod
    def _put(self, insert: Insert, *, again: bool) -> tuple[int | None, Sequence[int] | None]:
        """Insert jobs, count them and commit. `again`: it may have happened before."""

    # ---- how it goes ------------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> Sequence[Any]:
        """Send statements; the first ones begin, once more if that fails on a connection that has been idle."""
        if self._connection is not None:
            return self._send(batch)
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                return self._begin(batch)
            except StoreAway:
                self.abandon()
                if attempt == 2 or time.monotonic() >= self._until:
                    raise  # else it may have been closed by the server meanwhile
        raise AssertionError

    def commit(self, batch: Batch, near: int | None = None, put: int | None = None) -> Sequence[Any]:
        """Send the last statements with COMMIT; then read who looks as far as `near`."""
        if self._connection is None:
            if not batch:
                return ()
            self.send(())
        try:
            seen = self._commit(batch, near)
        except StoreAway as error:
            self.abandon()
            if not self._happened(put):
                raise StoreAway(f"{error}; nothing of it was stored") from error
            seen = ()
        self._connection = None
        return seen

    def put(self, insert: Insert) -> tuple[int | None, Sequence[int] | None]:
        """Insert jobs, count them and commit, in one trip; once more if the connection broke.

        Return how far some worker looks, None if there is none, LATER if that is asked later for many puts at once; and
        the ids of those that were stored, None for all.
        """
        sent = again = False  # it may have happened, though its answer was lost
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                again, sent = sent, True
                found = self._put(insert, again=again)
            except StoreError as error:
                self.abandon()
                away = isinstance(error, StoreAway)
                if attempt == 1 and away and time.monotonic() < self._until:
                    continue
                if sent and (away or (again and not _all_have_keys(insert))):
                    raise Unknown(f"{error}; whether it was stored is not known") from error
                raise
            self._connection = None
            return found
        raise AssertionError

    def abandon(self) -> None:
        """Roll back, if it has begun and not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.roll_back()


class SessionWithin(Session):
    """A put in a transaction of the caller's own, between two savepoints. The caller commits."""

    fixed = False
    """Whether it sees what there was at a moment, however often it looks."""
    _begun = False

    def __init__(self, store: RelationalStore, connection: Any) -> None:
        self._lent = store
        self._theirs = connection

    @abstractmethod
    def _execute(self, text: str) -> Any:
        """Run a statement on the caller's connection."""

    @abstractmethod
    def _is_in_transaction(self) -> bool:
        """Return whether the caller's connection does not commit each statement."""

    @abstractmethod
    def _their_database(self) -> str:
        """Return the name of the database that the caller's connection leads to."""

    def _is_ours(self, database: str) -> bool:
        """Return whether this is the name of the store's database."""
        return database == self._lent.database

    @abstractmethod
    def _sent(self, batch: Batch) -> Sequence[Any]:
        """Run statements in order; return the rows of each."""

    def send(self, batch: Batch) -> Sequence[Any]:
        """Run statements; before the first, set a savepoint."""
        if not self._begun:
            self._begin()
        return self._sent(batch)

    def _begin(self) -> None:
        """Set a savepoint. BadJob for a connection to another database, which is asked once for each."""
        if not self._is_in_transaction():
            raise BadJob(NO_TRANSACTION)
        self._execute("SAVEPOINT pywheel")
        self._begun = True
        if self._theirs not in self._lent.lenders:
            name = self._their_database()
            if not self._is_ours(name):
                raise BadJob(_OTHER.format(name, self._lent.database))
            self._lent.lenders.add(self._theirs)

    def commit(self, batch: Batch, near: int | None = None, put: int | None = None) -> Sequence[Any]:  # noqa: ARG002
        """Write."""
        self.send(batch)
        self._execute("RELEASE SAVEPOINT pywheel")
        self._begun = False
        return ()

    def abandon(self) -> None:
        """Go back to the savepoint, if it is there still."""
        if self._begun:
            self._begun = False
            self._execute("ROLLBACK TO SAVEPOINT pywheel")
            self._execute("RELEASE SAVEPOINT pywheel")


def _all_have_keys(insert: Insert) -> bool:
    """Return whether nothing of this is stored twice, however often it is tried."""
    if "key" not in insert.columns:
        return False
    place = insert.columns.index("key")
    return all(row[place] is not None for row in insert.rows)


def drive(send: Callable[[Batch], Sequence[Any]], steps: Steps[T], batch: Batch | None = None) -> T:
    """Return what a generator returns, each of its batches a trip; the first one may have been taken from it."""
    try:
        batch = next(steps) if batch is None else batch
        while True:
            batch = steps.send(send(batch) if batch else ())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
