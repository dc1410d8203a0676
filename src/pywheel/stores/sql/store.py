"""The reading half of every store on SQL: each query is statements of the engine, of one moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped
from ..contract import Ended, Filter, Page, Store
from ..pages import asked
from ..readings import edges_of, most_of
from . import lists, notes, read
from .dialect import Dialect
from .forecast import forecast
from .statement import Steps
from .transaction import Names

__all__ = ["SqlStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class SqlStore(Store):
    """A store whose queries are those of the engine."""

    dialect: Dialect
    _known: Names
    """The names of topics that readers know: what they read is committed. `_known_workers` are those of workers."""
    _known_workers: Names

    @abstractmethod
    def _ask(self, query: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what a query comes to: it is begun anew if a connection breaks."""

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        return self._ask(read.get, self._known, ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return self._ask(lists.jobs, self._known, filter, after, limit, self.dialect.tallies())

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list.

        Where a topic or a state has many jobs, the tables are walked through by id: some thousands of rows for a page,
        whatever comes of it. All else costs by what comes back, and by how many topics there are without one.
        """
        wanted = asked(filter, after, limit, preview, newest=newest)
        return self._ask(lists.page, self._known, wanted, self.dialect.tallies())

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        return self._ask(read.counts, self._known, self.dialect.tallies())

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return self._ask(read.topics, self._known)

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self.histories([id])[0]

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return what was tried with jobs."""
        return self._ask(read.histories, self._known_workers, [an_id(id) for id in ids])

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs, without their bodies."""
        return self._ask(read.states, [an_id(id) for id in ids])

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due between edges."""
        return self._ask(forecast, self._known, edges_of(edges, most), topic, most, self.dialect.tallies())

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last."""
        return self._ask(lists.recent, self._known, topic, clamped(since), most_of(limit), self._known_workers)

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        return self._ask(notes.note, name)

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        return self._ask(notes.notes, a_prefix(prefix), a_prefix(after), limit)

    def next_dues(self, topics: Sequence[str] | None = None) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        return self._ask(read.next_dues, self._known, topics)

    def first_due(self, topic: str, limit: int) -> list[Due]:
        """Return the jobs that a Reserve would claim."""
        return self._ask(read.first_due, self._known, topic, limit)

    def claimed_by(self, worker: str) -> list[tuple[int, int]]:
        """Return the receipts of all jobs that run for a worker."""
        return self._ask(read.claimed_by, worker)

    def _present(self, ids: Sequence[int]) -> set[int]:
        """Return those of some ids of which there are jobs."""
        return self._ask(read.there, ids)
