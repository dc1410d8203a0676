"""Storing new jobs, and jobs of another store: all of a caller's, or none.

Jobs without keys are inserted without a look. For a key, the live job that holds it is locked first. That job refuses
the put, takes the new values, or hands the key on to its successor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..._errors import JobExists, NonceTaken
from ...jobs import lifecycle
from ...jobs.commands import NONCES_FORGOTTEN, Import, Put
from ...jobs.job import DEFAULTS, KEPT, OF_NEW_JOB, Imported, NewJob, State
from ..checks import fingerprinted, held, lately, same_ids, storable, twice
from .read import PASSED_LAPSED
from .rows import ATTEMPT, ENDING, MOVED, REPLACED, columns_of
from .schema import FINISHED, OUTCOMES
from .settle import expire_among
from .statement import Each, Insert, Last, Rows, Select, Steps, drive_all, once_each
from .transaction import Taken, Transaction

_LAST: Final = 20  # latest finished jobs with a key that the search for a recent end looks at


NOT_FREE: Final = object()
"""The outcome of an eager put whose key is taken, or was. The caller puts the job again, with a look."""


def put(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    """Store the jobs of many callers."""
    if [1 for command in commands if command.nonce is not None]:
        return _put_with_nonces(tx, commands)
    return _put(tx, commands, last=True)


def _put(tx: Transaction, commands: Sequence[Put], *, last: bool = False) -> Steps[list[Any]]:
    jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
    if [1 for job in jobs if job.key is not None]:
        return _put_keyed(tx, commands)
    return _put_free(tx, commands, jobs, last=last)


def _put_free(tx: Transaction, commands: Sequence[Put], jobs: Sequence[NewJob], *, last: bool) -> Steps[list[Any]]:
    """Store jobs without keys."""
    ids = yield from _insert(tx, jobs, last=last)
    return [list(ids)] if len(commands) == 1 else _each_its_own(ids, commands)


def _each_its_own(ids: Sequence[int], commands: Sequence[Put]) -> list[Any]:
    given = iter(ids)
    return [[next(given) for _ in command.jobs] for command in commands]


def _may_be_free(commands: Sequence[Put]) -> bool:
    """Whether each caller has one job, all keys differ, and no job replaces, succeeds or dedupes another."""
    if any(len(command.jobs) != 1 for command in commands):
        return False
    jobs = [command.jobs[0] for command in commands]
    names = [(job.topic, job.key) for job in jobs if job.key is not None]
    return len({*names}) == len(names) and not any(
        job.replace or job.parent is not None or job.dedupe_for is not None for job in jobs
    )


# ---- rows -----------------------------------------------------------------------------------------------------------

_PLAIN: Final[tuple[str, ...]] = ("id", "topic", "next", "created", "body")
_ALL: Final = (*_PLAIN, *KEPT)


def row_of(new: Sequence[Any]) -> Insert:
    """Return the insert of one of the new jobs of a `Tally`."""
    return Insert("job", _ALL[: len(new)], [new])


def plain(
    tx: Transaction, commands: Sequence[Any], take: Callable[[int], Sequence[int] | None]
) -> tuple[Insert, list[list[int]]] | None:
    """Return the single insert for these commands, and their outcomes; None if they need more, or a look first.

    It serves puts without nonces, in known topics, with known priorities, if `take` has the ids. In an `eager`
    transaction the insert takes keys as well: a caller whose job was not stored then gets the outcome NOT_FREE.
    """
    jobs: list[NewJob] = []
    for command in commands:
        if type(command) is not Put or command.nonce is not None:
            return None
        jobs += command.jobs
    topics, columns, keyed = tx.topics.numbers, _PLAIN, False
    for job in jobs:
        if job.topic not in topics:
            return None
        if job[OF_NEW_JOB] != DEFAULTS:
            if job.priority and not tx.had_priority(job.topic, job.priority):
                return None
            columns, keyed = _ALL, keyed or job.key is not None
    if keyed and not (tx.eager and _may_be_free(commands)):
        return None
    ids = take(len(jobs)) if jobs else None
    if ids is None:
        return None
    insert = _inserting(tx, topics, ids, jobs, columns)
    insert.unless_taken = keyed
    return insert, [list(ids)] if len(commands) == 1 else _each_its_own(ids, commands)


def _inserting(
    tx: Transaction, topics: Mapping[str, int], ids: Sequence[int], jobs: Sequence[NewJob], columns: tuple[str, ...]
) -> Insert:
    """Return the insert of jobs, and note its changes."""
    now, later, moved = tx.now, tx.dialect.moment, tx.changes.moved
    moment = later(now)
    rows: list[tuple[Any, ...]] = []
    delay: int | None = None  # of the job before: most jobs of a put have the same
    delayed: Any = None
    for id, job in zip(ids, jobs, strict=True):
        topic = topics[job.topic]
        when: Any = job.due
        due: int = when
        if job.delay is not None:
            if job.delay is not delay:
                delay, delayed = job.delay, later(now, job.delay)
            when, due = delayed, now + job.delay
        moved.append((topic, id, due))
        rows.append((id, topic, when, moment, job.body))
    if columns is _ALL:
        rows = [(*row, *columns_of(job.kept)) for row, job in zip(rows, jobs, strict=True)]
    tx.tally.new += rows
    return Insert("job", columns, rows)


def _insert(tx: Transaction, jobs: Sequence[NewJob], *, last: bool = False) -> Steps[Sequence[int]]:
    """Store jobs whose keys are free; return their ids. Taken: another transaction came first."""
    if not jobs:
        return ()
    topics = yield from tx.numbers({job.topic for job in jobs}, add=True)
    ids = yield from tx.new_ids(len(jobs))
    yield from tx.know_priorities({(topics[job.topic], job.priority) for job in jobs if job.priority})
    plain = all(job[OF_NEW_JOB] == DEFAULTS for job in jobs)
    insert = _inserting(tx, topics, ids, jobs, _PLAIN if plain else _ALL)
    insert.unless_taken = bool(tx.dialect.skip) and any(job.key is not None for job in jobs)
    answer = yield Last((insert,)) if last else (insert,)
    if insert.unless_taken and len(answer[-1]) < len(jobs):
        raise Taken
    return ids


# ---- once -----------------------------------------------------------------------------------------------------------


def _known(nonces: Sequence[str]) -> Steps[dict[str, list[Any]]]:
    text = "SELECT n.nonce, n.ids FROM {w: nonce} {each nonce n: n.nonce = w.nonce}"
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
    for part in once_each(commands, lambda command: () if command.nonce is None else (command.nonce,)):
        outcomes += yield from _put_once(tx, part)
    return outcomes


def _put_once(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    """Store the jobs of commands with new nonces; the others get the outcome of the first put with theirs."""
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
    """Return the outcome of a put whose nonce was known."""
    try:
        return same_ids(kept, command.fingerprint)
    except NonceTaken as taken:
        return taken


# ---- with keys ------------------------------------------------------------------------------------------------------

_Name = tuple[str, str]  # a topic, and a key


class _Holder(NamedTuple):
    """The live job that has a key."""

    id: int
    claim: int | None  # None: it waits

    def yields(self, job: NewJob) -> bool:
        """Whether the holder takes the new values, or hands the key on."""
        return job.replace if self.claim is None else job.parent == (self.id, self.claim)


def _names(jobs: Iterable[NewJob]) -> set[_Name]:
    return {(job.topic, job.key) for job in jobs if job.key is not None}


LAPSED: Final = "CASE WHEN j.state = 1 AND j.next <= {now} THEN 1 ELSE 0 END AS lapsed"
"""Whether the lease of a live job is over: the last column for `settled`."""


def settled(tx: Transaction, *looks: Rows) -> Steps[list[Any]]:
    """Return the rows of looks at jobs, once the leases that they show as over are ended. Rows begin with the id."""
    answer = yield looks
    lapsed = sorted(row[0] for rows in answer for row in rows if row[-1])
    if lapsed:
        yield from expire_among(tx, lapsed)
        answer = yield looks
    return list(answer)


def _holders(tx: Transaction, keyed: Iterable[_Name]) -> Steps[dict[_Name, _Holder]]:
    """Return the live jobs that hold keys, locked, with their lapsed leases ended. A new topic has none."""
    numbers = yield from tx.numbers({topic for topic, _ in keyed})
    topics = {number: topic for topic, number in numbers.items()}
    text = (
        f"SELECT j.id, j.topic, j.key, j.state, j.claims, {LAPSED} "
        "FROM {w: topic, key} "
        "{each job j: j.topic = w.topic AND j.key = w.key AND j.key IS NOT NULL AND j.passed = 0} {lock j}"
    )
    names = sorted((numbers[topic], key) for topic, key in keyed if topic in numbers)
    look = Rows("id topic key state claims lapsed", text, {"w": names})
    [rows] = (yield from settled(tx, look)) if names else ((),)
    return {(topics[topic], key): _Holder(id, claims if state else None) for id, topic, key, state, claims, _ in rows}


def _refusal(tx: Transaction, jobs: Sequence[NewJob], holders: Mapping[_Name, _Holder]) -> Steps[JobExists | None]:
    """Return the reason why a caller's jobs cannot be stored, or None."""
    seen: set[_Name] = set()
    for job in jobs:
        if job.key is None:
            continue
        name = job.topic, job.key
        if name in seen:
            if not job.replace:
                return twice(job.key)
            continue
        seen.add(name)
        holder = holders.get(name)
        if holder is not None and not holder.yields(job):
            return held(holder.id, job.key)
        if holder is None and job.dedupe_for is not None:
            refusal = yield from _ended_lately(tx, *name, job.dedupe_for)
            if refusal is not None:
                return refusal
    return None


def _ended_lately(tx: Transaction, topic: str, key: str, dedupe_for: int) -> Steps[JobExists | None]:
    """Return the refusal of a job if an earlier one with its key ended within `dedupe_for` ms, else None."""
    numbers = yield from tx.numbers((topic,))
    if not numbers:
        return None
    values = {"topic": numbers[topic], "key": key, "last": _LAST, "span": dedupe_for}
    yield from settled(tx, Rows("id lapsed", f"SELECT j.id, 1 AS lapsed FROM job j WHERE {PASSED_LAPSED}", values))
    text = (
        "SELECT id, {now} - ended FROM (SELECT id, ended FROM finished WHERE topic = :topic AND key = :key "
        "AND key IS NOT NULL ORDER BY id DESC LIMIT :last) f WHERE ended > {now} - :span ORDER BY id DESC LIMIT 1"
    )
    [rows] = yield (Select(text, values),)
    return lately(rows[0][0], key, rows[0][1], dedupe_for) if rows else None


def _put_keyed(tx: Transaction, commands: Sequence[Put]) -> Steps[list[Any]]:
    holders = yield from _holders(tx, _names(job for command in commands for job in command.jobs))
    outcomes: list[Any] = []
    for part in once_each(commands, lambda command: _names(command.jobs)):
        outcomes += yield from _put_part(tx, part, holders)
    return outcomes


def _put_part(tx: Transaction, commands: Sequence[Put], holders: dict[Any, _Holder]) -> Steps[list[Any]]:
    """Store the jobs of commands that have no key in common. Of a command's jobs with one key, the last counts."""
    names = [[object() if job.key is None else (job.topic, job.key) for job in command.jobs] for command in commands]
    outcomes: list[Any] = []
    jobs: dict[Any, NewJob] = {}
    for command, some in zip(commands, names, strict=True):
        outcomes.append((yield from _refusal(tx, command.jobs, holders)))
        if outcomes[-1] is None:
            jobs.update(zip(some, command.jobs, strict=True))
    new = []
    for name, job in jobs.items():
        holder = holders.get(name)
        if holder is not None and holder.claim is None:
            yield from _replace(tx, holder.id, job)
            continue
        if holder is not None:
            yield (Each("UPDATE job SET passed = 1 WHERE id = :id", [{"id": holder.id}]),)
        new.append(name)
    stored = yield from _insert(tx, [jobs[name] for name in new])
    holders.update((name, _Holder(id, None)) for name, id in zip(new, stored, strict=True))
    return [
        [holders[name].id for name in some] if outcome is None else outcome
        for outcome, some in zip(outcomes, names, strict=True)
    ]


def writing(columns: Iterable[str], more: str = "") -> str:
    """Return the update of a waiting job: these columns, and the due time if there is a new one."""
    values = "".join(f", {one} = :{one}" for one in columns)
    return f"UPDATE job SET next = coalesce(:due, {{now}} + :delay, next){values}{more} WHERE id = :id"


EDITED: Final = ", claims = claims + 1, unspent = unspent + 1"
"""The other columns of an edit: a new claim number shows that the job has changed."""
_REPLACE: Final = writing(("body", *REPLACED), EDITED)


def _replace(tx: Transaction, id: int, job: NewJob) -> Steps[None]:
    values = dict(zip(KEPT, columns_of(job.kept), strict=True))
    values |= {"id": id, "due": job.due if job.delay is None else None, "delay": job.delay, "body": job.body}
    numbers = yield from tx.numbers((job.topic,))
    yield from tx.know_priorities([(numbers[job.topic], job.priority)] if job.priority else ())
    yield (Each(_REPLACE, [values]),)
    tx.changes.due(numbers[job.topic], id, lifecycle.due(tx.now, job.due, job.delay))


# ---- as another store has them --------------------------------------------------------------------------------------

_LIVE_COLUMNS: Final = (*_ALL, "claims", "unspent", "lost", "passed", "error")
_ENDED_COLUMNS: Final = (*MOVED, *ENDING)
_ATTEMPT_COLUMNS: Final = ("job", *ATTEMPT)


def take_in(tx: Transaction, commands: Sequence[Import]) -> Steps[list[Any]]:
    """Store the jobs of each command, all or none."""
    return drive_all([_import_once(tx, command) for command in commands])


def _import_once(tx: Transaction, command: Import) -> Steps[list[int] | JobExists]:
    if command.nonce is not None:
        known = yield from _known([command.nonce])
        if known:
            return known[command.nonce]
    keyed = [one.new for one in command.jobs if one.holds_key]
    if keyed:
        holders = yield from _holders(tx, _names(keyed))
        refusal = yield from _refusal(tx, keyed, holders)
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
    stored: list[Sequence[Any]] = []
    for id, one in zip(ids, some, strict=True):
        job, topic = one.job, topics[one.job.topic]
        history = [
            (id, *a[:4], OUTCOMES.index(a.outcome), workers.get(a.worker or ""), storable(a.error))
            for a in one.history
            if a.outcome is not None
        ]
        fields, spent = columns_of(job.kept), (job.claims, job.claims - job.attempt, job.lost)
        new = (id, topic, job.due, job.created, job.body, *fields)
        stored.append(new)
        if job.state is State.DELAYED:
            live.append((*new, *spent, int(one.passed), storable(one.last_error)))
            tx.changes.due(topic, id, job.due)
        else:
            _, _, attempt, started, end, outcome, worker, error = history.pop()
            state = FINISHED.index(job.state)
            moved = (id, topic, job.due, job.created, *spent, *fields, started, worker, job.body)
            ended.append((*moved, state, end, attempt, outcome, error, one.result))
            tx.tally.ended([topic], state)
        attempts += history
    yield from tx.know_priorities({(topics[one.job.topic], one.job.priority) for one in some if one.job.priority})
    tables = ("job", _LIVE_COLUMNS, live), ("finished", _ENDED_COLUMNS, ended), ("attempt", _ATTEMPT_COLUMNS, attempts)
    yield [Insert(table, columns, rows) for table, columns, rows in tables if rows]
    tx.tally.new += stored
    return ids
