"""The reading half of every store on SQL: each query is statements of the engine, of one moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from ...jobs import queries as q
from ..contract import Store
from . import lists, notes, read
from .dialect import Dialect
from .forecast import forecast
from .statement import Steps
from .transaction import Lookup, Names

__all__ = ["SqlStore"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ANSWERS: Final[dict[type, Callable[[Lookup, Any], Steps[Any]]]] = {
    q.GetJob: read.job,
    q.ListJobs: lists.jobs,
    q.GetPage: lists.page,
    q.GetHistories: read.histories,
    q.GetStates: read.states,
    q.CountJobs: read.counts,
    q.ListTopics: read.topics,
    q.GetForecast: forecast,
    q.ListEnded: lists.ended,
    q.GetNote: notes.note,
    q.ListNotes: notes.notes,
    q.GetNextDues: read.next_dues,
    q.ListFirstDue: read.first_due,
    q.ListClaims: read.claims,
}
"""What answers each query."""


class SqlStore(Store):
    """A store whose queries are those of the engine."""

    dialect: Dialect
    _known: Names
    """The names of topics that readers know: what they read is committed. `_known_workers` are those of workers."""
    _known_workers: Names

    @abstractmethod
    def _read_steps(self, begin: Callable[_P, Steps[_R]], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what steps that only read come to. They are begun anew if a connection breaks."""

    @abstractmethod
    def _first_lease_end(self) -> int | None:
        """Return the answer to GetNextLease."""

    @abstractmethod
    def _list_workers(self) -> list[q.Member]:
        """Return the answer to ListWorkers."""

    def ask(self, query: q.Query[_R]) -> _R:
        """Return the answer to a query; see the contract."""
        answer: Any
        if isinstance(query, q.GetNextLease):
            answer = self._first_lease_end()
        elif isinstance(query, q.ListWorkers):
            answer = self._list_workers()
        elif type(query) in _ANSWERS:
            lookup = Lookup(self._known, self._known_workers, self.dialect.tallies())
            answer = self._read_steps(_ANSWERS[type(query)], lookup, query)
        else:
            raise TypeError(f"a store answers queries, not {type(query).__name__}")
        return answer  # type: ignore[no-any-return]  # what the class of the query says

    def _present(self, ids: Sequence[int]) -> set[int]:
        """Return those of some ids of which there are jobs."""
        return self._read_steps(read.there, ids)
