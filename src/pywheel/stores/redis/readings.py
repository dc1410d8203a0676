"""Pages of lists, and readings for people: one script each, or some where there are many topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..pages import Asked, Page, Position
from ..readings import Ended
from . import records
from .queries import answered, topics
from .records import LAST, STATES, from_id, number, score, to_id
from .scripts import FORECAST, PAGE, RECENT

if TYPE_CHECKING:
    from .store import RedisStore

__all__ = ["forecast", "page", "recent"]

_TOPICS: Final = 100  # counted by one script: the server answers others in between


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
    names = [topic] if topic is not None else [topic.name for topic in topics(store)]
    found = [0] * max(len(edges) - 1, 0)
    if not found:
        store._open()
        return found
    for first in range(0, len(names), _TOPICS):
        some = (name.encode() for name in names[first : first + _TOPICS])
        _, jobs = store.run(FORECAST, (number(len(edges)), *map(number, edges), *some))
        found = [one + more for one, more in zip(found, jobs, strict=True)]
    return [min(jobs, most) for jobs in found]


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
