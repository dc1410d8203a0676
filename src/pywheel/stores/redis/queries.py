"""Reading the store: one script each, or several where much is to be looked at, so that none takes long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ...jobs.limits import PRIORITIES, priorities
from ..checks import a_prefix, clamped, note_name
from ..contract import Filter, Span
from . import records
from .records import LAST, STATES, from_id, known, number, reference, score, to_id
from .scripts import COUNTED, COUNTS, FIRST_DUES, GET, HISTORY, LIST, NOTE, SEEN, TOPICS, WINDOWS

if TYPE_CHECKING:
    from .store import RedisStore

__all__ = [
    "about",
    "answered",
    "counts",
    "first_dues",
    "get",
    "histories",
    "jobs",
    "note",
    "notes",
    "states",
    "topics",
    "windows",
]

_LANES: Final = (1 << 2 * PRIORITIES + 1) - 1  # of a mark: beside them stands whether what runs is counted
_PAGE: Final = 500  # jobs asked for at once
_NOTES: Final = 128  # of up to 64 KiB, asked for at once
_LOOKED: Final = 10_000  # places of a window that one script looks at


def answered(store: RedisStore, answer: Sequence[int]) -> int:
    """Return the time by which an answer was given."""
    given = store._given
    return answer[0] // 1000 if given is None else given.wall()


def about(store: RedisStore) -> dict[str, Any]:
    """Return which server it is, what it promises, and how much memory all its data takes."""
    connection = store.server.fresh()
    facts = connection.facts
    store.server.give(connection)
    names = {"version": "redis_version", "memory_bytes": "used_memory", "maxmemory_bytes": "maxmemory"}
    if "valkey_version" in facts:  # the other one is that of the Redis which it is like
        names["version"] = "valkey_version"
    said = {name: facts.get(fact) for name, fact in names.items()}
    numbers = {name: int(value) for name, value in said.items() if value and name.endswith("bytes")}
    return {"server": facts.get("server_name", "redis"), **said, **numbers, "prefix": store.server.place.prefix}


def get(store: RedisStore, ref: Ref) -> Job | None:
    """Return a job, or None."""
    packed = reference(ref)
    answer = store.run(GET, (packed or b"i" + to_id(0),))
    found = records.listed(answer[1], answered(store, answer))
    return found[0] if found else None


def jobs(store: RedisStore, filter: Filter, after: int, limit: int) -> list[Job]:
    """Return up to `limit` jobs behind an id that a filter means."""
    limit, after = clamped(limit), min(max(clamped(after), 0), LAST)
    loose = filter.due_from is not None or filter.due_until is not None or filter.error is not None
    asked = (
        b"" if filter.topic is None else b"t" + filter.topic.encode(),
        b"" if filter.state is None else number(STATES.index(filter.state)),
        b"" if filter.key is None else b"k" + filter.key.encode(),
    )
    found: list[Job] = []
    more = 1
    while more and len(found) < limit:
        some = _PAGE if loose else min(limit - len(found), _PAGE)
        answer = store.run(LIST, (to_id(after), number(some), *asked))
        _, more, last, values = answer
        after = from_id(last)
        found += [job for job in records.listed(values, answered(store, answer)) if filter.fits(job)]
    return found[: max(limit, 0)]


def counts(store: RedisStore) -> dict[str, Counts]:
    """Return the counts of each topic."""
    _, rows, over, running = store.run(COUNTS)
    found = {topic.decode(): Counts(*numbers) for topic, _, *numbers in sorted(rows)}
    lost, held = running[: 6 * over], running[6 * over :]
    for ids, ended in ((lost, b"1"), (held, b"0")):
        for first in range(0, len(ids), 6 * _PAGE):
            pairs = iter(store.run(COUNTED, (ended, ids[first : first + 6 * _PAGE]))[1])
            for topic, (runs, waits, dead) in zip(pairs, pairs, strict=True):
                name = topic.decode()
                was = found[name]
                found[name] = was._replace(
                    running=was.running + runs, delayed=was.delayed + waits, dead=was.dead + dead
                )
    return found


def topics(store: RedisStore) -> list[Topic]:
    """Return all topics, by name."""
    _, found, marks = store.run(TOPICS)
    pairs, marked = iter(found), iter(marks)
    lanes = {topic: int(mark) & _LANES for topic, mark in zip(marked, marked, strict=True)}
    return sorted(
        Topic(topic.decode(), paused != b"", priorities(lanes.get(topic, 0)))
        for topic, paused in zip(pairs, pairs, strict=True)
    )


def histories(store: RedisStore, ids: Sequence[int]) -> list[list[Attempt]]:
    """Return what was tried with jobs, with some hundreds by one script."""
    found: list[list[Attempt]] = []
    for first in range(0, len(ids), _PAGE):
        asked = [to_id(id if known(an_id(id)) else 0) for id in ids[first : first + _PAGE]]
        found += map(records.attempts, store.run(HISTORY, asked)[1])
    return found


def states(store: RedisStore, ids: Sequence[int]) -> list[State | None]:
    """Return the states of jobs, of some hundreds by one script."""
    found: list[State | None] = []
    for first in range(0, len(ids), _PAGE):
        asked = [to_id(id if known(an_id(id)) else 0) for id in ids[first : first + _PAGE]]
        found += (None if state < 0 else STATES[state] for state in store.run(SEEN, asked)[1])
    return found


def note(store: RedisStore, name: str) -> bytes | None:
    """Return what is kept under a name, or None."""
    found: list[bytes] = store.run(NOTE, (note_name(name),))[1]
    return found[0] if found else None


def notes(store: RedisStore, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
    """Return notes, by name."""
    first, behind = a_prefix(prefix), a_prefix(after)
    least, end = b"(" + behind if behind >= first else b"[" + first, b"(" + first + b"\xff"
    found: list[tuple[str, bytes]] = []
    store._open()
    while len(found) < limit:
        some = min(limit - len(found), _NOTES)
        _, looked, last, reply = store.run(NOTE, (least, end, number(some)))
        pairs = iter(reply)
        found += [(name.decode(), value) for name, value in zip(pairs, pairs, strict=True)]
        if looked < some:
            break
        least = b"(" + last
    return found


def windows(store: RedisStore, spans: Sequence[Span], limit: int) -> list[Due]:
    """Return delayed jobs, span by span, by (due, id)."""
    limit = min(clamped(limit), 2**31)
    found: list[Due] = []
    store._open()
    left = list(spans)
    while left and len(found) < limit:
        arguments = [number(limit - len(found)), number(_LOOKED)]
        for topic, shards, (due, id), until, priority in left:
            arguments += (
                topic.encode(),
                number(shards),
                number(due),
                to_id(min(max(id, 0), LAST)),
                number(until),
                number(priority),
            )
        _, done, last, parts = store.run(WINDOWS, arguments)
        for span, part in zip(left, parts, strict=False):
            pairs = iter(part)
            which = span.topic, span.priority
            found += [Due(score(due), from_id(id), *which) for id, due in zip(pairs, pairs, strict=True)]
        left = left[done:]
        if left and len(parts) > done:
            due, id = last
            left[0] = left[0]._replace(after=(score(due), from_id(id)))
    return found


def first_dues(store: RedisStore, spans: Sequence[Span]) -> list[int | None]:
    """Return the earliest due time beyond each span."""
    arguments: list[bytes] = []
    for topic, shards, _, until, _ in spans:
        arguments += (topic.encode(), number(shards), number(until))
    found: list[int | None] = store.run(FIRST_DUES, arguments)[1]
    return found
