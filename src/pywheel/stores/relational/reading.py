"""Records and lists, from the rows of a database: what readers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from ...jobs import lifecycle
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Job, Outcome, State, shard_of
from ...jobs.lifecycle import Run
from ..checks import clamped
from ..contract import Filter, Span
from .part import FINISHED, OUTCOMES, Part, Place

__all__ = ["attempts", "counted", "found", "listed", "records", "states", "with_lost"]

_PAGE: Final = 20  # jobs read at once, at least
_LOOSE: Final = 200  # the same where most of them may not fit
_LARGEST: Final = 1_000
_MOST: Final = 2**31


def part_of(rows: Iterable[Sequence[Any]], names: Mapping[int, str], now: int) -> Part:
    """Return the part of a store that these rows are, for reading. A row: what all have, the place, the rest."""
    part = Part(now, iter(()), float)
    loads = {
        Place.DUE: lambda row: part.load_due([row[:16]], names),
        Place.RUN: lambda row: part.load_run([(*row[:16], *row[17:24])], names),
        Place.FINISHED: lambda row: part.load_finished([(*row[:16], *row[24:31])], names),
    }
    for row in rows:
        loads[row[16]](row)
    return part


def records(rows: Iterable[Sequence[Any]], names: Mapping[int, str], now: int) -> list[Job]:
    """Return the jobs, by id, as they are at a moment."""
    part = part_of(rows, names, now)
    return sorted((part._record(entry) for entry in part.read.values()), key=itemgetter(0))


def found(rows: Iterable[Sequence[Any]], names: Mapping[int, str], now: int, ref: Ref) -> Job | None:
    """Return the job that a reference means among these."""
    part = part_of(rows, names, now)
    entry = part._find(ref)
    return None if entry is None else part._record(entry)


def attempts(
    ids: Sequence[int],
    rows: Iterable[Sequence[Any]],
    names: Mapping[int, str],
    now: int,
    earlier: Iterable[Sequence[Any]],
) -> list[list[Attempt]]:
    """Return what was tried with jobs, as far as they are in the rows.

    `earlier` are the rows of their histories, and of claim 0 their results.
    """
    told: dict[int, list[Attempt]] = {id: [] for id in ids}
    results: dict[int, bytes] = {}
    for id, claim, attempt, started, ended, outcome, worker, error, result in earlier:
        if claim:
            told[id].append(Attempt(claim, attempt, started, ended, OUTCOMES[outcome], worker, error))
        else:
            results[id] = bytes(result)
    for job in part_of(rows, names, now).read.values():
        run = job.run
        if run is not None:
            over = now >= run.lease
            lost = Outcome.LOST if over else None
            ended = run.lease if over else None
            told[job.id].append(Attempt(run.claim, run.attempt, job.started, ended, lost, job.worker, None))
        elif job.last is not None:
            told[job.id].append(job.last._replace(result=results.get(job.id)))
    return [told[id] for id in ids]


def states(ids: Sequence[int], rows: Iterable[Sequence[Any]], now: int) -> list[State | None]:
    """Return the states of jobs. A row: id, the place, attempt, begun, lease, max_attempts, the number if finished."""
    found: dict[int, State] = {}
    for id, place, attempt, begun, lease, most, finished in rows:
        if place == Place.RUN:
            found[id] = lifecycle.seen(Run(0, attempt, bool(begun), lease, most, 0), now)
        else:
            found[id] = State.DELAYED if place == Place.DUE else FINISHED[finished]
    return [found.get(id) for id in ids]


def listed(page: Callable[[State | None, int, int], list[Job]], filter: Filter, after: int, limit: int) -> list[Job]:
    """Return up to `limit` jobs behind an id. `page` gives the next that may be meant: all there are if fewer."""
    limit = max(min(clamped(limit), _MOST), 0)
    loose = filter.due_from is not None or filter.due_until is not None or filter.error is not None
    after = max(clamped(after), 0)
    jobs: list[Job] = []
    while len(jobs) < limit:
        size = min(max(limit - len(jobs), _LOOSE if loose else _PAGE), _LARGEST)
        some = page(filter.state, after, size)
        jobs += [job for job in some if filter.fits(job)]
        if len(some) < size:
            break
        after = some[-1].id
    return jobs[:limit]


def counted(rows: Iterable[Sequence[Any]], now: int) -> dict[str, Counts]:
    """Return the counts by topic. A row: topic, live, done, dead, cancelled; running by begun, over, spent, jobs."""
    counts = {}
    for topic, live, done, dead, cancelled, running in rows:
        found = counts[topic] = Counts(live or 0, 0, done or 0, dead or 0, cancelled or 0)
        if not running:
            continue
        states = dict(zip(State, found, strict=True))
        for begun, over, spent, jobs in running:
            # As far as `lifecycle` asks, all of them are like this one.
            run = Run(0, spent, bool(begun), now if over else now + 1, 1, 0)
            states[State.DELAYED] -= jobs
            states[lifecycle.seen(run, now)] += jobs
        counts[topic] = Counts(*states.values())
    return counts


def with_lost(
    dues: list[int | None], spans: Sequence[Span], numbers: Sequence[int | None], lost: Iterable[Sequence[Any]]
) -> list[int | None]:
    """Return the first due times of spans, with those of jobs whose lease is over and that nobody has expired.

    A row: id, topic, claims, attempt, begun, lease, max_attempts, backoff, due.
    """
    for id, topic, claims, attempt, begun, lease, most, backoff, due in lost:
        ending = lifecycle.lost(Run(claims, attempt, bool(begun), lease, most, backoff))
        again = due if ending.due is None else ending.due
        if ending.state is State.DELAYED:
            for place, (span, number) in enumerate(zip(spans, numbers, strict=True)):
                if number == topic and span.shards >> shard_of(id) & 1 and again > span.until:
                    first = dues[place]
                    dues[place] = again if first is None else min(again, first)
    return dues
