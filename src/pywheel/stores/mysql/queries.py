"""Reading the store on MySQL: what readers of one moment see."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ...jobs.limits import priorities
from ..checks import a_prefix, clamped, in_range, note_name
from ..contract import Ended, Filter, Page, Span
from ..forecast import Forecast
from ..pages import asked
from ..readings import edges_of, most_of
from ..relational import pages as relational_pages
from ..relational import reading
from ..relational.pages import RECENT_ROWS
from ..relational.part import FINISHED
from ..relational.store import RelationalStore
from .connection import Result
from .pages import ARMS, Finder
from .statements import Raw, Statements, hashed, hashes

__all__ = ["MysqlQueries"]

_SPANS: Final = 8  # read in one trip
_LARGEST: Final = 2**62


class MysqlQueries(RelationalStore):
    """The reading half of the contract."""

    _sql: Statements

    @abstractmethod
    def _ask(self, texts: Sequence[str]) -> list[Result]:
        """Return what statements give; once more if a connection was found closed: they may be run twice."""

    @abstractmethod
    def _read(self, name: str, /, **values: Any) -> list[Any]:
        """Return the rows of a statement."""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _moment(self) -> int:
        return self.clock.wall()

    def _names(self, rows: Iterable[Sequence[Any]]) -> Mapping[int, str]:
        """Return the names of topics by number, those of the rows among them."""
        if any(row[1] not in self._topics.names for row in rows):
            self._topics.learn(self.known_topics(None))
        return self._topics.names

    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""
        rows = self._read("all_topics") if names is None else self._read("topics_of", names=hashes(names))
        return {row[1]: row[0] for row in rows}

    def _number(self, topic: str) -> int | None:
        if self._topics.number(topic) is None:
            self._topics.learn(self.known_topics([topic]))
        return self._topics.number(topic)

    def _look(self, name: str, /, **values: Any) -> list[Any]:
        """Return the rows of jobs whose ids a statement gives."""
        return self._read("look", found=Raw(self._sql(name, **values)))

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        if isinstance(ref, int):
            rows = self._look("ids_given", ids=[ref]) if in_range(ref) else []
        else:
            topic = self._number(ref[0])
            rows = [] if topic is None else self._look("ids_named", topic=topic, hash=hashed(ref[1]))
        self._open()
        return reading.found(rows, self._names(rows), self._moment(), ref)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        topic = None if filter.topic is None else self._number(filter.topic)
        if topic is None and filter.topic is not None:
            self._open()
            return []
        all_topics: list[int] = []
        if topic is None and filter.key is None and filter.state not in (None, State.RUNNING):
            all_topics = [number for number, _ in self._read("all_topics")]

        def page(_: State | None, after: int, size: int) -> list[Job]:
            now = self._moment()
            found = self._found(filter, topic, all_topics, {"after": after, "limit": size, "moment": now})
            rows = self._read("look", found=Raw(found))
            return reading.records(rows, self._names(rows), now)

        return reading.listed(page, filter, after, limit)

    def _found(self, filter: Filter, topic: int | None, topics: Sequence[int], span: dict[str, int]) -> str:
        """Return the statement that finds the ids of a page: each arm of it reads one range of an index."""
        sql, state = self._sql, filter.state
        if filter.key is not None:
            return sql("ids_of_key", hash=hashed(filter.key), topic=topic, **span)
        if state is None and topic is None:
            return sql("ids_all", **span)
        numbers = topics if topic is None else (topic,)
        arms = []
        if state in (None, State.DELAYED):
            arms += [sql("ids_due", topic=number, **span) for number in numbers]
        if state is None:
            arms.append(sql("ids_run", topic=topic, **span))
        if state is State.RUNNING:
            arms.append(sql("ids_running", topic=topic, **span))
        if state in (State.DELAYED, State.DEAD):  # those too whose lease is over: some have no attempt left
            arms.append(sql("ids_lost", topic=topic, **span))
        for finished in range(len(FINISHED)):
            if state in (None, FINISHED[finished]):
                arms += [sql("ids_finished", topic=number, state=finished, **span) for number in numbers]
        return f"SELECT id FROM ({' UNION ALL '.join(arms)}) found ORDER BY id LIMIT {span['limit']:d}"

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list: it costs by what comes back.

        Without a topic: by how many topics there are, and where these are more than 64, some thousands of all jobs are
        walked through for a page of those in a state. A body is read as a whole, whatever is wanted of it.
        """
        wanted = asked(filter, after, limit, preview, newest=newest)
        topic = None if filter.topic is None else self._number(filter.topic)
        if topic is None and filter.topic is not None:
            self._open()
            return Page([], None)

        def topics() -> Sequence[int] | None:
            if topic is not None:
                return [topic]
            if len(self._topics.names) <= ARMS:
                self._topics.learn(self.known_topics(None))
            return list(self._topics.names) if len(self._topics.names) <= ARMS else None

        def bodies(ids: Sequence[int]) -> dict[int, tuple[int, bytes]]:
            rows = self._read("bodies_of_page", ids=list(ids), preview=preview)
            return {id: (size, bytes(body)) for id, size, body in rows}

        find = Finder(self._sql, self._ask, wanted, topics)
        return relational_pages.page(wanted, find, self._names, bodies, self._moment)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        now = self._moment()
        found = self._read("counts", moment=now)
        names = self._names(found)
        counted: dict[int, Sequence[int]] = {row[1]: row[2:] for row in found if row[0] == 1}
        running: dict[int, list[Sequence[int]]] = {}
        for kind, topic, *states in found:
            if kind == 2:
                running.setdefault(topic, []).append(states)
        topics = sorted((names[row[1]], row[1]) for row in found if row[0] == 0)
        return reading.counted(
            ((name, *counted.get(topic, (0, 0, 0, 0)), running.get(topic)) for name, topic in topics), now
        )

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return sorted(Topic(name, bool(paused), priorities(lanes)) for name, paused, lanes in self._read("topics"))

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        return self.histories([id])[0]

    def histories(self, ids: Sequence[int]) -> list[list[Attempt]]:
        """Return the histories of jobs, all of one moment."""
        self._open()
        there = [id for id in ids if in_range(an_id(id))]
        texts = [
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            self._sql("look", found=Raw(self._sql("ids_given", ids=there))),
            self._sql("history", ids=there),
            "COMMIT",
        ]
        _, _, found, earlier, _ = self._ask(texts)
        return reading.attempts(ids, found.rows, self._names(found.rows), self._moment(), earlier.rows)

    def states(self, ids: Sequence[int]) -> list[State | None]:
        """Return the states of jobs, by one statement."""
        self._open()
        there = sorted({id for id in ids if in_range(an_id(id))})
        return reading.states(ids, self._read("states", ids=there) if there else (), self._moment())

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many delayed jobs are due between edges."""
        edges = edges_of(edges, most)
        number = None if topic is None else self._number(topic)
        self._open()
        if len(edges) < 2 or (topic is not None and number is None):
            return [0] * max(len(edges) - 1, 0)
        return _Forecast(self._sql, self._ask, edges, most)(number)

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last; of one topic those that are among the last 3 000 of each state."""
        limit = most_of(limit)
        number = None if topic is None else self._number(topic)
        if topic is not None and number is None:
            self._open()
            return []
        rows = limit if number is None else max(limit, RECENT_ROWS)
        found = self._read("recent", topic=number, since=clamped(since), limit=limit, rows=rows)
        return relational_pages.ended(found, self._names(found), limit)

    def oldest(self) -> dict[str, int]:
        """Return when the first job of each topic is due."""
        found = self._read("oldest")
        names = self._names([(0, number) for number, _ in found])
        return dict(sorted((names[number], due) for number, due in found))

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None."""
        for value, until in self._read("note", name=note_name(name)):
            if until is None or self._moment() < until:
                return bytes(value)
        return None

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        first, most = a_prefix(prefix), min(max(clamped(limit), 0), 2**31)
        span = {"prefix": first, "after": a_prefix(after), "end": first + b"\xff"}
        found = self._read("notes", **span, moment=self._moment(), limit=most)
        return [(bytes(name).decode(), bytes(value)) for name, value in found]

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id)."""
        self._open()
        asked = [(number, span) for span in spans if (number := self._number(span.topic)) is not None]
        most = min(max(clamped(limit), 0), _LARGEST)
        dues: list[Due] = []
        for start in range(0, len(asked), _SPANS):
            if len(dues) >= most:
                break
            some = asked[start : start + _SPANS]
            results = self._ask([self._window(number, span, most - len(dues)) for number, span in some])
            for (_, span), result in zip(some, results, strict=True):
                found = sorted(result.rows, key=itemgetter(0, 1))
                dues += [Due(due, id, span.topic, span.priority) for due, id in found]
        return dues[:most]

    def _window(self, topic: int, span: Span, limit: int) -> str:
        due, id = map(clamped, span.after)
        more = {"shards": span.shards, "until": clamped(span.until), "limit": limit, "priority": span.priority}
        return self._sql("window_of_lane" if span.priority else "window", topic=topic, due=due, id=id, **more)

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        self._open()
        asked = [self._number(span.topic) for span in spans]
        known = [(place, number) for place, number in enumerate(asked) if number is not None]
        texts = [
            self._sql("first_due", topic=number, shards=spans[place].shards, until=clamped(spans[place].until))
            for place, number in known
        ]
        topics = [number for _, number in known]
        *found, lost = self._ask([*texts, self._sql("lost", moment=self._moment(), topics=topics)])
        dues: list[int | None] = [None] * len(spans)
        for (place, _), result in zip(known, found, strict=True):
            dues[place] = result.rows[0][0]
        return reading.with_lost(dues, spans, asked, lost.rows)

    def _read_lease(self) -> int | None:
        [[lease]] = self._read("next_lease")
        return None if lease is None else int(lease)


class _Forecast(Forecast):
    """Counts what is due: a trip for each step."""

    def __init__(
        self, sql: Statements, ask: Callable[[Sequence[str]], list[Result]], edges: Sequence[int], most: int
    ) -> None:
        super().__init__(edges, most)
        self._sql = sql
        self._ask = ask

    def topics(self) -> list[int]:
        """Return all topics."""
        [found] = self._ask([self._sql("forecast_topics")])
        return [number for [number] in found.rows]

    def count(self, topics: Sequence[int], spans: Sequence[tuple[int, int]], most: int) -> list[int]:
        """Return how many jobs are due in each span."""
        texts = [self._sql("forecast", topics=topics, first=first, next=end, most=most) for first, end in spans]
        return [result.rows[0][0] for result in self._ask(texts)]

    def few(self, topics: Sequence[int], span: tuple[int, int], share: int) -> tuple[list[list[int]], list[int]]:
        """Return the due times of jobs, and the topics with many: those that come once there is no room for more."""
        most = share * len(topics)
        [found] = self._ask([self._sql("forecast_few", topics=topics, first=span[0], end=span[1], most=most)])
        if len(found.rows) < most:
            return [[due for _, due in found.rows]], []
        last = found.rows[-1][0]
        return [[due for topic, due in found.rows if topic < last]], [topic for topic in topics if topic >= last]
