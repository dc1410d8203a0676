"""What carries the statements of one transaction to a server, and what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from ..._errors import StoreAway, StoreBusy
from ..sql.statement import Batch, Insert, Steps

__all__ = ["LATER", "Conflict", "Session", "Unknown", "drive"]

T = TypeVar("T")
LATER: Final = -2
"""How far some worker looks, where a put does not ask."""


class Conflict(StoreBusy):
    """Another transaction came first: begin anew, and see what it has done."""


class Unknown(StoreAway):
    """The connection broke in the commit, and whether it happened is not known."""


class Session(ABC):
    """One transaction. Each batch is a trip."""

    fixed = False
    """Whether it sees what there was at a moment, however often it looks."""

    @abstractmethod
    def send(self, batch: Batch) -> Sequence[Any]:
        """Run statements in order; return the rows of each. The first ones begin the transaction."""

    @abstractmethod
    def commit(self, batch: Batch, near: int | None, put: int | None) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run statements and commit; return their rows, and those of the workers if one looks as far as `near`.

        If the connection breaks, `put` is a job that is there exactly if it happened. StoreAway: nothing of it did.
        """

    def put(self, insert: Insert, first: int) -> tuple[int | None, Sequence[int] | None] | None:  # noqa: ARG002
        """Insert jobs, count them and commit, in one statement; None if this database has no such statement.

        Return how far some worker looks, None if there is none, LATER if that is asked later for many puts at once; and
        the ids of those that were stored, None for all. `first` is as for `commit`.
        """
        return None

    @abstractmethod
    def abandon(self) -> None:
        """End it without a change."""


def drive(send: Callable[[Batch], Sequence[Any]], steps: Steps[T], batch: Batch | None = None) -> T:
    """Return what a generator returns, each of its batches a trip; the first one may have been taken from it."""
    try:
        batch = next(steps) if batch is None else batch
        while True:
            batch = steps.send(send(batch) if batch else ())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
