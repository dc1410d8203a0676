"""Reading the store: one call each, or several where much is to be looked at, so that none takes long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from ...jobs import queries as q
from ...jobs.checks import an_id
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, note_name
from ..forecast import Forecast
from ..pages import Asked, Position, asked
from ..several.inner import Inner
from . import records
from .records import LAST, STATES, from_id, known, number, reference, score, to_id
from .server import Server

__all__ = ["Readers"]

R = TypeVar("R")

_PAGE: Final = 500  # jobs asked for at once
_FIRST: Final = 10_000  # due jobs of one look
_NOTES: Final = 128  # of up to 64 KiB, asked for at once
_TOPICS: Final = 200  # counted by one call: the server answers others in between
_COUNTED: Final = 10_000  # numbers of one call: topics by spans


def _text(mark: bytes, text: str | None) -> bytes:
    return b"" if text is None else mark + text.encode()


def _number(value: int | None) -> bytes:
    return b"" if value is None else number(value)


def _ids(ids: Sequence[int]) -> bytes:
    return b"".join([to_id(id if known(an_id(id)) else 0) for id in ids])


class Readers(Inner):
    """The reading half of the contract."""

    server: Server

    @abstractmethod
    def run(self, function: str, arguments: Sequence[bytes] = ()) -> Any:
        """Return what a function answers: one that may be called twice."""

    @abstractmethod
    def call(self, *parts: bytes) -> Any:
        """Return what the server answers to a plain command."""

    @abstractmethod
    def _open(self) -> None:
        """Raise StoreClosed if the store is closed."""

    @abstractmethod
    def _answered(self, answer: Sequence[int]) -> int:
        """Return the time by which an answer was given."""

    def ask(self, query: q.Query[R]) -> R:
        """Return the answer to a query; see the contract."""
        if type(query) not in _ANSWERS:
            raise TypeError(f"a store answers queries, not {type(query).__name__}")
        return _ANSWERS[type(query)](self, query)  # type: ignore[no-any-return]  # what the class of the query says

    @abstractmethod
    def _next_lease(self, query: q.GetNextLease) -> int | None:
        """Return when some lease may be over."""

    @abstractmethod
    def _workers(self, query: q.ListWorkers) -> list[q.Member]:
        """Return all workers that have announced topics, by name."""

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def _job(self, query: q.GetJob) -> Job | None:
        answer = self.run("get", (reference(query.ref) or b"i" + to_id(0),))
        return records.job_of(answer[1], self._answered(answer)) if answer[1] else None

    def _looked_at(self, wanted: Asked) -> tuple[list[Job], list[int], Position | None]:
        """Return jobs, the sizes of their bodies, and the place behind which there may be more."""
        filter, after = wanted.filter, wanted.after
        answer = self.run(
            "page",
            (
                number(wanted.limit),
                number(wanted.newest),
                number(after.due) if wanted.by_due else b"",
                to_id(min(max(after.id, 0), LAST)),
                number(wanted.until),
                _text(b"t", filter.topic),
                b"" if filter.state is None else number(STATES.index(filter.state)),
                _text(b"k", filter.key),
                _text(b"e", filter.error),
                _number(filter.due_from),
                _number(filter.due_until),
                _number(wanted.preview),
            ),
        )
        _, more, due, id, values = answer
        now = self._answered(answer)
        jobs = [records.job_of(values[at : at + 4], now) for at in range(0, len(values), 5)]
        last = Position(score(due) if wanted.by_due else 0, from_id(id))
        return jobs, values[4::5], last if more else None

    def _jobs(self, query: q.ListJobs) -> list[Job]:
        found: list[Job] = []
        limit = query.limit
        place: Position | None = Position(0, min(max(clamped(query.after), 0), LAST))
        self._open()
        while place is not None and len(found) < limit:
            some = min(limit - len(found), _PAGE)
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
        """Return what was tried with jobs, with some hundreds by one call."""
        parts = (query.ids[first : first + _PAGE] for first in range(0, len(query.ids), _PAGE))
        return [records.attempts(rows) for some in parts for rows in self.run("history", (_ids(some),))[1]]

    def _states(self, query: q.GetStates) -> list[State | None]:
        """Return the states of jobs, of some hundreds by one call."""
        parts = (query.ids[first : first + _PAGE] for first in range(0, len(query.ids), _PAGE))
        found = (state for some in parts for state in self.run("seen", (_ids(some),))[1])
        return [None if state < 0 else STATES[state] for state in found]

    # ---- topics -----------------------------------------------------------------------------------------------------

    def _topics(self, _: q.ListTopics) -> list[Topic]:
        _, found, lanes = self.run("topics")
        ranks = {
            topic: sorted({int(lane) for lane in names.split() if lane[-1:].isdigit()} - {0}, reverse=True)
            for topic, names in zip(lanes[::2], lanes[1::2], strict=True)
        }
        return sorted(
            Topic(topic.decode(), paused != b"", tuple(ranks.get(topic, ())))
            for topic, paused in zip(found[::2], found[1::2], strict=True)
        )

    def _counts(self, _: q.CountJobs) -> dict[str, Counts]:
        """Return the counts of each topic. O(topics + jobs whose lease is over)."""
        found = {}
        for topic, delayed, running, done, dead, cancelled, over in sorted(self.run("counts")[1]):
            lost = 0
            for first in range(0, over, _PAGE):
                lost += self.run("lapsed", (topic, number(first), number(min(first + _PAGE, over) - 1)))[1]
            found[topic.decode()] = Counts(delayed + over - lost, running, done, dead + lost, cancelled)
        return found

    def _forecast(self, query: q.GetForecast) -> list[int]:
        self._open()
        if len(query.edges) < 2:
            return []
        names = self.run("topics")[1][::2] if query.topic is None else [query.topic.encode()]
        return _Forecast(self, names, query)(None if query.topic is None else 0)

    def _ended(self, query: q.ListEnded) -> list[q.Ended]:
        _, rows = self.run("recent", (_text(b"t", query.topic), number(clamped(query.since)), number(query.most)))
        return [
            q.Ended(
                from_id(id),
                name.decode(),
                None if key is None else key.decode(),
                STATES[state],
                due,
                started,
                ended,
                attempt,
                None if worker is None else worker.decode(),
                None if why is None else why.decode(),
            )
            for id, name, key, state, due, started, ended, attempt, worker, why in rows
        ]

    # ---- notes ------------------------------------------------------------------------------------------------------

    def _note(self, query: q.GetNote) -> bytes | None:
        found: list[bytes] = self.run("note", (note_name(query.name),))[1]
        return found[0] if found else None

    def _notes(self, query: q.ListNotes) -> list[tuple[str, bytes]]:
        first, behind, limit = a_prefix(query.prefix), a_prefix(query.after), query.limit
        least, end = b"(" + behind if behind >= first else b"[" + first, b"(" + first + b"\xff"
        found: list[tuple[str, bytes]] = []
        self._open()
        while len(found) < limit:
            some = min(limit - len(found), _NOTES)
            _, looked, last, reply = self.run("note", (least, end, number(some)))
            found += [(name.decode(), value) for name, value in zip(reply[::2], reply[1::2], strict=True)]
            if looked < some:
                break
            least = b"(" + last
        return found

    # ---- for workers ------------------------------------------------------------------------------------------------

    def _next_dues(self, query: q.GetNextDues) -> dict[str, int]:
        found: dict[str, int] = {}
        topics = query.topics
        self._open()
        paused = b"" if topics is not None else b"1"
        topics = [topic.decode() for topic in self.run("topics")[1][::2]] if topics is None else topics
        for first in range(0, len(topics), _PAGE):
            some = topics[first : first + _PAGE]
            dues = self.run("next_dues", [paused, *(topic.encode() for topic in some)])[1]
            found |= {topic: score(due) for topic, due in zip(some, dues, strict=True) if due is not None}
        return found

    def _first_due(self, query: q.ListFirstDue) -> list[Due]:
        found = iter(self.run("first_due", (query.topic.encode(), number(min(max(query.limit, 0), _FIRST))))[1])
        return [
            Due(score(due), from_id(id), query.topic, rank) for due, id, rank in zip(found, found, found, strict=True)
        ]

    def _claims(self, query: q.ListClaims) -> list[tuple[int, int]]:
        found: dict[int, int] = {}
        topics = self.call(b"ZRANGE", self.server.prefix + b":l", b"0", b"-1")
        cursor = b"0"
        while topics:
            some = topics[:_TOPICS]
            _, done, cursor, receipts = self.run("claimed_by", (query.worker.encode(), cursor, *some))
            found |= {from_id(id): claims for id, claims in zip(receipts[::2], receipts[1::2], strict=True)}
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

    def __init__(self, store: Readers, names: Sequence[bytes], query: q.GetForecast) -> None:
        super().__init__(query.edges, query.cap)
        self._store = store
        self._names = names

    def _ask(self, what: bytes, numbers: Sequence[int], topics: Sequence[int]) -> Iterator[list[Any]]:
        some = max(min(_TOPICS, _COUNTED // max(len(numbers) // 2, 1)), 1)
        for first in range(0, len(topics), some):
            names = [self._names[topic] for topic in topics[first : first + some]]
            yield self._store.run("forecast", (what, number(len(numbers)), *map(number, numbers), *names))[1]

    def topics(self) -> list[int]:
        """Return all topics."""
        numbers = range(len(self._names))
        sizes = list(chain.from_iterable(self._ask(b"sizes", (), numbers)))
        return sorted(numbers, key=sizes.__getitem__, reverse=True)

    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> list[int]:  # noqa: ARG002
        """Return how many jobs are due in each span: all of them, as counting costs no more."""
        parts = self._ask(b"spans", list(chain.from_iterable(spans)), topics)
        return [sum(jobs) for jobs in zip(*parts, strict=True)]

    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return the due times of jobs, and the topics with many."""
        found = list(chain.from_iterable(self._ask(b"few", (*span, share), topics)))
        dues = [list(map(score, some)) for some in found if isinstance(some, list)]
        return dues, [topic for topic, some in zip(topics, found, strict=True) if not isinstance(some, list)]


_ANSWERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    q.GetJob: Readers._job,
    q.ListJobs: Readers._jobs,
    q.GetPage: Readers._page,
    q.GetHistories: Readers._histories,
    q.GetStates: Readers._states,
    q.CountJobs: Readers._counts,
    q.ListTopics: Readers._topics,
    q.GetForecast: Readers._forecast,
    q.ListEnded: Readers._ended,
    q.GetNote: Readers._note,
    q.ListNotes: Readers._notes,
    q.GetNextLease: lambda store, query: store._next_lease(query),
    q.GetNextDues: Readers._next_dues,
    q.ListFirstDue: Readers._first_due,
    q.ListClaims: Readers._claims,
    q.ListWorkers: lambda store, query: store._workers(query),
}
