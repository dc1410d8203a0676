"""Reading the store: one call each, or several where much is to be looked at, so that none takes long."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, note_name
from ..contract import Ended, Filter, Page
from ..forecast import Forecast
from ..pages import Asked, Position, asked
from ..readings import edges_of, most_of
from ..several.inner import Inner
from . import records
from .records import LAST, STATES, from_id, known, number, reference, score, to_id
from .server import Server

__all__ = ["Readers"]

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

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        answer = self.run("get", (reference(ref) or b"i" + to_id(0),))
        return records.job_of(answer[1], self._answered(answer)) if answer[1] else None

    def _page(self, wanted: Asked) -> tuple[list[Job], list[int], Position | None]:
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

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return up to `limit` jobs behind an id that a filter means."""
        found: list[Job] = []
        place: Position | None = Position(0, min(max(clamped(after), 0), LAST))
        self._open()
        while place is not None and len(found) < limit:
            some = min(limit - len(found), _PAGE)
            jobs, _, place = self._page(asked(filter, "", some, None, newest=False)._replace(after=place, by_due=False))
            found += jobs
        return found

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list.

        Where a topic, or a state, has thousands of jobs, some thousands of all are walked through for a page by id.
        By due time it costs by what comes back, and by how many topics there are without one.
        """
        wanted = asked(filter, after, limit, preview, newest=newest)
        jobs, sizes, last = self._page(wanted)
        return Page(jobs, None if last is None else wanted.cursor(last), sizes)

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return what was tried with jobs, with some hundreds by one call."""
        parts = (ids[first : first + _PAGE] for first in range(0, len(ids), _PAGE))
        return [records.attempts(rows) for some in parts for rows in self.run("history", (_ids(some),))[1]]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self.histories([id])[0]

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs, of some hundreds by one call."""
        parts = (ids[first : first + _PAGE] for first in range(0, len(ids), _PAGE))
        found = (state for some in parts for state in self.run("seen", (_ids(some),))[1])
        return [None if state < 0 else STATES[state] for state in found]

    # ---- topics -----------------------------------------------------------------------------------------------------

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        _, found, lanes = self.run("topics")
        ranks = {
            topic: sorted({int(lane) for lane in names.split() if lane[-1:].isdigit()} - {0}, reverse=True)
            for topic, names in zip(lanes[::2], lanes[1::2], strict=True)
        }
        return sorted(
            Topic(topic.decode(), paused != b"", tuple(ranks.get(topic, ())))
            for topic, paused in zip(found[::2], found[1::2], strict=True)
        )

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic. O(topics + jobs whose lease is over)."""
        found = {}
        for topic, delayed, running, done, dead, cancelled, over in sorted(self.run("counts")[1]):
            lost = 0
            for first in range(0, over, _PAGE):
                lost += self.run("lapsed", (topic, number(first), number(min(first + _PAGE, over) - 1)))[1]
            found[topic.decode()] = Counts(delayed + over - lost, running, done, dead + lost, cancelled)
        return found

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due between edges."""
        edges = edges_of(edges, most)
        self._open()
        if len(edges) < 2:
            return []
        names = self.run("topics")[1][::2] if topic is None else [topic.encode()]
        return _Forecast(self, names, edges, most)(None if topic is None else 0)

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last."""
        _, rows = self.run("recent", (_text(b"t", topic), number(clamped(since)), number(most_of(limit))))
        return [
            Ended(
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

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        found: list[bytes] = self.run("note", (note_name(name),))[1]
        return found[0] if found else None

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        first, behind = a_prefix(prefix), a_prefix(after)
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

    def next_dues(self, topics: Sequence[str] | None = None) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        found: dict[str, int] = {}
        self._open()
        paused = b"" if topics is not None else b"1"
        topics = [topic.decode() for topic in self.run("topics")[1][::2]] if topics is None else topics
        for first in range(0, len(topics), _PAGE):
            some = topics[first : first + _PAGE]
            dues = self.run("next_dues", [paused, *(topic.encode() for topic in some)])[1]
            found |= {topic: score(due) for topic, due in zip(some, dues, strict=True) if due is not None}
        return found

    def first_due(self, topic: str, limit: int) -> list[Due]:
        """Return the jobs that a Reserve would claim."""
        found = iter(self.run("first_due", (topic.encode(), number(min(max(limit, 0), _FIRST))))[1])
        return [Due(score(due), from_id(id), topic, rank) for due, id, rank in zip(found, found, found, strict=True)]

    def claimed_by(self, worker: str) -> list[tuple[int, int]]:
        """Return the receipts of what runs for a worker."""
        found: dict[int, int] = {}
        topics = self.call(b"ZRANGE", self.server.prefix + b":l", b"0", b"-1")
        cursor = b"0"
        while topics:
            some = topics[:_TOPICS]
            _, done, cursor, receipts = self.run("claimed_by", (worker.encode(), cursor, *some))
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

    def __init__(self, store: Readers, names: Sequence[bytes], edges: Sequence[int], most: int) -> None:
        super().__init__(edges, most)
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
