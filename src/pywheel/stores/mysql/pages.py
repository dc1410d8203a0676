"""Which statements find the jobs of a page. Each part of one reads one range of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ...jobs.job import State
from ..pages import ROWS, Asked, Position
from ..relational.pages import Candidates, sifted, sought
from ..relational.part import FINISHED
from .connection import Result
from .statements import Raw, Statements, hashed

__all__ = ["ARMS", "Finder"]

ARMS: Final = 64
"""Ranges that one statement reads, and so the topics that are read each by itself."""
_WALK: Final = 5_000  # jobs that are walked through for one page, where there would be more

_LAST: Final = 2**63 - 1


class Finder:
    """Finds the jobs that a page may have."""

    def __init__(
        self,
        sql: Statements,
        ask: Callable[[Sequence[str]], list[Result]],
        wanted: Asked,
        topics: Callable[[], Sequence[int] | None],
    ) -> None:
        self._sql = sql
        self._ask = ask
        self._wanted = wanted
        self._topics = topics
        """Gives the topic that is meant, or all; None if these are more than ARMS."""
        self._topic: int | None = None

    def __call__(self, after: Position, size: int, now: int) -> Candidates:
        """Return up to so many jobs behind a place."""
        filter = self._wanted.filter
        topics = self._topics()
        self._topic = topics[0] if topics and filter.topic is not None else None
        span = {"due": after.due, "id": after.id, "until": self._wanted.until, "limit": size, "moment": now}
        if self._wanted.by_due:
            return self._by_due(topics, span)
        if topics is None and filter.key is None and filter.state not in (None, State.RUNNING):
            return self._walk(span)
        arms = list(self._arms(topics or (), span))
        return self._found(" UNION ALL ".join(arms), span) if arms else Candidates((), False)

    def _text(self, name: str, **values: Any) -> str:
        return self._sql(f"{name}_down" if self._wanted.newest else name, **values)

    def _found(self, text: str, span: dict[str, int]) -> Candidates:
        """Return the jobs whose ids a statement gives."""
        order = "DESC" if self._wanted.newest else "ASC"
        found = f"SELECT DISTINCT id FROM ({text}) ids ORDER BY id {order} LIMIT {span['limit']:d}"
        if self._wanted.loose:
            state, values = self._wanted.filter.state, {"found": Raw(found), **sought(self._wanted)}
            if state in FINISHED and self._wanted.filter.key is None:
                text = self._sql("fits_finished", state=FINISHED.index(state), **values)
            else:
                text = self._sql("fits", **values)
            [result] = self._ask([text])
            return sifted(self._wanted, result.rows, span["limit"], self._heads)
        [result] = self._ask([self._sql("page_head", found=Raw(found))])
        return Candidates(result.rows, len(result.rows) >= span["limit"])

    def _arms(self, topics: Sequence[int], span: dict[str, int]) -> Iterator[str]:
        filter, topic = self._wanted.filter, self._topic
        if filter.key is not None:
            yield from self._arms_of_key(hashed(filter.key), span)
            return
        state = filter.state
        if state is None and topic is None:
            yield f"({self._text('page_all', **span)})"
            return
        if state in (None, State.DELAYED):
            yield from (self._text("page_delayed", topic=number, **span) for number in topics)
        if state is None:
            yield self._text("page_run", topic=topic, **span)
        if state is State.RUNNING:
            yield self._text("page_running", topic=topic, **span)
        if state in (State.DELAYED, State.DEAD):  # those too whose lease is over: some have no attempt left
            yield self._text("page_lost", topic=topic, **span)
        for number, finished in enumerate(FINISHED):
            if state in (None, finished):
                yield from (self._text("page_finished", topic=one, state=number, **span) for one in topics)

    def _arms_of_key(self, key: bytes, span: dict[str, int]) -> Iterator[str]:
        topics = [self._topic]
        if self._topic is None:
            [result] = self._ask([self._sql("page_key_topics", hash=key)])
            topics = [number for [number] in result.rows]
        if len(topics) > ARMS:  # all that had the key are sorted then
            yield self._text("page_key_anywhere", hash=key, **span)
            return
        yield from (self._text("page_key", hash=key, topic=number, **span) for number in topics)

    def _walk(self, span: dict[str, int]) -> Candidates:
        """Return those of the next jobs of all topics that are in a state: a range for each topic would be dearer."""
        state = self._wanted.filter.state
        if state is State.DELAYED:
            texts = [self._text("page_walk_delayed", rows=_WALK, **span)]
        else:
            texts = [self._text("page_walk_finished", rows=_WALK, state=FINISHED.index(state), **span)]
        if state in (State.DELAYED, State.DEAD):
            texts.append(self._text("page_lost", topic=None, **span))
        [end] = self._ask([self._text("page_walked", before=_WALK - 1, **span)])
        found = self._found(" UNION ALL ".join(f"({text})" for text in texts), span)
        if found.more:
            return found
        if not end.rows:
            return found
        last = Position(0, end.rows[0][0])
        newest = self._wanted.newest
        rows = [row for row in found.rows if (row[0] >= last.id if newest else row[0] <= last.id)]
        return Candidates(rows, True, last, ROWS)  # those of `page_lost` may lie behind it

    def _by_due(self, topics: Sequence[int] | None, span: dict[str, int]) -> Candidates:
        """Return delayed jobs by due time: of many topics those up to where the next topic begins."""
        bound = None
        if topics is None:
            topics, bound = self._first_topics(span)
        places: list[Position] = []
        for start in range(0, len(topics), ARMS):
            arms = [self._text("page_due", topic=number, **span) for number in topics[start : start + ARMS]]
            order, limit = "DESC" if self._wanted.newest else "ASC", span["limit"]
            rows = " UNION ALL ".join(arms)
            [result] = self._ask([f"SELECT due, id FROM ({rows}) d ORDER BY due {order}, id {order} LIMIT {limit:d}"])
            places = sorted([*places, *(Position(*place) for place in result.rows)], reverse=self._wanted.newest)
            del places[span["limit"] :]
        if bound is not None:
            places = [place for place in places if (place > bound if self._wanted.newest else place < bound)]
            if len(places) < span["limit"]:
                return Candidates(self._given(places), True, bound)
        last = places[-1] if places else None
        return Candidates(self._given(places), len(places) >= span["limit"], last)

    def _first_topics(self, span: dict[str, int]) -> tuple[list[int], Position | None]:
        """Return the topics whose jobs are due first, and the place before which no others come in; None for all."""
        newest = self._wanted.newest
        first, last = sorted((span["due"], span["until"]))
        [result] = self._ask([self._text("page_due_firsts", first=first, last=last)])
        firsts = sorted(((due, topic) for topic, due in result.rows), reverse=newest)
        topics = [topic for _, topic in firsts]
        if len(firsts) <= ARMS or firsts[0][0] == firsts[ARMS][0]:  # where many are due at once all are read
            return topics, None
        bound = firsts[ARMS][0]
        return topics[:ARMS], Position(bound, _LAST) if newest else Position(bound, 0)

    def _heads(self, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        return self._given([Position(0, id) for id in ids])

    def _given(self, places: Sequence[Position]) -> Sequence[Sequence[Any]]:
        if not places:
            return ()
        given = self._sql("ids_given", ids=[place.id for place in places])
        [result] = self._ask([self._sql("page_head", found=Raw(given))])
        return result.rows
