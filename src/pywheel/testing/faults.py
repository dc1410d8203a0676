"""A store that fails on purpose, in front of any other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .._errors import StoreError
from ..jobs.commands import Op, Ref
from ..jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..stores.contract import Hints, Listener, Store

__all__ = ["FaultyStore"]


class FaultyStore(Store):
    """Asks `fault(when, ops)` before and after each call of `apply`; what that raises, the call raises.

    `when` is ``"before"``: nothing has happened, or ``"after"``: everything has, durably, and the caller does not learn
    of it. The fault may also kill the process. While `away` is set, every method raises StoreError.
    """

    def __init__(self, store: Store, fault: Callable[[str, Sequence[Op]], None] | None = None) -> None:
        self.inner = store
        self.url = store.url
        self.durability = store.durability
        self.clock = store.clock
        self.fault = fault
        self.away = False

    def apply(self, ops: Sequence[Op]) -> list[Any]:
        """Apply commands, or fail before or after it."""
        store = self._there()
        if self.fault:
            self.fault("before", ops)
        outcomes = store.apply(ops)
        if self.fault:
            self.fault("after", ops)
        return outcomes

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        return self._there().get(ref)

    def jobs(self, topic: str | None, state: State | None, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return self._there().jobs(topic, state, after, limit)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return self._there().counts()

    def topics(self) -> list[Topic]:
        """Return all topics."""
        return self._there().topics()

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self._there().history(id)

    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed."""
        return self._there().next_due()

    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return delayed jobs by (due, id)."""
        return self._there().window(topics, shards, after, until, limit)

    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after`."""
        return self._there().first_due(topics, after)

    def hints(self, cursor: int) -> Hints:
        """Return what changed since `cursor`."""
        return self._there().hints(cursor)

    def listen(self, name: str) -> Listener:
        """Return a new listener."""
        return self._there().listen(name)

    def vacuum(self, pages: int) -> int:
        """Give room back."""
        return self._there().vacuum(pages)

    def close(self) -> None:
        """Close the store behind."""
        self.inner.close()

    def _there(self) -> Store:
        if self.away:
            raise StoreError("the store is away (on purpose)")
        return self.inner
