"""Pages of lists, and readings for people: one script each, or some where there are many topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ..forecast import Forecast
from ..pages import Asked, Page, Position
from ..readings import Ended
from . import records
from .queries import answered
from .records import LAST, STATES, from_id, number, score, to_id
from .scripts import FORECAST, PAGE, RECENT, TOPICS

if TYPE_CHECKING:
    from .store import RedisStore

__all__ = ["forecast", "page", "recent"]

_TOPICS: Final = 200  # counted by one script: the server answers others in between
_COUNTED: Final = 10_000  # numbers of one script: topics by spans


def _text(mark: bytes, text: str | None) -> bytes:
    return b"" if text is None else mark + text.encode()


def _number(value: int | None) -> bytes:
    return b"" if value is None else number(value)


def page(store: RedisStore, wanted: Asked) -> Page:
    """Return a page of a list."""
    filter, after = wanted.filter, wanted.after
    asked = (
        number(wanted.limit),
        number(wanted.newest),
        number(after.due) if wanted.by_due else b"",
        to_id(min(after.id, LAST)),
        number(wanted.until),
        _text(b"t", filter.topic),
        b"" if filter.state is None else number(STATES.index(filter.state)),
        _text(b"k", filter.key),
        _text(b"e", filter.error),
        _number(filter.due_from),
        _number(filter.due_until),
        _number(wanted.preview),
    )
    answer = store.run(PAGE, asked)
    _, more, due, id, values = answer
    now = answered(store, answer)
    jobs, sizes = [], []
    for at in range(0, len(values), 5):
        packed, job, when, state, size = values[at : at + 5]
        jobs.append(records.job_of(packed, job, when, state, now))
        sizes.append(size)
    last = Position(score(due) if wanted.by_due else 0, from_id(id))
    return Page(jobs, wanted.cursor(last) if more else None, sizes)


def forecast(store: RedisStore, edges: Sequence[int], topic: str | None, most: int) -> list[int]:
    """Return how many delayed jobs are due between edges."""
    if len(edges) < 2:
        store._open()
        return []
    names = store.run(TOPICS)[1][::2] if topic is None else [topic.encode()]
    counter = _Forecast(store, names, edges, most)
    return counter(None if topic is None else 0)


class _Forecast(Forecast):
    """Counts what is due. A topic's number is its place; some hundreds are asked for at once, and others in between."""

    def __init__(self, store: RedisStore, names: Sequence[bytes], edges: Sequence[int], most: int) -> None:
        super().__init__(edges, most)
        self._store = store
        self._names = names

    def _ask(self, what: bytes, numbers: Sequence[int], topics: Sequence[int]) -> Iterator[list[Any]]:
        some = max(min(_TOPICS, _COUNTED // max(len(numbers) // 2, 1)), 1)
        for first in range(0, len(topics), some):
            names = [self._names[topic] for topic in topics[first : first + some]]
            yield self._store.run(FORECAST, (what, number(len(numbers)), *map(number, numbers), *names))[1]

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


def recent(store: RedisStore, topic: str | None, since: int, limit: int) -> list[Ended]:
    """Return the jobs that ended last."""
    _, rows = store.run(RECENT, (_text(b"t", topic), number(since), number(limit)))
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
