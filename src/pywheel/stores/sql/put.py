"""Storing new jobs, and jobs as another store has them: all of a caller's, or none.

Jobs without keys are inserted without a look. Of a key the live job that has it is locked first: it refuses the put,
takes the new values, or hands the key on to a job of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..._errors import JobExists, NonceTaken
from ...jobs import lifecycle
from ...jobs.commands import NONCES_FORGOTTEN, Import, Put
from ...jobs.job import OF_NEW_JOB, Imported, NewJob, State
from ..checks import fingerprinted, lately, same_ids, storable
from .rows import ATTEMPT, DEFAULTS, ENDING, KEPT, MOVED, REPLACED, columns_of
from .schema import OUTCOMES, code_of
from .settle import expire_among
from .statement import Each, Insert, Last, Rows, Select, Statement, Steps
from .transaction import Taken, Transaction

__all__ = ["NOT_FREE", "plain", "put", "take_in"]

_Name = tuple[int, str]  # the number of a topic, and a key
_LAST: Final = 20  # jobs with a key among which one that ended lately is looked for


NOT_FREE: Final = object()
"""The outcome of a put whose key is taken, or was. It is to be put once more, with a look."""


class _Holder(NamedTuple):
    """The live job that has a key."""

    id: int
    due: int
    claim: int | None  # while it runs


def put(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    """Store the jobs of many callers."""
    if [1 for command in commands if command.nonce is not None]:
        return _put_with_nonces(tx, commands)
    return _put(tx, commands, last=True)


def _put(tx: Transaction, commands: Sequence[Put], *, last: bool = False) -> Steps[list[Any]]:
    jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
    keyed = [1 for job in jobs if job.key is not None]
    if keyed and not (last and tx.eager and _may_be_free(tx, commands)):
        return _put_keyed(tx, commands)
    return _put_free(tx, commands, jobs, last=last)


def _put_free(tx: Transaction, commands: Sequence[Put], jobs: Sequence[NewJob], *, last: bool) -> Steps[list[Any]]:
    """Store jobs without keys, or, as the `last` step, with keys that are probably free."""
    ids, stored = yield from _insert(tx, jobs, last=last)
    if len(commands) == 1 and stored is None:
        return [list(ids)]
    outcomes: list[Any] = []
    at = 0
    for command in commands:
        outcomes.append(list(ids[at : at + len(command.jobs)]))
        at += len(command.jobs)
    if stored is not None:
        outcomes = [some if stored.issuperset(some) else NOT_FREE for some in outcomes]
    return outcomes


def _may_be_free(tx: Transaction, commands: Sequence[Put]) -> bool:
    """Whether no job takes over from one with its key, or asks for one that had it, and each caller has one job.

    A priority that its topic has not had yet is noted for jobs that are stored alone.
    """
    names = set()
    for command in commands:
        if len(command.jobs) != 1:
            return False
        job = command.jobs[0]
        if job.replace or job.parent is not None or job.dedupe_for is not None or (job.topic, job.key) in names:
            return False
        if job.priority and not tx.had_priority(job.topic, job.priority):
            return False
        if job.key is not None:
            names.add((job.topic, job.key))
    return True


# ---- rows -----------------------------------------------------------------------------------------------------------

_PLAIN: Final = ("id", "topic", "next", "due", "created", "body")
_ALL: Final = (*_PLAIN, *KEPT)


def plain(
    tx: Transaction, commands: Sequence[Any], take: Callable[[int], Sequence[int] | None]
) -> tuple[Insert, list[list[int]]] | None:
    """Return the one insert that commands come to, and their outcomes; None if they need more, or a look before it.

    It is for puts without keys, nonces and priorities, in topics that are known, with ids that `take` knows.
    """
    jobs: list[NewJob] = []
    for command in commands:
        if type(command) is not Put or command.nonce is not None:
            return None
        jobs += command.jobs
    topics = tx.topics.numbers
    for job in jobs:
        if job.key is not None or job.priority or job.topic not in topics:
            return None
    ids = take(len(jobs)) if jobs else None
    if ids is None:
        return None
    insert = _inserting(tx, topics, ids, jobs)
    if len(commands) == 1:
        return insert, [list(ids)]
    given = iter(ids)
    return insert, [[next(given) for _ in command.jobs] for command in commands]


def _inserting(tx: Transaction, topics: Mapping[str, int], ids: Sequence[int], jobs: Sequence[NewJob]) -> Insert:
    """Return what stores jobs, and note what it changes."""
    now, later, moved = tx.now, tx.dialect.moment, tx.changes.moved
    moment = later(now)
    rows: list[tuple[Any, ...]] = []
    columns: tuple[str, ...] = _PLAIN
    for id, job in zip(ids, jobs, strict=True):
        topic, delay = topics[job.topic], job.delay
        due = when = job.due
        if delay is not None:
            due, when = now + delay, later(now, delay)
        moved.append((topic, id, due))
        rows.append((id, topic, when, when, moment, job.body))
        if job[OF_NEW_JOB] != DEFAULTS:
            columns = _ALL
    if columns is _ALL:
        rows = [(*row, *columns_of(job.kept)) for row, job in zip(rows, jobs, strict=True)]
    tx.tally.new += rows
    return Insert("job", columns, rows)


def _insert(
    tx: Transaction, jobs: Sequence[NewJob], *, last: bool = False
) -> Steps[tuple[Sequence[int], set[int] | None]]:
    """Store jobs whose keys are free; return their ids, and those that were stored, None for all.

    If this is not the `last` step of a put, all of them are to be free. Taken: somebody else came first.
    """
    if not jobs:
        return (), None
    topics = yield from tx.numbers({job.topic for job in jobs}, add=True)
    ids = yield from tx.new_ids(len(jobs))
    yield from tx.know_priorities({(topics[job.topic], job.priority) for job in jobs if job.priority})
    insert = _inserting(tx, topics, ids, jobs)
    insert.unless_taken = bool(tx.dialect.skip) and any(job.key is not None for job in jobs)
    answer = yield Last((insert,)) if last else (insert,)
    if not insert.unless_taken or len(answer[-1]) == len(jobs):
        return ids, None
    if not last:
        raise Taken
    stored = {id for [id] in answer[-1]}
    tx.tally.new = [row for row in tx.tally.new if row[0] in stored]
    return ids, stored


# ---- once -----------------------------------------------------------------------------------------------------------


def _by_nonce(commands: Sequence[Put]) -> list[list[Put]]:
    """Divide commands, in order: in no part is a nonce twice."""
    parts: list[list[Put]] = [[]]
    seen: set[str] = set()
    for command in commands:
        if command.nonce is not None and command.nonce in seen:
            parts.append([])
            seen = set()
        parts[-1].append(command)
        if command.nonce is not None:
            seen.add(command.nonce)
    return parts


def _known(nonces: Sequence[str]) -> Steps[dict[str, list[Any]]]:
    text = "SELECT n.nonce, n.ids FROM {w: nonce} {then} nonce n ON n.nonce = w.nonce"
    [rows] = yield (Rows("nonce ids", text, {"w": [(nonce,) for nonce in nonces]}),)
    return {nonce: json.loads(ids) for nonce, ids in rows}


def _note_nonces(tx: Transaction, kept: Sequence[tuple[str, list[Any]]]) -> Steps[None]:
    if kept:
        rows = [(nonce, tx.dialect.moment(tx.now), json.dumps(ids)) for nonce, ids in kept]
        insert = Insert("nonce", ("nonce", "at", "ids"), rows, unless_taken=bool(tx.dialect.skip))
        answer = yield (insert, tx.forget_nonces(NONCES_FORGOTTEN * len(rows)))
        if tx.dialect.skip and len(answer[0]) < len(rows):
            raise Taken


def _put_with_nonces(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    outcomes: list[Any] = []
    for part in _by_nonce(commands):
        outcomes += yield from _put_once(tx, part)
    return outcomes


def _put_once(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    """Store the jobs of those whose nonce is new; the others get what theirs came to."""
    known = yield from _known([command.nonce for command in commands if command.nonce is not None])
    new = [command for command in commands if command.nonce is None or command.nonce not in known]
    outcomes = (yield from _put(tx, new)) if new else []
    kept = [
        (command.nonce, fingerprinted(ids, command.fingerprint))
        for command, ids in zip(new, outcomes, strict=True)
        if command.nonce is not None and isinstance(ids, list)
    ]
    yield from _note_nonces(tx, kept)
    fresh = iter(outcomes)
    return [
        _before(known[command.nonce], command) if command.nonce is not None and command.nonce in known else next(fresh)
        for command in commands
    ]


def _before(kept: list[Any], command: Put) -> list[int] | NonceTaken:
    """Return what a put comes to whose nonce was known."""
    try:
        return same_ids(kept, command.fingerprint)
    except NonceTaken as taken:
        return taken


# ---- with keys ------------------------------------------------------------------------------------------------------


class _Keys:
    """The live jobs that have keys, locked, as the commands under way leave them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.holders: dict[_Name, _Holder] = {}
        self._topics: dict[str, int] = {}

    def name(self, job: NewJob) -> _Name | None:
        """Return topic and key, None without a key. A topic that is new has no jobs."""
        return None if job.key is None else (self._topics.get(job.topic, 0), job.key)

    def know(self, topics: Iterable[str]) -> Steps[None]:
        """Take in the numbers of topics, those that are new among them."""
        self._topics.update((yield from self._tx.numbers(topics)))

    def put(self, job: NewJob, id: int, due: int) -> None:
        """Note that a new job has its key."""
        name = self.name(job)
        assert name is not None
        self.holders[name] = _Holder(id, due, None)

    def look(self, jobs: Iterable[NewJob]) -> Steps[None]:
        """Find the jobs that have the keys of these, with leases that are over ended."""
        jobs = [job for job in jobs if job.key is not None]
        yield from self.know({job.topic for job in jobs})
        names = sorted({name for job in jobs if (name := self.name(job)) is not None and name[0]})
        text = (
            "SELECT j.topic, j.key, j.id, j.due, j.state, j.claims, "
            "CASE WHEN j.next <= {now} THEN 1 ELSE 0 END AS lapsed "
            "FROM {w: topic, key} {then} job j ON j.topic = w.topic AND j.key = w.key "
            "WHERE j.key IS NOT NULL AND j.passed = 0 {lock j}"
        )
        rows: Sequence[Any] = ()
        if names:
            look = Rows("topic key id due state claims lapsed", text, {"w": names})
            [rows] = yield (look,)
            lapsed = sorted(row[2] for row in rows if row[4] and row[6])
            if lapsed:
                yield from expire_among(self._tx, lapsed)
                [rows] = yield (look,)
        for topic, key, id, due, state, claims, _ in rows:
            self.holders[topic, key] = _Holder(id, due, claims if state else None)

    def refusal(self, jobs: Sequence[NewJob]) -> Steps[JobExists | None]:
        """Return why the jobs of a caller cannot be stored."""
        seen: set[tuple[str, str]] = set()
        for job in jobs:
            name = self.name(job)
            if name is None or job.key is None:
                continue
            if (job.topic, job.key) in seen:
                if not job.replace:
                    return JobExists(f"two of the jobs put have the key {job.key[:80]!r}", 0)
                continue
            seen.add((job.topic, job.key))
            holder = self.holders.get(name)
            if holder is not None and not _yields(holder, job):
                return JobExists(f"job {holder.id} has the key {job.key[:80]!r} already and is live", holder.id)
            if holder is None and job.dedupe_for is not None and name[0]:
                refusal = yield from _ended_lately(name, job.dedupe_for)
                if refusal is not None:
                    return refusal
        return None


def _yields(holder: _Holder, job: NewJob) -> bool:
    """Whether the job that has the key takes the new values, or hands the key on."""
    return job.replace if holder.claim is None else job.parent == (holder.id, holder.claim)


def _ended_lately(name: _Name, dedupe_for: int) -> Steps[JobExists | None]:
    """Return why a job cannot be stored whose key one had that ended less than so many ms ago."""
    text = (
        "SELECT id, {now} - ended FROM (SELECT id, ended FROM finished WHERE topic = :topic AND key = :key "
        "AND key IS NOT NULL ORDER BY id DESC LIMIT :last) f WHERE ended > {now} - :span ORDER BY id DESC LIMIT 1"
    )
    values = {"topic": name[0], "key": name[1], "last": _LAST, "span": dedupe_for}
    [rows] = yield (Select(text, values),)
    return lately(rows[0][0], name[1], rows[0][1], dedupe_for) if rows else None


def _put_keyed(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    keys = _Keys(tx)
    yield from keys.look(job for command in commands for job in command.jobs)
    outcomes: list[Any] = []
    waiting: list[tuple[NewJob, list[int], int]] = []  # new ones, with their places among the ids of their callers
    names: set[tuple[str, str | None]] = set()  # the keys of those
    for command in commands:
        if names and any((job.topic, job.key) in names for job in command.jobs):
            yield from _flush(tx, keys, waiting, names)
        refusal = yield from keys.refusal(command.jobs)
        if refusal is not None:
            outcomes.append(refusal)
            continue
        ids = [0] * len(command.jobs)
        for place, job in enumerate(command.jobs):
            if job.key is not None and (job.topic, job.key) in names:
                yield from _flush(tx, keys, waiting, names)
            name = keys.name(job)
            holder = None if name is None else keys.holders.get(name)
            if holder is not None and holder.claim is None and name is not None:
                ids[place] = yield from _replace(tx, keys, name, holder, job)
                continue
            if holder is not None:
                yield (Each("UPDATE job SET passed = 1 WHERE id = :id", [{"id": holder.id}]),)
            waiting.append((job, ids, place))
            if job.key is not None:
                names.add((job.topic, job.key))
        outcomes.append(ids)
    yield from _flush(tx, keys, waiting, names)
    return outcomes


def _flush(
    tx: Transaction, keys: _Keys, waiting: list[tuple[NewJob, list[int], int]], names: set[tuple[str, str | None]]
) -> Steps[None]:
    """Store the jobs that wait."""
    found, _ = yield from _insert(tx, [job for job, _, _ in waiting])
    yield from keys.know({job.topic for job, _, _ in waiting if job.key is not None})
    for id, (job, ids, place) in zip(found, waiting, strict=True):
        ids[place] = id
        if job.key is not None:
            due = lifecycle.due(tx.now, job.due, job.delay)
            keys.put(job, id, due)
    waiting.clear()
    names.clear()


_REPLACE: Final = (
    "UPDATE job SET next = coalesce(:due, {now} + :delay), due = coalesce(:due, {now} + :delay), body = :body, "
    f"{', '.join(f'{one} = :{one}' for one in REPLACED)} WHERE id = :id"
)


def _replace(tx: Transaction, keys: _Keys, name: _Name, holder: _Holder, job: NewJob) -> Steps[int]:
    values = dict(zip(KEPT, columns_of(job.kept), strict=True))
    values |= {"id": holder.id, "due": job.due if job.delay is None else None, "delay": job.delay, "body": job.body}
    yield from tx.know_priorities([(name[0], job.priority)] if job.priority else ())
    yield (Each(_REPLACE, [values]),)
    due = lifecycle.due(tx.now, job.due, job.delay)
    tx.changes.due(name[0], holder.id, due)
    keys.holders[name] = holder._replace(due=due)
    return holder.id


# ---- as another store has them --------------------------------------------------------------------------------------

_LIVE_COLUMNS: Final = (*_ALL, "claims", "unspent", "lost", "passed", "error")
_ENDED_COLUMNS: Final = (*MOVED, *ENDING)
_ATTEMPT_COLUMNS: Final = ("job", *ATTEMPT)


def take_in(tx: Transaction, commands: Sequence[Import]) -> Steps[list[Any]]:
    """Store the jobs of each command, all or none."""
    outcomes = []
    for command in commands:
        outcomes.append((yield from _import_once(tx, command)))  # noqa: PERF401
    return outcomes


def _import_once(tx: Transaction, command: Import) -> Steps[list[int] | JobExists]:
    if command.nonce is not None:
        known = yield from _known([command.nonce])
        if known:
            return known[command.nonce]
    keyed = [one.new for one in command.jobs if one.holds_key]
    if keyed:
        keys = _Keys(tx)
        yield from keys.look(keyed)
        refusal = yield from keys.refusal(keyed)
        if refusal is not None:
            return refusal
    ids = list((yield from _import_all(tx, command.jobs)))
    if command.nonce is not None:
        yield from _note_nonces(tx, [(command.nonce, ids)])
    return ids


def _import_all(tx: Transaction, some: Sequence[Imported]) -> Steps[Sequence[int]]:
    if not some:
        return ()
    topics = yield from tx.numbers({one.job.topic for one in some}, add=True)
    names = {attempt.worker for one in some for attempt in one.history if attempt.worker is not None}
    workers = yield from tx.numbers(names, add=True, of=tx.workers)
    ids = yield from tx.new_ids(len(some))
    live, ended, attempts = [], [], []
    for id, one in zip(ids, some, strict=True):
        job, topic = one.job, topics[one.job.topic]
        history = [
            (
                id,
                a.claim,
                a.attempt,
                a.started,
                a.ended,
                OUTCOMES.index(a.outcome),
                None if a.worker is None else workers[a.worker],
                storable(a.error),
            )
            for a in one.history
            if a.outcome is not None
        ]
        fields, spent = columns_of(job.kept), (job.claims, job.claims - job.attempt, job.lost)
        if job.state is State.DELAYED:
            new = (id, topic, job.due, job.due, job.created, job.body, *fields)
            live.append((*new, *spent, int(one.passed), storable(one.last_error)))
            tx.changes.due(topic, id, job.due)
        else:
            _, _, attempt, started, end, outcome, worker, error = history.pop()
            state = code_of(job.state)
            moved = (id, topic, job.due, job.created, *spent, *fields, started, worker, job.body)
            ended.append((*moved, state, end, attempt, outcome, error, one.result))
            tx.tally.ended([topic], state)
        attempts += history
    yield from tx.know_priorities({(topics[one.job.topic], one.job.priority) for one in some if one.job.priority})
    batch: list[Statement] = []
    if live:
        batch.append(Insert("job", _LIVE_COLUMNS, live))
    if ended:
        batch.append(Insert("finished", _ENDED_COLUMNS, ended))
    if attempts:
        batch.append(Insert("attempt", _ATTEMPT_COLUMNS, attempts))
    yield batch
    tx.tally.new += [(id, topics[one.job.topic]) for id, one in zip(ids, some, strict=True)]
    return ids
