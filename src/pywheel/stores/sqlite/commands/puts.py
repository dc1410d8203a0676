"""Storing new jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

from ...._errors import JobExists, NonceTaken
from ....jobs import lifecycle
from ....jobs.commands import NONCES_FORGOTTEN, Command, Put
from ....jobs.job import NewJob
from ...checks import lately
from ...marks import marked, unmarked
from ..statements import SQL
from ..tally import TAIL, Tally
from ..transaction import Names, Transaction
from .endings import settle_lost
from .rows import PUT, PUT_PLAIN, SOME, headers_text, insert, know_priorities, rows_of

__all__ = ["Keyed", "put", "put_far"]

_HOLDERS: Final = rows_of(SQL["key_holders"], "(?, ?, ?)")

_NEVER: Final = 2**63 - 1

_Name = tuple[str, str]  # a topic and a key


def put_far(
    connection: sqlite3.Connection,
    commands: Sequence[Command[Any]],
    now: int,
    topics: Names,
    furthest: Callable[[int], int],
) -> tuple[list[list[int]], dict[int, int]] | None:
    """Store a few plain jobs by one statement, its own transaction: the commonest puts, so with the fewest steps.

    Return the ids for each command, and the earliest due time of each topic; None if it takes more. `furthest` says up
    to which due time somebody wants a hint of a topic's jobs.
    """
    plain = _plain_rows(commands, now, topics) if len(commands) <= SOME else None
    if plain is None:
        return None
    values, earliest = plain
    for topic, due in earliest.items():
        if due <= furthest(topic):
            return None
    count = len(values) // 4
    if not 0 < count <= SOME:
        return None
    last = connection.execute(PUT_PLAIN[count], values).lastrowid
    assert last is not None
    before = last - count
    if last // TAIL > before // TAIL:
        _count_tail(connection)
    return _shared_out(range(before + 1, last + 1), commands), earliest


def _plain_rows(commands: Sequence[Command[Any]], now: int, topics: Names) -> tuple[list[Any], dict[int, int]] | None:
    """Return the values of all rows, and the earliest due time of each topic; None if some job has more than that."""
    values: list[Any] = []
    earliest: dict[int, int] = {}
    for command in commands:
        if type(command) is not Put or len(command.jobs) > SOME or command.nonce is not None:
            return None
        for name, body, due, key, ttr, limit, headers, _, delay, _, _, priority in command.jobs:
            topic = topics.known(name)
            if (
                topic is None
                or priority
                or key is not None
                or ttr is not None
                or limit is not None
                or headers is not None
            ):
                return None
            if delay is not None:
                due = now + delay
            if due < earliest.get(topic, _NEVER):
                earliest[topic] = due
            values += (topic, due, due - now, body)
    return values, earliest


def _shared_out(ids: Sequence[int], commands: Sequence[Any]) -> list[list[int]]:
    """Return to each command the ids of its jobs."""
    if len(commands) == 1:
        return [list(ids)]
    taken = iter(ids)
    return [list(islice(taken, len(command.jobs))) for command in commands]


def _count_tail(connection: sqlite3.Connection) -> None:
    """Count what was put alone; should that fail, it is done later."""
    with suppress(sqlite3.Error):
        connection.execute("BEGIN IMMEDIATE")
        Tally().fold(connection)
        connection.execute("COMMIT")
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def put(transaction: Transaction, commands: Sequence[Put]) -> list[Any]:
    """Store the jobs of many callers."""
    for command in commands:
        if command.nonce is not None:
            return [outcome for part in _by_nonce(commands) for outcome in _put_once(transaction, part)]
    return _put(transaction, commands)


def _put(transaction: Transaction, commands: Sequence[Put]) -> list[Any]:
    """Store the jobs of many callers, whatever their nonces."""
    jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
    if [job[3] for job in jobs].count(None) < len(jobs):
        alone = _put_one(transaction, jobs[0]) if len(commands) == len(jobs) == 1 else None
        return Keyed(transaction, jobs).put(commands) if alone is None else [alone]
    return _shared_out(insert(transaction, jobs), commands)


def _put_one(transaction: Transaction, job: NewJob) -> list[int] | None:
    """Store a single job whose key is free; None if more is to be known. The short way for most puts with a key."""
    name, body, due, key, ttr, limit, headers, _, delay, _, dedupe_for, priority = job
    topic, now = transaction.topic(name), transaction.now
    if dedupe_for is not None or transaction.row("key_holder", (topic, key)) is not None:
        return None
    due = lifecycle.due(now, due, delay)
    values = (topic, due, due - now, ttr, limit, key, headers and headers_text(headers), body, priority or None)
    if priority:
        know_priorities(transaction, (job,))
    id = transaction.connection.execute(PUT[1], values).lastrowid
    assert id is not None
    transaction.tally.put(id, id, ((topic, 1),))
    transaction.changed(id, topic, due)
    return [id]


# ---- once -----------------------------------------------------------------------------------------------------------


def _by_nonce(commands: Sequence[Put]) -> Iterator[list[Put]]:
    """Yield the commands in parts, in order: none has a nonce twice."""
    part: list[Put] = []
    seen: set[str | None] = set()
    for command in commands:
        if command.nonce is not None and command.nonce in seen:
            yield part
            part, seen = [], set()
        part.append(command)
        seen.add(command.nonce)
    yield part


def _put_once(transaction: Transaction, commands: Sequence[Put]) -> list[Any]:
    """Store the jobs of those whose nonce is new; the others get what theirs came to."""
    known: dict[str | None, list[Any]] = {}
    for command in commands:
        row = None if command.nonce is None else transaction.row("nonce_ids", (command.nonce,))
        if row is not None:
            known[command.nonce] = json.loads(row[0])
    new = [command for command in commands if command.nonce not in known]
    outcomes = _put(transaction, new) if new else []
    added = [
        (command.nonce, transaction.now, json.dumps(marked(ids, command.mark)))
        for command, ids in zip(new, outcomes, strict=True)
        if command.nonce is not None and isinstance(ids, list)
    ]
    transaction.connection.executemany(SQL["nonce_add"], added)
    transaction.forget_nonces(NONCES_FORGOTTEN * len(added))
    fresh = iter(outcomes)
    return [_before(known[command.nonce], command) if command.nonce in known else next(fresh) for command in commands]


def _before(kept: list[Any], command: Put) -> list[int] | NonceTaken:
    """Return what a put comes to whose nonce was known."""
    try:
        return unmarked(kept, command.mark)
    except NonceTaken as taken:
        return taken


# ---- with keys ------------------------------------------------------------------------------------------------------


class _Holder(NamedTuple):
    """The live job that has a key."""

    id: int
    due: int
    claim: int | None  # while it is running


class Keyed:
    """Puts of jobs of which some have keys: all or none of each caller's, and the new ones by few statements."""

    def __init__(self, transaction: Transaction, jobs: Sequence[NewJob]) -> None:
        self._transaction = transaction
        self._topics = self._numbers({job.topic for job in jobs if job.key is not None})
        self._holders = self._find({(job.topic, job.key) for job in jobs if job.key is not None})
        self._waiting: list[tuple[NewJob, list[int], int]] = []  # with its place among the ids of its caller
        self._waiting_names: set[_Name] = set()

    def put(self, commands: Sequence[Put]) -> list[Any]:
        """Return the ids of each caller's jobs, or why there are none."""
        outcomes: list[Any] = []
        for command in commands:
            if self._waiting_names and any(_name(job) in self._waiting_names for job in command.jobs):
                self._flush()
            refusal = self.refusal(command.jobs)
            outcomes.append(refusal or self._store(command.jobs))
        self._flush()
        return outcomes

    def _numbers(self, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers of those topics that there are: a put that is refused makes none."""
        numbers = {}
        for name in names:
            number = self._transaction.topics.known(name)
            row = self._transaction.row("topic_id", (name,)) if number is None else (number,)
            if row is not None:
                numbers[name] = row[0]
        return numbers

    def _find(self, names: Iterable[_Name]) -> dict[_Name, _Holder]:
        """Return the jobs that have these keys, with leases that are over settled."""
        holders: dict[_Name, _Holder] = {}
        names, over = [name for name in names if name[0] in self._topics], []
        for at in range(0, len(names), SOME):
            part = names[at : at + SOME]
            values = [value for place, name in enumerate(part) for value in (place, self._topics[name[0]], name[1])]
            for place, id, due, claim, lease in self._transaction.connection.execute(_HOLDERS[len(part)], values):
                holders[part[place]] = _Holder(id, due, claim)
                if claim is not None and lease <= self._transaction.now:
                    over.append(part[place])
        for name in over:
            settle_lost(self._transaction, holders.pop(name).id)
        return holders | self._find(over) if over else holders

    def refusal(self, jobs: Sequence[NewJob]) -> JobExists | None:
        """Return why the jobs of a caller cannot be stored."""
        seen: set[_Name] = set()
        for job in jobs:
            name = _name(job)
            if name is None or job.key is None:
                continue
            if name in seen:
                if not job.replace:
                    return JobExists(f"two of the jobs put have the key {job.key[:80]!r}", 0)
                continue
            seen.add(name)
            holder = self._holders.get(name)
            if holder is not None and not _yields(holder, job):
                return JobExists(f"job {holder.id} has the key {job.key[:80]!r} already and is live", holder.id)
            if holder is None and job.dedupe_for is not None:
                ended = self._ended_lately(name, job.dedupe_for)
                if ended is not None:
                    return ended
        return None

    def _ended_lately(self, name: _Name, dedupe_for: int) -> JobExists | None:
        """Return why a job cannot be stored whose key one had that ended less than so many ms ago."""
        if name[0] not in self._topics:
            return None
        now = self._transaction.now
        values = {"topic": self._topics[name[0]], "key": name[1], "since": now - dedupe_for}
        row = self._transaction.row("ended_lately", values)
        return None if row is None else lately(row[0], name[1], now - row[1], dedupe_for)

    def _store(self, jobs: Sequence[NewJob]) -> list[int]:
        """Store a caller's jobs, or have them wait for `_flush`; return their ids, which are there after it."""
        ids = [0] * len(jobs)
        for place, job in enumerate(jobs):
            name = _name(job)
            if name in self._waiting_names:
                self._flush()
            holder = None if name is None else self._holders.get(name)
            if holder is not None and holder.claim is None:
                ids[place] = self._replace(holder, job)
                continue
            if holder is not None:
                self._transaction.run("pass_key", (holder.id,))
            self._waiting.append((job, ids, place))
            if name is not None:
                self._waiting_names.add(name)
        return ids

    def _flush(self) -> None:
        """Store the jobs that wait."""
        jobs = [job for job, _, _ in self._waiting]
        for id, (job, ids, place) in zip(insert(self._transaction, jobs), self._waiting, strict=True):
            ids[place] = id
            name = _name(job)
            if name is not None:
                due = lifecycle.due(self._transaction.now, job.due, job.delay)
                self._holders[name] = _Holder(id, due, None)
        self._waiting.clear()
        self._waiting_names.clear()

    def _replace(self, holder: _Holder, job: NewJob) -> int:
        due = lifecycle.due(self._transaction.now, job.due, job.delay)
        know_priorities(self._transaction, (job,))
        self._transaction.run(
            "replace",
            {
                "id": holder.id,
                "due": due,
                "ttr": job.ttr,
                "max_attempts": job.max_attempts,
                "headers": headers_text(job.headers),
                "body": job.body,
                "priority": job.priority or None,
            },
        )
        self._transaction.changed(holder.id, self._transaction.topic(job.topic), min(holder.due, due))
        if job.key is not None:
            self._holders[job.topic, job.key] = holder._replace(due=due)
        return holder.id


def _name(job: NewJob) -> _Name | None:
    return None if job.key is None else (job.topic, job.key)


def _yields(holder: _Holder, job: NewJob) -> bool:
    """Whether the job that has the key takes the new values, or hands the key on."""
    return job.replace if holder.claim is None else job.parent == (holder.id, holder.claim)
