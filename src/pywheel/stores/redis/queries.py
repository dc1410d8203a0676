"""Queries: one call each, or several where much is to be looked at, so that none takes long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, note_name
from ..forecast import Forecast
from ..pages import Asked, Position, asked
from ..several.inner import Inner
from . import records
from .records import LAST, STATES, from_id, score
from .server import Server

__all__ = ["Queries"]

R = TypeVar("R")

_PAGE: Final = 500  # jobs asked for at once
_FIRST: Final = 10_000  # due jobs of one look
_NOTES: Final = 128  # of up to 64 KiB, asked for at once
_TOPICS: Final = 200  # counted by one call: the server answers others in between
_COUNTED: Final = 10_000  # numbers of one call: topics by spans


def _parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    return (list(values[first : first + _PAGE]) for first in range(0, len(values), _PAGE))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


class Queries(Inner):
    """The reading half of the contract."""

    server: Server

    @abstractmethod
    def run(self, function: str, *binary: bytes, **asked: Any) -> Any:
        """Return what a function answers: one that may be called twice."""

    @abstractmethod
    def _open(self) -> None:
        """Raise StoreClosed if the store is closed."""

    def ask(self, query: q.Query[R]) -> R:
        """Return the answer to a query; see the contract."""
        if type(query) not in _ANSWERS:
            raise TypeError(f"a store answers queries, not {type(query).__name__}")
        self._open()
        return _ANSWERS[type(query)](self, query)  # type: ignore[no-any-return]  # what the class of the query says

    @abstractmethod
    def _next_lease(self, query: q.GetNextLease) -> int | None:
        """Return when some lease may be over."""

    @abstractmethod
    def _workers(self, query: q.ListWorkers) -> list[q.Member]:
        """Return all workers that have announced topics, by name."""

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def _job(self, query: q.GetJob) -> Job | None:
        found = records.jobs_of(self.run("job", ref=query.ref)[1])
        return found[0] if found else None

    def _looked_at(self, wanted: Asked) -> tuple[list[Job], list[int], Position | None]:
        """Return jobs, the sizes of their bodies, and the place behind which there may be more."""
        filter, after = wanted.filter, wanted.after
        answer = self.run(
            "page",
            limit=wanted.limit,
            down=wanted.newest,
            due=str(after.due) if wanted.by_due else None,
            after=min(max(after.id, 0), LAST),
            stop=wanted.until,
            preview=wanted.preview,
            **filter._asdict() | {"state": None if filter.state is None else STATES.index(filter.state)},
        )
        _, more, due, id, found, sizes = answer
        last = Position(score(due) if wanted.by_due else 0, from_id(id))
        return records.jobs_of(found), sizes, last if more else None

    def _jobs(self, query: q.ListJobs) -> list[Job]:
        found: list[Job] = []
        place: Position | None = Position(0, min(max(clamped(query.after), 0), LAST))
        while place is not None and len(found) < query.limit:
            some = min(query.limit - len(found), _PAGE)
            wanted = asked(q.GetPage(query.filter, limit=some))._replace(after=place, by_due=False)
            jobs, _, place = self._looked_at(wanted)
            found += jobs
        return found

    def _page(self, query: q.GetPage) -> q.Page:
        """Return a page of a list.

        Where a topic, or a state, has thousands of jobs, some thousands of all are walked through for a page by id.
        By due time it costs by what comes back, and by how many topics there are without one.
        """
        wanted = asked(query)
        jobs, sizes, last = self._looked_at(wanted)
        return q.Page(jobs, None if last is None else wanted.cursor(last), sizes)

    def _histories(self, query: q.GetHistories) -> list[list[Attempt]]:
        return [records.attempts(rows) for some in _parts(query.ids) for rows in self.run("histories", ids=some)[1]]

    def _states(self, query: q.GetStates) -> list[State | None]:
        found = (state for some in _parts(query.ids) for state in self.run("states", ids=some)[1])
        return [None if state < 0 else STATES[state] for state in found]

    # ---- topics -----------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        names: list[bytes] = self.run("topics")[1][::2]
        return [name.decode() for name in names]

    def _topics(self, _: q.ListTopics) -> list[Topic]:
        each, found = iter(self.run("topics")[1]), []
        for name, known in zip(each, each, strict=True):
            paused, *lanes = known.split(b" ")
            ranks = {int(lane) for lane in lanes if lane[-1:].isdigit()} - {0}
            found.append(Topic(name.decode(), paused != b"", tuple(sorted(ranks, reverse=True))))
        return sorted(found)

    def _counts(self, _: q.CountJobs) -> dict[str, Counts]:
        """Return the counts of each topic. O(topics + jobs whose lease is over)."""
        found = {}
        for name, delayed, running, done, dead, cancelled, over in sorted(self.run("counts")[1]):
            topic, lost = name.decode(), 0
            for first in range(0, over, _PAGE):
                lost += self.run("lapsed", topic=topic, first=first, last=min(first + _PAGE, over) - 1)[1]
            found[topic] = Counts(delayed + over - lost, running, done, dead + lost, cancelled)
        return found

    def _forecast(self, query: q.GetForecast) -> list[int]:
        if len(query.edges) < 2:
            return []
        names = self._names() if query.topic is None else [query.topic]
        return _Forecast(self, names, query)(None if query.topic is None else 0)

    def _ended(self, query: q.ListEnded) -> list[q.Ended]:
        return [
            q.Ended(
                from_id(id),
                topic.decode(),
                _text(key),
                STATES[state],
                due,
                started,
                ended,
                attempt,
                _text(worker),
                _text(error),
            )
            for id, topic, key, state, due, started, ended, attempt, worker, error in self.run(
                "ended", topic=query.topic, since=clamped(query.since), limit=query.most
            )[1]
        ]

    # ---- notes ------------------------------------------------------------------------------------------------------

    def _note(self, query: q.GetNote) -> bytes | None:
        found: list[bytes] = self.run("notes", name=note_name(query.name).decode())[1]
        return found[0] if found else None

    def _notes(self, query: q.ListNotes) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        prefix, after = a_prefix(query.prefix), a_prefix(query.after)  # compared as bytes
        least = f"({query.after}" if after >= prefix else f"[{query.prefix}"
        while len(found) < query.limit:
            some = min(query.limit - len(found), _NOTES)
            _, looked, last, reply = self.run("notes", least=least, prefix=query.prefix, limit=some)
            found += [(name.decode(), value) for name, value in zip(reply[::2], reply[1::2], strict=True)]
            if looked < some:
                break
            least = f"({last.decode()}"
        return found

    # ---- for workers ------------------------------------------------------------------------------------------------

    def _next_dues(self, query: q.GetNextDues) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in _parts(self._names() if query.topics is None else query.topics):
            dues = self.run("next_dues", topics=some, paused=query.topics is None)[1]
            found |= {topic: score(due) for topic, due in zip(some, dues, strict=True) if due is not None}
        return found

    def _first_due(self, query: q.ListFirstDue) -> list[Due]:
        found = self.run("first_due", topic=query.topic, limit=min(max(query.limit, 0), _FIRST))[1]
        return [Due(score(due), from_id(id), query.topic, priority) for id, due, priority in found]

    def _claims(self, query: q.ListClaims) -> list[tuple[int, int]]:
        found: dict[int, int] = {}
        topics, cursor = self._names(), "0"
        while topics:
            answer = self.run("claims", worker=query.worker, cursor=cursor, topics=topics[:_TOPICS])
            done, cursor, receipts = answer[1], answer[2].decode(), iter(answer[3])
            found |= {from_id(id): claims for id, claims in zip(receipts, receipts, strict=True)}
            topics = topics[done:]
        return list(found.items())

    def about(self) -> dict[str, Any]:
        """Return which server it is, what it promises, and how much memory all its data takes."""
        connection = self.server.fresh()
        facts = connection.facts
        self.server.give(connection)
        names = {"version": "redis_version", "memory_bytes": "used_memory", "maxmemory_bytes": "maxmemory"}
        if "valkey_version" in facts:  # the other one is that of the Redis which it is like
            names["version"] = "valkey_version"
        said = {name: facts.get(fact) for name, fact in names.items()}
        numbers = {name: int(value) for name, value in said.items() if value and name.endswith("bytes")}
        return {"server": facts.get("server_name", "redis"), **said, **numbers, "prefix": self.server.place.prefix}


class _Forecast(Forecast):
    """Counts what is due. A topic's number is its place; some hundreds are asked for at once, and others in between."""

    def __init__(self, store: Queries, names: Sequence[str], query: q.GetForecast) -> None:
        super().__init__(query.edges, query.cap)
        self._store = store
        self._names = names

    def _ask(self, topics: Sequence[int], numbers: int = 1, **asked: Any) -> Iterator[list[Any]]:
        some = max(min(_TOPICS, _COUNTED // numbers), 1)
        for first in range(0, len(topics), some):
            names = [self._names[topic] for topic in topics[first : first + some]]
            yield self._store.run("forecast", topics=names, **asked)[1]

    def topics(self) -> list[int]:
        """Return all topics."""
        numbers = range(len(self._names))
        sizes = list(chain.from_iterable(self._ask(numbers)))
        return sorted(numbers, key=sizes.__getitem__, reverse=True)

    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> list[int]:  # noqa: ARG002
        """Return how many jobs are due in each span: all of them, as counting costs no more."""
        return [sum(jobs) for jobs in zip(*self._ask(topics, len(spans), spans=spans), strict=True)]

    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return the due times of jobs, and the topics with many."""
        found = list(chain.from_iterable(self._ask(topics, span=span, share=share)))
        dues = [list(map(score, some)) for some in found if isinstance(some, list)]
        return dues, [topic for topic, some in zip(topics, found, strict=True) if not isinstance(some, list)]


_ANSWERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    q.GetJob: Queries._job,
    q.ListJobs: Queries._jobs,
    q.GetPage: Queries._page,
    q.GetHistories: Queries._histories,
    q.GetStates: Queries._states,
    q.CountJobs: Queries._counts,
    q.ListTopics: Queries._topics,
    q.GetForecast: Queries._forecast,
    q.ListEnded: Queries._ended,
    q.GetNote: Queries._note,
    q.ListNotes: Queries._notes,
    q.GetNextLease: lambda store, query: store._next_lease(query),
    q.GetNextDues: Queries._next_dues,
    q.ListFirstDue: Queries._first_due,
    q.ListClaims: Queries._claims,
    q.ListWorkers: lambda store, query: store._workers(query),
}
