"""Reading: jobs as they are, counts, histories, and what workers ask for. A lease that is over is seen as ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ...jobs import lifecycle
from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, Outcome, State, Topic
from ...jobs.lifecycle import Run
from ...jobs.limits import priorities
from ..checks import clamped, in_range
from .rows import ATTEMPT, HEAD, job_of, listed
from .schema import ENDED, FINISHED, OUTCOMES
from .statement import Rows, Select, Steps
from .transaction import Lookup, Names

__all__ = [
    "claims",
    "counts",
    "first_due",
    "heads",
    "histories",
    "job",
    "jobs_of",
    "names",
    "next_dues",
    "priorities_of",
    "states",
    "there",
    "topics",
]

LAST_ERROR: Final = (
    "CASE WHEN j.claims > 0 THEN coalesce(j.error, (SELECT a.error FROM attempt a WHERE a.job = j.id "
    "AND a.error IS NOT NULL ORDER BY a.claim DESC LIMIT 1)) END"
)
"""The last error of a finished job, of its last attempt or of one before."""
_NOT_RUNNING: Final = dict.fromkeys(("next", "begun", "tries", "backoff"), "0")
LIVE_HEAD: Final = f"SELECT {listed(HEAD, 'j')}, {{now}} AS now"
ENDED_HEAD: Final = (
    f"SELECT {listed(HEAD, 'j', state=f'j.state + {ENDED}', error=LAST_ERROR, **_NOT_RUNNING)}, {{now}} AS now"
)
_WHOLE: Final = f"{' '.join(HEAD)} now body"
_LIVE: Final = f"{LIVE_HEAD}, j.body"
_ENDED: Final = f"{ENDED_HEAD}, j.body"


def names(topics: Names, numbers: Iterable[int]) -> Steps[Mapping[int, str]]:
    """Return the names of topics."""
    missing = sorted({number for number in numbers if number not in topics.names})
    if missing:
        [found] = yield (Rows("id name", "SELECT id, name FROM topic WHERE id {in ids}", {"ids": missing}),)
        topics.learn({name: number for number, name in found})
    return topics.names


def number_of(topics: Names, name: str) -> Steps[int | None]:
    """Return the number of a topic, None if there is none."""
    number = topics.numbers.get(name)
    if number is None:
        [rows] = yield (Select("SELECT id FROM topic WHERE name = :name", {"name": name}),)
        if rows:
            number = rows[0][0]
            topics.learn({name: number})
    return number


# ---- jobs -----------------------------------------------------------------------------------------------------------


def job(known: Lookup, query: q.GetJob) -> Steps[Job | None]:
    """Return a job, or None."""
    topics, ref = known.topics, query.ref
    if isinstance(ref, int):
        found = (yield from jobs_of(topics, [ref])) if in_range(ref) else []
        return found[0] if found else None
    number = yield from number_of(topics, ref[0])
    if number is None:
        return None
    values = {"topic": number, "key": ref[1]}
    named = "j.topic = :topic AND j.key = :key AND j.key IS NOT NULL"
    live, ended = yield (
        Rows(_WHOLE, f"{_LIVE} FROM job j WHERE {named} AND j.passed = 0", values),
        Rows(_WHOLE, f"{_ENDED} FROM finished j WHERE {named} ORDER BY j.id DESC LIMIT 1", values),
    )
    labels = yield from names(topics, (row[1] for row in (*live, *ended)))
    found = [job_of(row, labels, row[-1]) for row in live]
    if found and found[0].state.live:
        return found[0]
    passed = Rows(
        _WHOLE, f"{_LIVE} FROM job j WHERE {named} AND j.passed = 1 AND j.state = 1 AND j.next <= {{now}}", values
    )
    [rows] = yield (passed,)
    found += [job_of(row, labels, row[-1]) for row in (*ended, *rows)]
    return max((job for job in found if not job.state.live), key=lambda job: job.id, default=None)


def jobs_of(topics: Names, ids: Sequence[int]) -> Steps[list[Job]]:
    """Return the jobs with these ids, in their order."""
    if not ids:
        return []
    values = {"ids": sorted(ids)}
    rows = yield (
        Rows(_WHOLE, f"{_LIVE} FROM job j WHERE j.id {{in ids}}", values),
        Rows(_WHOLE, f"{_ENDED} FROM finished j WHERE j.id {{in ids}}", values),
    )
    found = {row[0]: row for part in reversed(rows) for row in part}
    named = yield from names(topics, (row[1] for row in found.values()))
    return [job_of(found[id], named, found[id][-1]) for id in ids if id in found]


_HEAD: Final = f"{' '.join(HEAD)} now size"


def heads(topics: Names, ids: Sequence[int]) -> Steps[list[tuple[Job, int]]]:
    """Return jobs without their bodies but with the sizes of those, in the order of their ids here."""
    values = {"ids": sorted(ids)}
    rows = yield (
        Rows(_HEAD, f"{LIVE_HEAD}, length(j.body) AS size FROM job j WHERE j.id {{in ids}}", values),
        Rows(_HEAD, f"{ENDED_HEAD}, length(j.body) AS size FROM finished j WHERE j.id {{in ids}}", values),
    )
    found = {row[0]: row for part in reversed(rows) for row in part}
    named = yield from names(topics, (row[1] for row in found.values()))
    return [(job_of(found[id], named), found[id][-1]) for id in ids if id in found]


def there(ids: Sequence[int]) -> Steps[set[int]]:
    """Return those of some ids of which there are jobs."""
    live, ended = yield tuple(
        Rows("id", f"SELECT j.id FROM {table} j WHERE j.id {{in ids}}", {"ids": sorted(ids)})
        for table in ("job", "finished")
    )
    return {id for [id] in (*live, *ended)}


def states(known: Lookup, query: q.GetStates) -> Steps[list[State | None]]:  # noqa: ARG001  (as all that reads)
    """Return the states of jobs."""
    ids = query.ids
    values = {"ids": sorted({id for id in ids if in_range(id)})}
    columns = "id state claims unspent next begun tries now"
    live, ended = yield (
        Rows(
            columns,
            "SELECT j.id, j.state, j.claims, j.unspent, j.next, j.begun, j.tries, {now} AS now FROM job j "
            "WHERE j.id {in ids}",
            values,
        ),
        Rows("id state", "SELECT j.id, j.state FROM finished j WHERE j.id {in ids}", values),
    )
    found = {id: FINISHED[state] for id, state in ended}
    for id, state, claims, unspent, next_, begun, tries, now in live:
        run = Run(claims, lifecycle.attempts(claims, unspent), bool(begun), next_, tries, 0)
        found[id] = lifecycle.seen(run, now) if state else State.DELAYED
    return [found.get(id) for id in ids]


_TRIED: Final = ("job", *ATTEMPT)


def histories(known: Lookup, query: q.GetHistories) -> Steps[list[list[Attempt]]]:
    """Return what was tried with jobs."""
    ids, workers = query.ids, known.workers
    values = {"ids": sorted({id for id in ids if in_range(id)})}
    before, last, now = yield (
        Rows(
            " ".join(_TRIED),
            f"SELECT {listed(_TRIED, 'a')} FROM attempt a WHERE a.job {{in ids}} ORDER BY a.job, a.claim",
            values,
        ),
        Select(
            f"SELECT j.id, {listed(ATTEMPT, 'j', claim='j.claims')}, j.result FROM finished j WHERE j.id {{in ids}}",
            values,
        ),
        Rows(
            "id claims unspent started next worker now",
            "SELECT j.id, j.claims, j.unspent, j.started, j.next, j.worker, {now} AS now FROM job j "
            "WHERE j.id {in ids} AND j.state = 1",
            values,
        ),
    )
    named = {row[6] for row in (*before, *last)} | {row[5] for row in now}
    numbered = yield from _workers(workers, named - {None})
    found: dict[int, list[Attempt]] = {}
    for job, claim, attempt, started, ended, outcome, worker, error, *result in (*before, *last):
        kept = None if not result or result[0] is None else bytes(result[0])
        one = Attempt(claim, attempt, started, ended, OUTCOMES[outcome], numbered.get(worker), error, kept)
        found.setdefault(job, []).append(one)
    for job, claims, unspent, started, lease, worker, moment in now:
        over = moment >= lease
        lost = Outcome.LOST if over else None
        attempt = Attempt(claims, claims - unspent, started, lease if over else None, lost, numbered.get(worker), None)
        found.setdefault(job, []).append(attempt)
    return [found.get(id, []) for id in ids]


def _workers(workers: Names, numbers: Iterable[int]) -> Steps[Mapping[int, str]]:
    missing = sorted(number for number in numbers if number not in workers.names)
    if missing:
        [rows] = yield (Rows("id name", "SELECT id, name FROM worker WHERE id {in ids}", {"ids": missing}),)
        workers.learn({name: number for number, name in rows})
    return workers.names


# ---- topics ---------------------------------------------------------------------------------------------------------


def topics(known: Lookup, query: q.ListTopics) -> Steps[list[Topic]]:  # noqa: ARG001  (as all that reads)
    """Return all topics, by name."""
    found = yield from _all_topics(known.topics)
    return [Topic(name, bool(paused), tuple(p for p in priorities(lanes) if p)) for _, name, paused, lanes in found]


def _all_topics(known: Names) -> Steps[Sequence[Any]]:
    [rows] = yield (Rows("id name paused lanes", "SELECT id, name, paused, lanes FROM topic ORDER BY name"),)
    known.learn({name: number for number, name, _, _ in rows})
    for number, _, _, lanes in rows:
        known.lanes[number] = lanes
    return sorted(rows, key=lambda row: row[1])


@lru_cache
def priorities_of(lanes: int) -> Sequence[int]:
    """Return the priorities that a topic's jobs may have, the highest first."""
    return tuple(sorted({*priorities(lanes), 0}, reverse=True))


def counts(known: Lookup, query: q.CountJobs) -> Steps[dict[str, Counts]]:  # noqa: ARG001  (as all that reads)
    """Return the counts of each topic."""
    running = Rows(
        "topic begun lapsed spent jobs",
        "SELECT topic, begun, lapsed, spent, count(*) AS jobs FROM (SELECT j.topic, j.begun, CASE WHEN j.next <= {now} "
        "THEN 1 ELSE 0 END AS lapsed, CASE WHEN j.claims - j.unspent >= j.tries THEN 1 ELSE 0 END AS spent "
        "FROM job j WHERE j.state = 1) r GROUP BY topic, begun, lapsed, spent",
    )
    [rows, runs, *sums] = yield (Rows("id name", "SELECT id, name FROM topic ORDER BY name"), running, *known.tallies)
    known.topics.learn({name: number for number, name in rows})
    columns: dict[int, list[int]] = {number: [0, 0, 0, 0] for number, _ in rows}
    for tally in sums:
        for topic, *jobs in tally:
            if topic in columns:  # else its jobs are of no topic, which `verify` tells
                columns[topic] = [before + int(more) for before, more in zip(columns[topic], jobs, strict=True)]
    found = {number: Counts(live, 0, done, dead, gone) for number, (live, done, gone, dead) in columns.items()}
    for topic, begun, lapsed, spent, jobs in runs:
        if topic not in found:
            continue
        # As far as `lifecycle` asks, all of them are like this one.
        run = Run(0, spent, bool(begun), 0 if lapsed else 2, 1, 0)
        found[topic] = _plus(_plus(found[topic], State.DELAYED, -jobs), lifecycle.seen(run, 1), jobs)
    return {name: found[number] for number, name in sorted(rows, key=lambda row: row[1])}


def _plus(counts: Counts, state: State, jobs: int) -> Counts:
    return counts._replace(**{state.value: getattr(counts, state.value) + jobs})


def claims(known: Lookup, query: q.ListClaims) -> Steps[list[tuple[int, int]]]:  # noqa: ARG001  (as all that reads)
    """Return the receipts of all jobs that run for a worker."""
    text = "SELECT j.id, j.claims FROM worker n {then} job j ON j.state = 1 AND j.worker = n.id WHERE n.name = :name"
    [rows] = yield (Rows("id claims", text, {"name": query.worker}),)
    return [(id, claims) for id, claims in rows]


# ---- for workers ----------------------------------------------------------------------------------------------------


_FIRST: Final = (
    "SELECT j.next FROM job j WHERE j.state = 0 AND j.topic = {topic} AND j.priority = {priority} "
    "ORDER BY j.next, j.id LIMIT 1"
)


def next_dues(lookup: Lookup, query: q.GetNextDues) -> Steps[dict[str, int]]:
    """Return when the first delayed job of each topic is due, of some that are not paused, or of all."""
    known, topics = lookup.topics, query.topics
    paused = topics is None
    if topics is None or not all(topic in known.numbers for topic in topics):
        yield from _all_topics(known)
    topics = sorted(known.numbers) if topics is None else topics
    named = {known.numbers[topic]: topic for topic in topics if topic in known.numbers}
    first = _FIRST.format(topic="t.id", priority=0)
    unpaused = "" if paused else "t.paused = 0 AND"
    text = f"SELECT t.id, t.lanes, ({first}) AS next FROM topic t WHERE {unpaused} t.id {{in topics}}"
    [rows] = yield (Rows("id lanes next", text, {"topics": sorted(named)}),)
    found = [(number, due) for number, _, due in rows]
    lanes = [(number, priority) for number, lanes, _ in rows for priority in priorities_of(lanes) if priority]
    if lanes:
        look = _FIRST.format(topic=":topic", priority=":priority")
        others = yield tuple(Rows("next", look, {"topic": number, "priority": one}) for number, one in lanes)
        found += [(number, due) for (number, _), some in zip(lanes, others, strict=True) for [due] in some]
    dues: dict[str, int] = {}
    for number, due in found:
        if due is not None:
            dues[named[number]] = min(due, dues.get(named[number], due))
    return dues


def first_due(known: Lookup, query: q.ListFirstDue) -> Steps[list[Due]]:  # noqa: ARG001  (as all that reads)
    """Return the first jobs of a topic that are due, by priority, unless it is paused."""
    found: list[Due] = []
    topic, limit = query.topic, query.limit
    named = "SELECT t.id, t.lanes FROM topic t WHERE t.name = :topic AND t.paused = 0"
    [topics] = yield (Rows("id lanes", named, {"topic": topic}),)
    text = (
        "SELECT j.next, j.id FROM job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority "
        "AND j.next <= {now} ORDER BY j.next, j.id LIMIT :most"
    )
    for number, lanes in topics:
        for priority in priorities_of(lanes):
            values = {"topic": number, "priority": priority, "most": max(clamped(limit) - len(found), 0)}
            [rows] = yield (Rows("next id", text, values),)
            found += [Due(due, id, topic, priority) for due, id in rows]
    return found
