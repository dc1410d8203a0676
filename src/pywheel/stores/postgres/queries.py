"""Reading the store on PostgreSQL: each query is one statement, so of one moment."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, in_range, note_name
from ..contract import Filter, Span
from ..relational import reading
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
            self._topics.learn({name: number for number, name, _ in self._read("topics_of", {"names": [topic]})})
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

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic."""
        now = self._moment()
        return reading.counted(self._read("counts", {"now": now}), now)

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return [Topic(name, paused) for name, paused in self._read("topics", {})]

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
        """Return delayed jobs, span by span, by (due, id)."""
        asked = [(number, span) for span in spans if (number := self._number(span.topic)) is not None]
        if not asked:
            self._open()
            return []
        rows = self._read(
            "windows",
            {
                "topics": numbers(number for number, _ in asked),
                "shards": numbers(span.shards for _, span in asked),
                "dues": numbers(clamped(span.after[0]) for _, span in asked),
                "ids": numbers(clamped(span.after[1]) for _, span in asked),
                "untils": numbers(clamped(span.until) for _, span in asked),
                "limit": min(max(clamped(limit), 0), 2**31),
            },
        )
        return [Due(due, id, asked[place - 1][1].topic) for due, id, place in rows]

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
