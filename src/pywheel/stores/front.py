"""A store in front of another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from ..jobs.commands import Put, Ref
from ..jobs.job import Attempt, Counts, Due, Job, State, Topic
from .contract import Ended, Filter, Page, Store
from .notifier import Member, Notifier
from .verify import Finding

__all__ = ["Front"]


class Front(Store):
    """Answers as the store behind it does, which may not be there. What is to be different is overridden."""

    @abstractmethod
    def _there(self) -> Store:
        """Return the store behind. StoreAway if it is not there."""

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        return self._there().put_within(connection, put)

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        return self._there().get(ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return self._there().jobs(filter, after, limit)

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list."""
        return self._there().page(filter, after, limit, preview=preview, newest=newest)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return self._there().counts()

    def topics(self) -> list[Topic]:
        """Return all topics."""
        return self._there().topics()

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self._there().history(id)

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return the histories of jobs."""
        return self._there().histories(ids)

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs."""
        return self._there().states(ids)

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due between edges."""
        return self._there().forecast(edges, topic, most)

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last."""
        return self._there().recent(topic, since, limit)

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        return self._there().note(name)

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        return self._there().notes(prefix, after, limit)

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs that died with a lost lease."""
        return self._there().died(topics)

    def next_dues(self, topics: Sequence[str] | None = None) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        return self._there().next_dues(topics)

    def first_due(self, topic: str, limit: int) -> list[Due]:
        """Return the jobs that a Reserve would claim."""
        return self._there().first_due(topic, limit)

    def claimed_by(self, worker: str) -> list[tuple[int, int]]:
        """Return the receipts of all jobs that run for a worker."""
        return self._there().claimed_by(worker)

    def next_lease(self) -> int | None:
        """Return when some lease may be over at the earliest."""
        return self._there().next_lease()

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier of the store behind."""
        return self._there().notifier(name)

    def workers(self) -> list[Member]:
        """Return all workers that have announced topics."""
        return self._there().workers()

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once no worker can start a job of a paused topic that it claimed before."""
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
