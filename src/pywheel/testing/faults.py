"""A store that fails on purpose, in front of any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._errors import StoreAway
from ..jobs.commands import Command, Put, Ref
from ..jobs.job import Attempt, Counts, Due, Job, Topic
from ..stores.contract import Filter, Span, Store
from ..stores.notifier import Member, Notifier
from ..stores.verify import Finding

__all__ = ["FaultyStore"]


class FaultyStore(Store):
    """Asks `fault(when, commands)` before and after each call of `apply`; what that raises, the call raises.

    `when` is ``"before"``: nothing has happened, or ``"after"``: everything has, durably, and the caller does not learn
    of it. The fault may also kill the process. While `away` is set, every method but `close` raises StoreAway.
    """

    def __init__(self, store: Store, fault: Callable[[str, Sequence[Command[Any]]], None] | None = None) -> None:
        self.inner = store
        self.url, self.address = store.url, store.address
        self.durability, self.ids_grow = store.durability, store.ids_grow
        self.clock = store.clock
        self.fault = fault
        self.away = False

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands, or fail before or after it."""
        store = self._there()
        if self.fault:
            self.fault("before", commands)
        outcomes = store.apply(commands)
        if self.fault:
            self.fault("after", commands)
        return outcomes

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        return self._there().put_within(connection, put)

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        return self._there().get(ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return self._there().jobs(filter, after, limit)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return self._there().counts()

    def topics(self) -> list[Topic]:
        """Return all topics."""
        return self._there().topics()

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self._there().history(id)

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id)."""
        return self._there().windows(spans, limit)

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        return self._there().first_dues(spans)

    def next_lease(self) -> int | None:
        """Return when some lease may be over at the earliest."""
        return self._there().next_lease()

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier, which never fails."""
        return self._there().notifier(name)

    def workers(self) -> list[Member]:
        """Return all workers that have announced topics."""
        return self._there().workers()

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause."""
        return self._there().quiet(topic, seconds)

    def about(self) -> dict[str, Any]:
        """Return what there is to know of the place."""
        return self._there().about()

    def vacuum(self, pages: int) -> int:
        """Give room back."""
        return self._there().vacuum(pages)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is stored."""
        return self._there().verify(repair=repair)

    def close(self) -> None:
        """Close the store behind."""
        self.inner.close()

    def _there(self) -> Store:
        if self.away:
            raise StoreAway("the store is away (on purpose)")
        return self.inner
