"""The part of the engine for each command and query."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar

from ..._errors import StoreClosed
from ...jobs import commands as c
from ...jobs import queries as q
from ..contract import CLOSED, Store
from . import claim, lists, manage, notes, put, read, settle
from .dialect import Dialect
from .statement import Steps, drive_all
from .transaction import Lookup, Names, Transaction

_R = TypeVar("_R")
_Part = Callable[[Transaction, Any], Steps[list[Any]]]


def _announce(tx: Transaction, commands: Sequence[c.Announce]) -> Steps[list[None]]:
    for command in commands:
        topics = json.dumps(sorted(set(command.topics))) if command.topics else None
        tx.changes.announced[command.worker] = command.topics
        yield from tx.dialect.announce(tx, command.worker, topics)
    return [None] * len(commands)


_PARTS: Final[dict[type, _Part]] = {
    c.Put: put.put,
    c.Import: put.take_in,
    c.Cancel: partial(manage.each, manage.cancel),
    c.Edit: partial(manage.each, manage.edit),
    c.Retry: partial(manage.each, manage.retry),
    c.Rewrite: manage.rewrite,
    c.Delete: partial(manage.each, manage.delete),
    c.Pause: manage.pause,
    c.Purge: manage.purge,
    c.SetNote: notes.keep,
    c.Reserve: claim.reserve,
    c.Claim: claim.claim,
    c.Ack: settle.settle,
    c.Nack: settle.settle,
    c.Release: settle.settle,
    c.Touch: settle.settle,
    c.Begin: settle.settle,
    c.Expire: settle.expire,
    c.Announce: _announce,
}
"""The function for each kind of command. It applies a run of commands of its kinds."""


def apply(tx: Transaction, commands: Sequence[c.Command[Any]]) -> Steps[list[Any]]:
    """Apply commands in order; return the outcome of each. The caller then runs `Dialect.count` and commits."""
    parts = zip(map(_PARTS.__getitem__, map(type, commands)), commands, strict=True)
    steps = [part(tx, [command for _, command in some]) for part, some in groupby(parts, itemgetter(0))]
    return steps[0] if len(steps) == 1 else _in_order(steps)


def _in_order(steps: Sequence[Steps[list[Any]]]) -> Steps[list[Any]]:
    parts = yield from drive_all(steps)
    return [outcome for outcomes in parts for outcome in outcomes]


# ---- reading --------------------------------------------------------------------------------------------------------

_ANSWERS: Final[dict[type, Callable[[Lookup, Any], Steps[Any]]]] = {
    q.GetJob: read.job,
    q.ListJobs: lists.jobs,
    q.GetPage: lists.page,
    q.GetHistories: read.histories,
    q.GetStates: read.states,
    q.CountJobs: read.counts,
    q.ListTopics: read.topics,
    q.GetForecast: read.forecast,
    q.ListEnded: lists.ended,
    q.GetNote: notes.note,
    q.ListNotes: notes.notes,
    q.GetNextDues: read.next_dues,
    q.ListFirstDue: read.first_due,
    q.ListClaims: read.claims,
}
"""The function that answers each query."""


class SqlStore(Store):
    """A store whose queries are those of the engine."""

    dialect: Dialect
    _known: Names
    """The names of topics that readers know, all committed. `_known_workers` has those of workers."""
    _known_workers: Names
    _presence: Any
    """The present workers: SQLite has a class for them, and servers another one."""
    _closed = False

    @abstractmethod
    def _read_steps(self, begin: Callable[[], Steps[_R]]) -> _R:
        """Return the result of steps that only read. They begin anew if a connection breaks."""

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
            answer = self._read_steps(partial(self._answering, query))
        else:
            raise TypeError(f"a store takes queries here, not {type(query).__name__}")
        return answer  # type: ignore[no-any-return]  # what the class of the query says

    def _answering(self, query: q.Query[Any]) -> Steps[Any]:
        lookup = Lookup(self._known, self._known_workers, self.dialect.tallies())
        return _ANSWERS[type(query)](lookup, query)

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no job claimed before the pause can start, False after `seconds` or if resumed."""
        self._open()
        return self._presence.quiet(topic, seconds)  # type: ignore[no-any-return]

    def _open(self) -> None:
        """Raise StoreClosed if the store is closed."""
        if self._closed:
            raise StoreClosed(CLOSED)

    def _present(self, ids: Sequence[int]) -> dict[int, int]:
        """Return the due times of the jobs that exist among these ids, by id."""
        return self._read_steps(partial(read.there, ids))
