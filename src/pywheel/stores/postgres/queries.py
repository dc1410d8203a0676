"""Reading the store on PostgreSQL: each query is one statement, so of one moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ...jobs.limits import priorities
from ..checks import a_prefix, clamped, in_range, note_name
from ..contract import Ended, Filter, Page, Span
from ..forecast import Forecast
from ..pages import Asked, Position, asked
from ..readings import edges_of, most_of
from ..relational import pages as relational_pages
from ..relational import reading
from ..relational.pages import RECENT_ROWS, Candidates, sifted, sought
from ..relational.part import FINISHED
from ..relational.store import RelationalStore
from .arrays import numbers
from .connection import Timed

__all__ = ["PostgresQueries"]

_R = TypeVar("_R")


class PostgresQueries(RelationalStore):
    """The reading half of the contract."""

    _sql: Mapping[str, str]

    @abstractmethod
    def _read(self, name: str, values: Mapping[str, Any], until: float | None = None) -> list[Any]:
        """Return the rows of a statement; once more if a connection was found closed."""

    @abstractmethod
    def _reading(self, read: Callable[[Timed], _R], until: float | None = None) -> _R:
        """Return what `read` does with a connection; once more if that was found closed."""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _moment(self) -> int:
        return self.clock.wall()

    def _names(self, rows: Sequence[Sequence[Any]]) -> Mapping[int, str]:
        """Return the names of topics by number, those of the rows among them."""
        if any(row[1] not in self._topics.names for row in rows):
            self._topics.learn({name: number for number, name in self._read("all_topics", {})})
        return self._topics.names

    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""
        name = "all_topics" if names is None else "topics_of"
        return {row[1]: row[0] for row in self._read(name, {"names": None if names is None else list(names)})}

    def _number(self, topic: str) -> int | None:
        if self._topics.number(topic) is None:
            self._topics.learn({name: number for number, name, *_ in self._read("topics_of", {"names": [topic]})})
        return self._topics.number(topic)

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        if isinstance(ref, int):
            rows = self._read("look_ids_given", {"ids": numbers([ref])}) if in_range(ref) else []
        else:
            topic = self._number(ref[0])
            rows = [] if topic is None else self._read("look_ids_named", {"topic": topic, "key": ref[1]})
        return reading.found(rows, self._names(rows), self._moment(), ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        topic = None if filter.topic is None else self._number(filter.topic)
        if topic is None and filter.topic is not None:
            self._open()
            return []
        values = {"topic": topic, "key": filter.key}

        def page(state: State | None, after: int, size: int) -> list[Job]:
            now = self._moment()
            number = -1 if state not in FINISHED else FINISHED.index(state)
            span = {**values, "state": number, "after": after, "limit": size, "now": now}
            rows = self._read(f"look_ids_{_kind(filter, topic)}", span)
            return reading.records(rows, self._names(rows), now)

        return reading.listed(page, filter, after, limit)

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list: it costs by what comes back, and by how many topics there are without one."""
        wanted = asked(filter, after, limit, preview, newest=newest)
        topic = None if filter.topic is None else self._number(filter.topic)
        if topic is None and filter.topic is not None:
            self._open()
            return Page([], None)
        name = _page_of(wanted, topic)
        state = -1 if filter.state not in FINISHED else FINISHED.index(filter.state)
        values = {"topic": topic, "key": filter.key, "state": state, "until": wanted.until}

        def find(place: Position, size: int, now: int) -> Candidates:
            span = {**values, "due": place.due, "id": place.id, "limit": size, "now": now}
            if wanted.loose:
                return sifted(wanted, self._read(f"fits_{name}", {**span, **sought(wanted)}), size, heads)
            rows = self._read(name, span)
            return Candidates(rows, len(rows) >= size)

        def heads(ids: Sequence[int]) -> list[Any]:
            return self._read("page_given", {"ids": numbers(ids)})

        def bodies(ids: Sequence[int]) -> dict[int, tuple[int, bytes]]:
            most = None if preview is None else min(preview, 2**31 - 1)
            rows = self._read("page_bodies", {"ids": numbers(ids), "preview": most})
            return {id: (size, bytes(body)) for id, size, body in rows}

        return relational_pages.page(wanted, find, self._names, bodies, self._moment)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        now = self._moment()
        return reading.counted(self._read("counts", {"now": now}), now)

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return [Topic(name, paused, priorities(lanes)) for name, paused, lanes in self._read("topics", {})]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self.histories([id])[0]

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return the histories of jobs, all of one moment."""
        self._open()
        there = [id for id in ids if in_range(an_id(id))]

        def read(connection: Timed) -> tuple[list[Any], list[Any]]:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                rows = connection.execute(self._sql["look_ids_given"], {"ids": numbers(there)}).fetchall()
                return rows, connection.execute(self._sql["history"], {"ids": numbers(there)}).fetchall()

        rows, earlier = self._reading(read) if there else ([], [])
        return reading.attempts(ids, rows, self._names(rows), self._moment(), earlier)

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs, by one statement."""
        self._open()
        there = numbers(id for id in ids if in_range(an_id(id)))
        return reading.states(ids, self._read("states", {"ids": there}), self._moment())

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due between edges."""
        edges = edges_of(edges, most)
        number = None if topic is None else self._number(topic)
        if len(edges) < 2 or (topic is not None and number is None):
            self._open()
            return [0] * max(len(edges) - 1, 0)
        return _Forecast(self._read, edges, most)(number)

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last; of one topic those that are among the last 3 000 of each state."""
        limit = most_of(limit)
        number = None if topic is None else self._number(topic)
        if topic is not None and number is None:
            self._open()
            return []
        rows = limit if number is None else max(limit, RECENT_ROWS)
        found = self._read("recent", {"topic": number, "since": clamped(since), "limit": limit, "rows": rows})
        return relational_pages.ended(found, self._names(found), limit)

    def oldest(self) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        return dict(sorted(self._read("oldest", {})))

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        for value, until in self._read("note", {"name": note_name(name)}):
            if until is None or self._moment() < until:
                return bytes(value)
        return None

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        first = a_prefix(prefix)
        span = {"prefix": first, "after": a_prefix(after), "end": first + b"\xff", "now": self._moment()}
        found = self._read("notes", {**span, "limit": min(max(clamped(limit), 0), 2**31)})
        return [(bytes(name).decode(), bytes(value)) for name, value in found]

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id): those with a priority from a table of their own."""
        self._open()
        most, found = min(max(clamped(limit), 0), 2**31), list[Due]()
        for lane, some in groupby(spans, lambda span: span.priority != 0):
            found += self._windows(list(some), most - len(found), "windows_of_lane" if lane else "windows")
        return found

    def _windows(self, spans: Sequence[Span], most: int, statement: str) -> list[Due]:
        asked = [(number, span) for span in spans if (number := self._number(span.topic)) is not None]
        if not asked or not most:
            return []
        rows = self._read(
            statement,
            {
                "topics": numbers(number for number, _ in asked),
                "shards": numbers(span.shards for _, span in asked),
                "dues": numbers(clamped(span.after[0]) for _, span in asked),
                "ids": numbers(clamped(span.after[1]) for _, span in asked),
                "untils": numbers(clamped(span.until) for _, span in asked),
                "priorities": numbers(span.priority for _, span in asked),
                "limit": most,
            },
        )
        named = [(span.topic, span.priority) for _, span in asked]
        return [Due(due, id, *named[place - 1]) for due, id, place in rows]

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        asked = [self._number(span.topic) for span in spans]
        found = numbers(-1 if number is None else number for number in asked)
        rows = self._read(
            "first_dues",
            {
                "topics": found,
                "shards": numbers(span.shards for span in spans),
                "untils": numbers(clamped(span.until) for span in spans),
            },
        )
        lost = self._read("lost", {"now": self._moment(), "topics": found})
        return reading.with_lost([due for _, due in sorted(rows)], spans, asked, lost)

    def _read_lease(self) -> int | None:
        [(lease,)] = self._read("next_lease", {})
        return None if lease is None else int(lease)


def _kind(filter: Filter, topic: int | None) -> str:
    """Return which list of ids a filter needs."""
    if filter.key is not None:
        return "of_key"
    match filter.state:
        case None:
            return "all" if topic is None else "of_topic"
        case State.DELAYED:
            return "delayed"
        case State.RUNNING:
            return "running"
    return "finished"


def _page_of(wanted: Asked, topic: int | None) -> str:
    """Return which list of ids a page is made of."""
    filter = wanted.filter
    if wanted.by_due:
        name = "page_due"
    elif filter.key is not None:
        name = "page_of_key"
    elif filter.state is None:
        name = "page_all" if topic is None else "page_of_topic"
    else:
        name = {State.DELAYED: "page_delayed", State.RUNNING: "page_running"}.get(filter.state, "page_finished")
    if topic is None and name not in ("page_all", "page_running"):
        name += "_anywhere"
    return f"{name}_down" if wanted.newest else name


class _Forecast(Forecast):
    """Counts what is due: a statement for each step."""

    def __init__(self, read: Callable[[str, Mapping[str, Any]], list[Any]], edges: Sequence[int], most: int) -> None:
        super().__init__(edges, most)
        self._read = read

    def topics(self) -> list[int]:
        """Return all topics."""
        return [number for [number] in self._read("forecast_topics", {})]

    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> list[int]:
        """Return how many jobs are due in each span."""
        firsts, ends = (numbers(edges) for edges in zip(*spans, strict=True))
        asked = {"topics": numbers(topics), "firsts": firsts, "ends": ends, "most": most}
        return [jobs for [jobs] in self._read("forecast", asked)]

    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return the due times of jobs, and the topics with many."""
        asked = {"topics": numbers(topics), "first": span[0], "end": span[1], "share": share}
        parts = self._read("forecast_few", asked)
        return [dues for _, dues in parts if dues], [topic for topic, dues in parts if dues is None]
