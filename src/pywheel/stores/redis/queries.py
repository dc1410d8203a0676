"""Queries: one call each, or several where much is to be looked at, so that none takes long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import inf
from operator import add, itemgetter
from typing import Any, Final, TypeVar

from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, note_name
from ..pages import BYTES, Asked, Position, asked
from ..partitions import Inner
from . import records
from .records import LAST, STATES, from_id, place_after, score
from .server import Server

__all__ = ["PIECE", "Queries"]

R = TypeVar("R")

PIECE: Final = 250
"""Jobs of one call, which is some ms then: leases it ends, jobs it claims or forgets."""
_LOOKS: Final = 4  # calls for one page
_FIRST: Final = 1_000  # due jobs of one look
_NOTES: Final = 128  # of up to 64 KiB, asked for at once
_TOPICS: Final = 100  # counted by one call: the server answers others in between
_SPANS: Final = 20


def _parts(values: Sequence[Any], some: int = PIECE) -> Iterator[list[Any]]:
    return (list(values[first : first + some]) for first in range(0, len(values), some))


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

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def _job(self, query: q.GetJob) -> Job | None:
        found = records.jobs_of(self.run("job", ref=query.ref)[1])
        return found[0] if found else None

    def _looked_at(self, wanted: Asked, most: int) -> tuple[list[Job], list[int], Position | None]:
        """Return jobs, the sizes of their bodies, and the place behind which there may be more."""
        filter, after = wanted.filter, wanted.after
        answer = self.run(
            "page",
            limit=wanted.limit,
            most=most,
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
        start = asked(q.GetPage(query.filter))
        after = Position(0, min(max(clamped(query.after), 0), LAST))
        return self._listed(start._replace(after=after, by_due=False, limit=query.limit))[0]

    def _page(self, query: q.GetPage) -> q.Page:
        """Return a page of a list.

        Where a topic, or a state, has thousands of jobs, some thousands of all are walked through for a page by id.
        By due time it costs by what comes back, and by how many topics there are without one.
        """
        wanted = asked(query)
        jobs, sizes, last = self._listed(wanted, _LOOKS)
        return q.Page(jobs, None if last is None else wanted.cursor(last), sizes)

    def _listed(self, wanted: Asked, looks: float = inf) -> tuple[list[Job], list[int], Position | None]:
        """Return what `_looked_at` does, by so many looks at most: about as much as one page may have."""
        found: list[Job] = []
        sizes: list[int] = []
        place: Position | None = wanted.after
        held = 0
        while place is not None and len(found) < wanted.limit and looks > 0 and held < BYTES:
            some = min(wanted.limit - len(found), PIECE)
            jobs, lengths, place = self._looked_at(wanted._replace(after=place, limit=some), BYTES - held)
            found += jobs
            sizes += lengths
            looks -= 1
            held += sum(len(job.body) for job in jobs) if looks < inf else 0
        return found, sizes, place

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
        for topics in _parts(sorted(self._names()), _TOPICS):
            for topic, counts in zip(topics, self.run("counts", topics=topics)[1], strict=True):
                delayed, running, done, dead, cancelled, over = counts
                lost = sum(
                    self.run("lapsed", topic=topic, first=first, last=min(first + PIECE, over) - 1)[1]
                    for first in range(0, over, PIECE)
                )
                found[topic] = Counts(delayed + over - lost, running, done, dead + lost, cancelled)
        return found

    def _forecast(self, query: q.GetForecast) -> list[int]:
        """Return how many jobs are due between edges. O(topics x edges)."""
        spans = list(pairwise(query.edges))
        if not spans:
            return []
        found = [0] * len(spans)
        for topics in _parts(self._names() if query.topic is None else [query.topic], _TOPICS):
            for first in range(0, len(spans), _SPANS):
                some = self.run("forecast", topics=topics, spans=spans[first : first + _SPANS])[1]
                found[first : first + len(some)] = map(add, found[first:], some)
        return [min(jobs, query.cap) for jobs in found]

    def _ended(self, query: q.ListEnded) -> list[q.Ended]:
        rows: list[Any] = []
        for topics in _parts(self._names() if query.topic is None else [query.topic], _TOPICS):
            rows += self.run("ended", topics=topics, since=clamped(query.since), limit=query.most)[1]
        rows.sort(key=itemgetter(6, 0), reverse=True)
        return [
            q.Ended._make((from_id(id), topic.decode(), _text(key), STATES[state], *times, _text(worker), _text(error)))
            for id, topic, key, state, *times, worker, error in rows[: max(query.most, 0)]
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
        found: list[Due] = []
        after: dict[str, Any] | None = None
        while (some := min(query.limit - len(found), _FIRST)) > 0:
            part = self.run("first_due", topic=query.topic, limit=some, after=after)[1]
            found += [Due(score(due), from_id(id), query.topic, priority) for id, due, priority in part]
            if len(part) < some:
                break
            after = place_after(found[-1].priority, found[-1].due, found[-1].id)
        return found

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
