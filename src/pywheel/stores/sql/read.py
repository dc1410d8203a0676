"""Reading: jobs, counts, histories, and the queries of workers. A lease that is over counts as ended."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from operator import add
from typing import Any, Final

from ...jobs import lifecycle
from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, Outcome, State, Topic
from ...jobs.lifecycle import Run
from ...jobs.limits import priorities
from ..checks import IDS, clamped
from .rows import ATTEMPT, DUE, HEAD, job_of, listed, run_of
from .schema import ENDED, FINISHED, OUTCOMES
from .statement import Insert, Rows, Select, Steps
from .transaction import Lookup, Names, Taken

NAMED: Final = "j.topic = :topic AND j.key = :key AND j.key IS NOT NULL"
PASSED_LAPSED: Final = f"{NAMED} AND j.passed = 1 AND j.state = 1 AND j.next <= {{now}}"
"""Whether a job has handed its key on and its lease is over: readers see it as ended."""
LAST_ERROR: Final = (
    "CASE WHEN j.claims > 0 THEN coalesce(j.error, (SELECT a.error FROM attempt a WHERE a.job = j.id "
    "AND a.error IS NOT NULL ORDER BY a.claim DESC LIMIT 1)) END"
)
"""The last error of a finished job: of its last attempt or of an earlier one."""
_NOT_RUNNING: Final = dict.fromkeys(("next", "begun", "backoff"), "0")
_LIVE_HEAD: Final = f"SELECT {listed(HEAD, 'j', due=DUE)}, {{now}} AS now"
_ENDED_HEAD: Final = (
    f"SELECT {listed(HEAD, 'j', state=f'j.state + {ENDED}', error=LAST_ERROR, **_NOT_RUNNING)}, {{now}} AS now"
)
_WITH_BODY, _WITH_SIZE = (
    (f"{' '.join(HEAD)} now {name}", f"{_LIVE_HEAD}, {column} AS {name}", f"{_ENDED_HEAD}, {column} AS {name}")
    for name, column in (("body", "j.body"), ("size", "length(j.body)"))
)
_WHOLE, _LIVE, _ENDED = _WITH_BODY


def number_of(topics: Names, name: str) -> Steps[int | None]:
    """Return the number of a topic, None if there is no such topic."""
    if name not in topics.numbers:
        yield from topics.rows(name)
    return topics.numbers.get(name)


# ---- jobs -----------------------------------------------------------------------------------------------------------


def job(known: Lookup, query: q.GetJob) -> Steps[Job | None]:
    """Return a job, or None."""
    topics, ref = known.topics, query.ref
    if isinstance(ref, int):
        found = (yield from jobs_of(topics, [ref])) if ref in IDS else []
        return found[0] if found else None
    number = yield from number_of(topics, ref[0])
    if number is None:
        return None
    values = {"topic": number, "key": ref[1]}
    live, ended = yield (
        Rows(_WHOLE, f"{_LIVE} FROM job j WHERE {NAMED} AND j.passed = 0", values),
        Rows(_WHOLE, f"{_ENDED} FROM finished j WHERE {NAMED} ORDER BY j.id DESC LIMIT 1", values),
    )
    labels = {number: ref[0]}
    found = [job_of(row, labels, row[-1]) for row in live]
    if found and found[0].state.live:
        return found[0]
    [rows] = yield (Rows(_WHOLE, f"{_LIVE} FROM job j WHERE {PASSED_LAPSED}", values),)
    found += [job_of(row, labels, row[-1]) for row in (*ended, *rows)]
    return max((job for job in found if not job.state.live), key=lambda job: job.id, default=None)


@lru_cache
def _by_id(table: str, select: str) -> str:
    return f"{select} FROM {table} j WHERE j.id {{in ids}}"


def found_in(columns: str, live: str, ended: str, values: Mapping[str, Any]) -> Steps[dict[int, Sequence[Any]]]:
    """Return the rows of the jobs with some ids, by id. A live row hides a finished one."""
    rows = yield (Rows(columns, _by_id("job", live), values), Rows(columns, _by_id("finished", ended), values))
    return {row[0]: row for part in reversed(rows) for row in part}


def _found(
    topics: Names, ids: Sequence[int], what: tuple[str, str, str]
) -> Steps[tuple[Sequence[Sequence[Any]], Mapping[int, str]]]:
    """Return the rows of jobs in the order of `ids`, and the names of their topics."""
    found = yield from found_in(*what, {"ids": sorted(ids)})
    return [found[id] for id in ids if id in found], (yield from topics.named(row[1] for row in found.values()))


def jobs_of(topics: Names, ids: Sequence[int]) -> Steps[list[Job]]:
    """Return the jobs with these ids, in their order."""
    rows, named = (yield from _found(topics, ids, _WITH_BODY)) if ids else ((), {})
    return [job_of(row, named, row[-1]) for row in rows]


def heads(topics: Names, ids: Sequence[int]) -> Steps[list[tuple[Job, int]]]:
    """Return jobs without their bodies, each with its body's size, in the order of `ids`."""
    rows, named = yield from _found(topics, ids, _WITH_SIZE)
    return [(job_of(row, named), row[-1]) for row in rows]


def there(ids: Sequence[int]) -> Steps[dict[int, int]]:
    """Return the due times of the jobs that exist among these ids, by id."""
    live, ended = f"SELECT j.id, {DUE} AS due", "SELECT j.id, j.due"
    rows = yield from found_in("id due", live, ended, {"ids": sorted(ids)})
    return {id: row[1] for id, row in rows.items()}


_OF_PUT: Final = ("id", "topic", "key", "body")


def stored(insert: Insert) -> Steps[list[int]]:
    """Return the ids of the new jobs that are stored. Taken: another's job has one of their ids.

    That may be so after a restart on an older state. Others' jobs are told by what is in them.
    """
    select = f"SELECT {listed(_OF_PUT, 'j')}"
    values = {"ids": sorted(row[0] for row in insert.rows)}
    found = yield from found_in(" ".join(_OF_PUT), select, select, values)
    new = {row[0]: dict(zip(insert.columns, row, strict=True)) for row in insert.rows}
    if any(row != tuple(map(new[id].get, _OF_PUT)) for id, row in found.items()):
        raise Taken
    return sorted(found)


def states(known: Lookup, query: q.GetStates) -> Steps[list[State | None]]:  # noqa: ARG001  (as all readers)
    """Return the states of jobs."""
    ids = query.ids
    values = {"ids": sorted({id for id in ids if id in IDS})}
    columns = "id state claims unspent next begun backoff"
    text = f"SELECT {listed(columns.split(), 'j')}, {{now}} AS now FROM job j WHERE j.id {{in ids}}"
    finished = Rows("id state", "SELECT j.id, j.state FROM finished j WHERE j.id {in ids}", values)
    live, ended = yield (Rows(f"{columns} now", text, values), finished)
    found = {id: FINISHED[state] for id, state in ended}
    for id, state, claims, unspent, next_, begun, backoff, now in live:
        run = run_of(claims, lifecycle.attempts(claims, unspent), begun, next_, backoff)
        found[id] = lifecycle.seen(run, now) if state else State.DELAYED
    return [found.get(id) for id in ids]


_TRIED: Final = ("job", *ATTEMPT)
_TRIES: Final = f"SELECT {listed(_TRIED, 'a')} FROM attempt a WHERE a.job {{in ids}} ORDER BY a.job, a.claim"
_LAST_ONES: Final = (
    f"SELECT j.id, {listed(ATTEMPT, 'j', claim='j.claims')}, j.result FROM finished j WHERE j.id {{in ids}}"
)
_RUNNING: Final = "id claims unspent started next worker"
_NOW: Final = (
    f"SELECT {listed(_RUNNING.split(), 'j')}, {{now}} AS now FROM job j WHERE j.id {{in ids}} AND +j.state = 1"
)


def histories(known: Lookup, query: q.GetHistories) -> Steps[list[list[Attempt]]]:
    """Return the attempts of jobs."""
    ids, workers = query.ids, known.workers
    values = {"ids": sorted({id for id in ids if id in IDS})}
    before, last, now = yield (
        Rows(" ".join(_TRIED), _TRIES, values),
        Select(_LAST_ONES, values),
        Rows(f"{_RUNNING} now", _NOW, values),
    )
    named = {row[6] for row in (*before, *last)} | {row[5] for row in now}
    numbered = yield from workers.named(named)
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


# ---- topics ---------------------------------------------------------------------------------------------------------


def topics(known: Lookup, _: q.ListTopics) -> Steps[list[Topic]]:
    """Return all topics, by name."""
    found = yield from known.topics.rows()
    return [Topic(name, bool(paused), _others(lanes)) for _, name, paused, lanes in found]


@lru_cache
def _others(lanes: int) -> tuple[int, ...]:
    return tuple(priority for priority in priorities(lanes) if priority)


@lru_cache
def priorities_of(lanes: int) -> Sequence[int]:
    """Return the priorities that a topic's jobs may have, the highest first."""
    return tuple(sorted({*priorities(lanes), 0}, reverse=True))


def priorities_in(topics: Names, topic: str | None) -> Steps[list[tuple[int, int]]]:
    """Return pairs of a topic and a priority that its jobs may have, of one topic or of all."""
    rows = yield from topics.rows(topic)
    return [(number, priority) for number, _, _, lanes in rows for priority in priorities_of(lanes)]


def counts(known: Lookup, query: q.CountJobs) -> Steps[dict[str, Counts]]:  # noqa: ARG001  (as all readers)
    """Return the counts of each topic."""
    running = Rows(
        "topic begun lapsed spent jobs",
        "SELECT topic, begun, lapsed, spent, count(*) AS jobs FROM (SELECT j.topic, j.begun, CASE WHEN j.next <= {now} "
        "THEN 1 ELSE 0 END AS lapsed, CASE WHEN j.backoff IS NULL THEN 1 ELSE 0 END AS spent "
        "FROM job j WHERE j.state = 1) r GROUP BY topic, begun, lapsed, spent",
    )
    [rows, runs, *sums] = yield (Rows("id name", "SELECT id, name FROM topic ORDER BY name"), running, *known.tallies)
    known.topics.learn({name: number for number, name in rows})
    found = {number: Counts() for number, _ in rows}
    for topic, *jobs in chain.from_iterable(sums):
        if topic in found:  # else the topic does not exist, a fault that `verify` finds
            delayed, done, cancelled, dead = map(int, jobs)
            found[topic] = _more(found[topic], Counts(delayed, 0, done, dead, cancelled))
    for topic, begun, lapsed, spent, jobs in runs:
        if topic in found:
            # `lifecycle` treats all of these jobs alike.
            state = lifecycle.seen(Run(0, spent, bool(begun), 0 if lapsed else 2, 1, 0), 1)
            found[topic] = _more(_more(found[topic], Counts(-jobs)), Counts(**{state.value: jobs}))
    named = known.topics.names  # reuses the strings that are in memory
    return {named.get(number, name): found[number] for number, name in sorted(rows, key=lambda row: row[1])}


def _more(counts: Counts, others: Counts) -> Counts:
    return Counts(*map(add, counts, others))


def claims(known: Lookup, query: q.ListClaims) -> Steps[list[tuple[int, int]]]:  # noqa: ARG001  (as all readers)
    """Return the receipts of all running jobs of a worker."""
    text = "SELECT j.id, j.claims FROM worker n {each job j: j.state = 1 AND j.worker = n.id} WHERE n.name = :name"
    [rows] = yield (Rows("id claims", text, {"name": query.worker}),)
    return [(id, claims) for id, claims in rows]


# ---- for workers ----------------------------------------------------------------------------------------------------


_FIRST: Final = (
    "SELECT j.next FROM job j WHERE j.state = 0 AND j.topic = {topic} AND j.priority = {priority} "
    "AND j.next >= w.next ORDER BY j.next, j.id LIMIT 1"
)


def next_dues(lookup: Lookup, query: q.GetNextDues) -> Steps[dict[str, int]]:
    """Return the first due time of each topic's delayed jobs, of some topics that are not paused, or of all."""
    known, topics = lookup.topics, query.topics
    if topics is None or not all(topic in known.numbers for topic in topics):
        yield from known.rows()
    names = list(known.numbers) if topics is None else [topic for topic in topics if topic in known.numbers]
    since = {known.numbers[topic]: known.look_from(topic) for topic in names}
    unpaused = "" if topics is None else "AND t.paused = 0"
    first = _FIRST.format(topic="t.id", priority=0)
    text = f"SELECT t.id, t.lanes, ({first}) AS next FROM {{w: id, next}} {{then}} topic t ON t.id = w.id {unpaused}"
    [rows] = yield (Rows("id lanes next", text, {"w": sorted(since.items())}),)
    found = [(number, due) for number, _, due in rows]
    lanes = [(number, one, since[number]) for number, lanes, _ in rows for one in priorities_of(lanes) if one]
    if lanes:
        first = _FIRST.format(topic="w.topic", priority="w.priority")
        text = f"SELECT w.topic, ({first}) AS next FROM {{w: topic, priority, next}}"
        [others] = yield (Rows("topic next", text, {"w": lanes}),)
        found += others
    named = yield from known.named(number for number, _ in found)
    dues: dict[str, int] = {}
    for number, due in found:
        if due is not None:
            known.heads.changed(number, due)
            dues[named[number]] = min(due, dues.get(named[number], due))
    return dues


def first_due(known: Lookup, query: q.ListFirstDue) -> Steps[list[Due]]:
    """Return the first due jobs of a topic, by priority; none if the topic is paused."""
    found: list[Due] = []
    text = (
        "SELECT j.next, j.id FROM job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority "
        "AND j.next <= {now} ORDER BY j.next, j.id LIMIT :most"
    )
    for number, topic, paused, lanes in (yield from known.topics.rows(query.topic)):
        for priority in () if paused else priorities_of(lanes):
            values = {"topic": number, "priority": priority, "most": max(clamped(query.limit) - len(found), 0)}
            [rows] = yield (Rows("next id", text, values),)
            found += [Due(due, id, topic, priority) for due, id in rows]
    return found


# ---- forecasts ------------------------------------------------------------------------------------------------------

_TOGETHER: Final = 256  # topics with a priority each that are read at once
_READ: Final = q.FORECAST_MOST // 2  # jobs that are read in all
_DUES: Final = (
    "SELECT j.next FROM {w: topic, priority} {each job j: j.state = 0 AND j.topic = w.topic "
    "AND j.priority = w.priority AND j.next >= :first AND j.next < :end} LIMIT :most"
)
_COUNT: Final = f"SELECT count(*) FROM ({_DUES}) c"


def forecast(known: Lookup, query: q.GetForecast) -> Steps[list[int]]:
    """Return the number of delayed jobs that are due between each two edges, in a bounded time.

    One query reads the jobs of many topics, up to a limit. Only beyond it are they counted edge by edge.
    """
    spans, cap = list(pairwise(query.edges)), query.cap
    found = [0] * len(spans)
    groups = yield from priorities_in(known.topics, query.topic)
    parts = [groups[at : at + _TOGETHER] for at in range(0, len(groups), _TOGETHER)]
    for part in parts:
        places = [place for place, jobs in enumerate(found) if jobs < cap]
        if not places:
            break

        def values(first: int, end: int, most: int, part: Any = part) -> dict[str, Any]:
            return {"w": part, "first": first, "end": end, "most": most}

        most = _READ // len(parts)
        [rows] = yield (Rows("next", _DUES, values(spans[places[0]][0], spans[places[-1]][1], most)),)
        if len(rows) < most:
            dues = sorted([due for [due] in rows])
            counts = [bisect_left(dues, spans[place][1]) - bisect_left(dues, spans[place][0]) for place in places]
        else:
            counted = yield [Select(_COUNT, values(*spans[place], cap)) for place in places]
            counts = [jobs for [[jobs]] in counted]
        for place, jobs in zip(places, counts, strict=True):
            found[place] = min(found[place] + jobs, cap)
    return found
