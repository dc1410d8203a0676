"""Reading the store, on a connection of its own, so that a commit under way holds nobody up.

Every read fetches all its rows at once: a read that stays open keeps the log from being taken over into the file.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Final, TypeVar

from ...jobs import lifecycle
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, Outcome, State, Topic, shard_of
from ...jobs.lifecycle import Run
from ...jobs.limits import priorities
from ..checks import clamped, in_range
from ..contract import Filter, Span
from .connection import connect, translated
from .lists import Rows, listed
from .statements import SQL
from .transaction import FINISHED, OUTCOMES

__all__ = ["Reader", "job_of"]

T = TypeVar("T")
_END: Final = 2**63 - 1
_OTHERS: Final = 255  # jobs of other shards that `first_dues` passes over


class Reader:
    """The reading half of the contract."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = connect(path, read_only=True)
        self._numbers: dict[str, int] = {}  # of topics, which never change

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run a statement and return all its rows."""
        with self._lock, self._translated():
            return self._connection.execute(SQL[name], parameters).fetchall()

    def at_one_time(self, read: Callable[[Callable[..., list[Any]]], T]) -> T:
        """Return what `read` makes of several statements' rows, all of one moment."""
        with self._lock, self._translated():
            self._connection.execute("BEGIN")
            try:
                return read(lambda name, parameters=(): self._connection.execute(SQL[name], parameters).fetchall())
            finally:
                self._connection.execute("COMMIT")

    def beginning(self, id: int, size: int) -> bytes:
        """Return so many bytes of a body, without reading it all; b"" if the job is gone."""
        with self._lock, self._translated():
            try:
                with self._connection.blobopen("job", "body", id, readonly=True) as body:
                    return body.read(size)
            except sqlite3.OperationalError:
                if self._connection.execute(SQL["present"], (json.dumps([id]),)).fetchone():
                    raise
                return b""

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._path)

    def topic(self, name: str) -> int | None:
        """Return the number of a topic, None if there is none."""
        number = self._numbers.get(name)
        if number is None:
            for [number] in self.rows("topic_id", (name,)):
                self._numbers[name] = number
        return number

    # ---- jobs -----------------------------------------------------------------------------------------------------

    def get(self, ref: Ref, now: int) -> Job | None:
        """Return a job as it is at `now`."""
        if isinstance(ref, int):
            jobs = self._among(self.rows, [ref], now) if in_range(ref) else []
            return jobs[0] if jobs else None
        topic = self.topic(ref[0])
        return None if topic is None else self.at_one_time(lambda rows: self._of_key(rows, topic, ref[1], now))

    def _of_key(self, rows: Callable[..., list[Any]], topic: int, key: str, now: int) -> Job | None:
        holders = self._among(rows, [id for [id] in rows("id_of_holder", (topic, key))], now)
        if holders and holders[0].state.live:
            return holders[0]
        old = [id for [id] in rows("old_of_key", {"topic": topic, "key": key, "now": now})]
        finished = [job for job in holders + self._among(rows, old, now) if not job.state.live]
        return max(finished, key=itemgetter(0), default=None)

    def _among(self, rows: Callable[..., list[Any]], ids: Sequence[int], now: int) -> list[Job]:
        """Return the jobs with these ids, in their order."""
        return [job_of(row, now) for row in rows("get", (json.dumps(ids),))] if ids else []

    def jobs(self, filter: Filter, after: int, limit: int, now: int) -> list[Job]:
        """Return jobs by id."""
        topic = None if filter.topic is None else self.topic(filter.topic)
        if topic is None and filter.topic is not None:
            return []

        def page(choose: Callable[[Rows], list[int]]) -> tuple[list[int], list[Job]]:
            return self.at_one_time(lambda rows: (ids := choose(rows), self._among(rows, ids, now)))

        return listed(page, filter, topic, after, limit, now)

    def history(self, id: int, now: int) -> list[Attempt]:
        """Return what was tried with a job."""
        if not in_range(id):
            return []
        ended, running = self.at_one_time(lambda rows: (rows("history", (id,)), rows("running_attempt", (id,))))
        attempts = [
            Attempt(claim, attempt, started, ended, OUTCOMES[outcome], worker, error, result)
            for claim, attempt, started, ended, outcome, worker, error, result in ended
        ]
        for claim, attempt, started, lease, worker in running:
            over = now >= lease
            lost = Outcome.LOST if over else None
            attempts.append(Attempt(claim, attempt, started, lease if over else None, lost, worker, None))
        return attempts

    def states(self, ids: Sequence[int], now: int) -> list[State | None]:
        """Return the states of jobs."""
        found: dict[int, State] = {}
        [(rows,)] = self.rows("states", (json.dumps([id for id in ids if in_range(id)]),))
        for id, finished, claim, attempt, begun, lease, most in json.loads(rows):
            if finished is not None:
                found[id] = FINISHED[finished]
            else:
                run = None if claim is None else Run(claim, attempt, bool(begun), lease, most, 0)
                found[id] = State.DELAYED if run is None else lifecycle.seen(run, now)
        return [found.get(id) for id in ids]

    # ---- numbers --------------------------------------------------------------------------------------------------

    def counts(self, now: int) -> dict[str, Counts]:
        """Return the counts of each topic, all of one moment. O(topics + running jobs)."""
        topics, tail, running = self.at_one_time(
            lambda rows: (rows("topic_counts"), rows("count_tail", (_END,)), rows("count_running", {"now": now}))
        )
        numbers, names, live, done, dead, cancelled = map(json.loads, topics[0])
        columns = zip(live, repeat(0), done, dead, cancelled)
        records: Iterator[Counts] = map(tuple.__new__, repeat(Counts), columns)  # without a call in Python for each
        counts = dict(zip(numbers, records, strict=True))
        for topic, count in tail:
            counts[topic] = _plus(counts[topic], State.DELAYED, count)
        for topic, begun, over, spent, count in running:
            # As far as `lifecycle` asks, all of them are like this one.
            run = Run(0, spent, bool(begun), now if over else now + 1, 1, 0)
            without = _plus(counts[topic], State.DELAYED, -count)
            counts[topic] = _plus(without, lifecycle.seen(run, now), count)
        return dict(zip(names, counts.values(), strict=True))

    def topics(self) -> list[Topic]:
        """Return all topics."""
        return [Topic(name, bool(paused), priorities(lanes)) for _, name, paused, lanes in self.rows("topics")]

    # ---- notes ----------------------------------------------------------------------------------------------------

    def note(self, name: bytes, now: int) -> bytes | None:
        """Return what is kept under a name, or None."""
        for value, until in self.rows("note", (name,)):
            if until is None or now < until:
                return value  # type: ignore[no-any-return]
        return None

    def notes(self, prefix: bytes, after: bytes, limit: int, now: int) -> list[tuple[str, bytes]]:
        """Return notes, by name."""
        span = {"prefix": prefix, "after": after, "end": prefix + b"\xff", "now": now, "limit": max(clamped(limit), 0)}
        return [(name.decode(), value) for name, value in self.rows("notes", span)]

    # ---- time -----------------------------------------------------------------------------------------------------

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id): those with a priority by an index of their own."""
        found: list[Due] = []
        for lane, some in groupby(spans, lambda span: span.priority != 0):
            found += self._windows(
                list(some), max(clamped(limit), 0) - len(found), "windows_of_lane" if lane else "windows"
            )
        return found

    def _windows(self, spans: Sequence[Span], most: int, statement: str) -> list[Due]:
        asked, within = [], []
        for place, (topic, shards, (due, id), until, priority) in enumerate(spans):
            number = self.topic(topic)
            if number is not None:
                first = clamped(due if id > 0 else due - 1)
                asked.append((number, shards, first, clamped(id), clamped(until), place, priority))
                if id > 0:
                    within.append(asked[-1])
        found = self.rows(statement, {"spans": json.dumps(asked), "within": json.dumps(within), "limit": most})
        dues, ids, places, *rest = map(json.loads, found[0])
        jobs = list(zip(rest[2], rest[0], rest[1], strict=True))
        if dues:  # those due with the last one of the page before
            jobs = sorted([*zip(places, dues, ids, strict=True), *jobs])[:most]
        return [Due(due, id, spans[place].topic, spans[place].priority) for place, due, id in jobs]

    def first_dues(self, spans: Sequence[Span], now: int) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        asked = [(self.topic(topic), shards, clamped(until)) for topic, shards, _, until, _ in spans]
        found = self.rows("first_dues", {"spans": json.dumps(asked), "most": _OTHERS, "now": now})
        dues: list[int | None]
        dues, runs = map(json.loads, found[0])
        for job, topic, claim, attempt, begun, lease, max_attempts, backoff, due in runs:
            ending = lifecycle.lost(Run(claim, attempt, bool(begun), lease, max_attempts, backoff))
            again = due if ending.due is None else ending.due
            if ending.state is State.DELAYED:
                for place, (number, shards, until) in enumerate(asked):
                    if number == topic and shards >> shard_of(job) & 1 and again > until:
                        first = dues[place]
                        dues[place] = again if first is None else min(again, first)
        return dues


def _plus(counts: Counts, state: State, jobs: int) -> Counts:
    return counts._replace(**{state.value: getattr(counts, state.value) + jobs})


def job_of(row: Sequence[Any], now: int) -> Job:
    """Return the record, with a lease that is over taken as expired."""
    (
        id,
        topic,
        body,
        due,
        created,
        finished,
        key,
        ttr,
        limit,
        headers,
        claims,
        forgiven,
        lost,
        *claim,
        error,
        priority,
    ) = row
    state = State.DELAYED if finished is None else FINISHED[finished]
    claims, forgiven, lost, lease = claims or 0, forgiven or 0, lost or 0, None
    if claim[0] is not None:
        run = Run(*claim)
        claims = run.claim
        if now < run.lease:
            state, lease = State.RUNNING, run.lease
        else:
            ending = lifecycle.lost(run)
            state, lost = ending.state, ending.lost
            forgiven += not ending.spent
            due = due if ending.due is None else ending.due
    return Job(
        id,
        topic,
        body,
        due,
        created,
        state,
        key,
        ttr,
        limit,
        json.loads(headers) if headers else {},
        claims,
        lifecycle.attempts(claims, forgiven),
        lease,
        error,
        lost,
        priority or 0,
    )
