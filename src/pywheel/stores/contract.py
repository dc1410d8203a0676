"""What a store of jobs must do. One suite, `pywheel.testing.StoreSuite`, checks every store against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..clock import Clock
from ..jobs.commands import Op, Ref
from ..jobs.job import Attempt, Counts, Due, Job, State, Topic

__all__ = ["Hints", "Listener", "Store"]


class Hints(NamedTuple):
    """What changed near a worker's window."""

    cursor: int  # give it to the next call
    due: list[Due]  # jobs that are delayed and whose due time changed, or that are new
    reload: bool
    """Some hints are missing, a topic was paused or resumed, or shards are to change hands: hold and read again."""


class Listener(ABC):
    """A worker's ear: others wake it when a job comes into its window.

    A hint only; it may be lost, and then the worker finds the job when it reads its window again.
    """

    worker: str
    """The worker's name, to be given with commands; unique among those of the store."""

    @abstractmethod
    def publish(self, horizon: int) -> None:
        """Say up to which due time (ms) changes matter to this worker. Others see it before this returns."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Return when rung or woken, or after so many seconds; at once if that was since the last wait.

        It may return early. True if there may be new hints; False if certainly not, or if only `wake` was called.
        """

    @abstractmethod
    def wake(self) -> None:
        """Let the present `wait`, or else the next one, return. From any thread, and from signal handlers."""

    @abstractmethod
    def stirred(self) -> bool:
        """Whether workers came or went since this was last asked, as far as the store can tell without a query.

        To be called at least every few seconds: a worker that does not may be taken for dead.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop listening. Idempotent."""


class Store(ABC):
    """A durable set of jobs, shared by all threads, and if it can, by many processes and hosts.

    Every method is safe to call from any thread. All of them raise StoreError (StoreAway, StoreBusy, StoreClosed,
    StoreFull, StoreReadOnly, StoreCorrupt, StoreTooNew) when the store cannot do it; then nothing has changed, unless
    the connection broke while a commit was under way: then either all of the call has happened or nothing. None waits
    for longer than a time limit of the store's.
    """

    url: str
    durability: str
    """What an outcome survives: "fsync" the loss of power, "everysec" that but for a second, "memory" nothing."""
    clock: Clock
    """The store's clock: it judges what is due and which lease is over. A server's store takes its server's time."""

    @abstractmethod
    def apply(self, ops: Sequence[Op]) -> list[Any]:
        """Apply commands in order, in one transaction, durably; return the outcome of each.

        An outcome is what the command's class says, or an exception that is a PywheelError: then that command has
        changed nothing, and the others have happened. When this returns, all of it is durable as `durability` says.
        Several callers may share one transaction. A reader sees all of it or nothing.
        """

    @abstractmethod
    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None. O(log jobs)."""

    @abstractmethod
    def jobs(self, topic: str | None, state: State | None, after: int, limit: int) -> list[Job]:
        """Return up to `limit` jobs with an id above `after`, by id. None means any."""

    @abstractmethod
    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic that was ever put to, paused or resumed, by name."""

    @abstractmethod
    def topics(self) -> list[Topic]:
        """Return all topics, by name."""

    @abstractmethod
    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job, oldest first; the present attempt too. [] for an unknown id."""

    @abstractmethod
    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed; None if nothing ever can.

        That is the due time of a delayed job, or the end of a lease (plus its backoff) of a job that has attempts left.
        """

    @abstractmethod
    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return up to `limit` delayed jobs with `after` < (due, id) and due <= `until`, by (due, id).

        Only those in these topics, unless they are paused, and in these shards. O(log jobs + what comes back), whatever
        else is stored, in other shards apart. May leave out a job that is being changed meanwhile: its change is
        hinted.
        """

    @abstractmethod
    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after` of delayed jobs in these topics, whatever their shard; or None."""

    @abstractmethod
    def hints(self, cursor: int) -> Hints:
        """Return what changed since `cursor`, within what any listener published. -1 asks for a cursor to start with.

        Every put, reschedule, retry, nack, release or expiry that is applied after `publish(horizon)` returned, and
        whose old or new due time is at most that horizon, is in the hints of some later call, or `reload` is set; and
        the listener is woken after it was applied. A hint may name a job that has meanwhile changed, or come twice.
        """

    @abstractmethod
    def listen(self, name: str) -> Listener:
        """Return a new listener for a worker whose name begins with `name`. Its horizon is at the beginning of time."""

    def vacuum(self, pages: int) -> int:  # noqa: ARG002
        """Give the room of about so many pages of purged jobs back to the system; return how many were."""
        return 0

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. Idempotent; waits for a commit under way; other methods then raise StoreClosed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
