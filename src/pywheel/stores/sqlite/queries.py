"""Reading the store, on a connection of its own, so that a commit under way holds nobody up.

Every read fetches all its rows at once: a read that stays open keeps the log from being taken over into the file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from .connection import connect, translated
from .statements import SQL
from .transaction import FINISHED, OUTCOMES

__all__ = ["Reader"]

_CHUNK = 200


class Reader:
    """The reading half of the contract."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = connect(path, read_only=True)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        with translated(self._path), self._lock:
            return self._connection.execute(SQL[name], parameters).fetchall()

    # ---- jobs -----------------------------------------------------------------------------------------------------

    def get(self, ref: Ref, now: int) -> Job | None:
        """Return a job as it is at `now`."""
        if isinstance(ref, int):
            id: int | None = ref if abs(ref) < 2**63 else 0
        else:
            found = self._rows("id_of_key", {"topic": ref[0], "key": ref[1]})
            id = found[0][0] if found else None
        rows = self._rows("get", (id,)) if id is not None else []
        return _job(rows[0], now) if rows else None

    def jobs(self, topic: str | None, state: State | None, after: int, limit: int, now: int) -> list[Job]:
        """Return jobs by id."""
        names = [(number, name) for number, name, _ in self._rows("topics") if topic in (None, name)]
        found: list[Job] = []
        for number, _ in names:
            found += self._of_topic(number, state, after, limit, now)
        return sorted(found, key=lambda job: job.id)[:limit]

    def _of_topic(self, topic: int, state: State | None, after: int, limit: int, now: int) -> list[Job]:
        """Return jobs of one topic: pages of candidates, of which a lease that is over may rule some out."""
        found: list[Job] = []
        for name, *more in _candidates(state):
            start = after
            part: list[Job] = []
            while len(part) < limit and (ids := self._rows(name, (start, topic, *more, _CHUNK))):
                start = ids[-1][0]
                jobs = (self.get(id, now) for [id] in ids)
                part += [job for job in jobs if job and state in (None, job.state)]
            found += part[:limit]
        return sorted(found, key=lambda job: job.id)[:limit]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        rows = self._rows("history", (id,)) + self._rows("running_attempt", (id,))
        return [
            Attempt(claim, attempt, started, ended, None if outcome is None else OUTCOMES[outcome], worker, error)
            for claim, attempt, started, ended, outcome, worker, error in rows
        ]

    # ---- numbers --------------------------------------------------------------------------------------------------

    def counts(self, now: int) -> dict[str, Counts]:
        """Return the counts of each topic, all of one moment. O(jobs), some nanoseconds each."""
        with translated(self._path), self._lock:
            self._connection.execute("BEGIN")
            try:
                topics, live, finished, running = (
                    self._connection.execute(SQL[name], parameters).fetchall()
                    for name, parameters in (
                        ("topics", ()),
                        ("count_live", ()),
                        ("count_finished", ()),
                        ("count_running", {"now": now}),
                    )
                )
            finally:
                self._connection.execute("COMMIT")
        tally = {number: dict.fromkeys(State, 0) for number, _, _ in topics}
        for topic, count in live:
            tally[topic][State.DELAYED] += count
        for topic, state, count in finished:
            tally[topic][FINISHED[state]] += count
        for topic, over, spent, count in running:
            tally[topic][State.DELAYED] -= count
            tally[topic][(State.DEAD if spent else State.DELAYED) if over else State.RUNNING] += count
        return {name: Counts(*tally[number].values()) for number, name, _ in topics}

    def topics(self) -> list[Topic]:
        """Return all topics."""
        return [Topic(name, bool(paused)) for _, name, paused in self._rows("topics")]

    # ---- time -----------------------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed."""
        times = [
            self.first_due([name for _, name, _ in self._rows("topics")], -(2**62)),
            self._rows("first_lease")[0][0],
        ]
        return min((time for time in times if time is not None), default=None)

    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after`."""
        times = [row[0] for topic in topics for row in self._rows("first_due", (topic, after))]
        return min(times, default=None)

    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return delayed jobs by (due, id)."""
        mask = sum(1 << shard for shard in shards)
        found: list[Due] = []
        for topic in topics:
            span = {"topic": topic, "after": after[0], "id": after[1], "until": until, "shards": mask, "limit": limit}
            # One row: between two of them, busy handlers would take the interpreter for milliseconds.
            [(dues, ids)] = self._rows("window", span)
            found += map(Due, json.loads(dues), json.loads(ids), repeat(topic))
        return sorted(found)[:limit]

    def hint_cursor(self) -> int:
        """Return the cursor behind all hints."""
        return int(self._rows("hint_cursor")[0][0])

    def hints(self, cursor: int) -> list[tuple[int, int, int | None, str | None]]:
        """Return (sequence, job, due, topic) of later hints; without due if the job is not delayed now."""
        return self._rows("hints", (cursor,))


def _candidates(state: State | None) -> list[tuple[Any, ...]]:
    """Return the statements that find ids, and their further parameters, for jobs that may be in a state."""
    if state is None:
        return [("ids_of_topic",)]
    if state is State.DELAYED:
        return [("ids_live",)]
    if state is State.RUNNING:
        return [("ids_running",)]
    finished = ("ids_finished", FINISHED.index(state))
    return [finished, ("ids_running",)] if state is State.DEAD else [finished]


def _job(row: Sequence[Any], now: int) -> Job:
    """Return the record, with a lease that is over taken as expired."""
    id, topic, body, due, created, finished, key, ttr, limit, headers, claims, forgiven, *run, error = row
    claim, attempt, lease, patience, backoff = run
    state = State.DELAYED if finished is None else FINISHED[finished]
    claims = claim or claims or 0
    if claim and now < lease:
        state = State.RUNNING
    elif claim and attempt >= patience:
        state = State.DEAD
    elif claim:
        due = lease + backoff
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
        claims - (forgiven or 0),
        lease if state is State.RUNNING else None,
        error,
    )
