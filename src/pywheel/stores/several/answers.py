"""The answers of several stores made one: each is asked for its part, those with a key or an id alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import clamped, note_name
from ..pages import BYTES, Asked, Position, asked, latest
from .ids import Ids
from .parts import outer_dues, outer_job

if TYPE_CHECKING:
    from .store import SeveralStore

__all__ = ["ANSWERS"]

R = TypeVar("R")


def _job(store: SeveralStore, query: q.GetJob) -> Job | None:
    place, ref = store.ids.of(query.ref)
    job = store.stores[place].ask(q.GetJob(ref))
    return None if job is None else outer_job(store.ids, place, job)


def _with_jobs_of(store: SeveralStore, filter: q.Filter) -> Sequence[int]:
    """Return the stores that may have the jobs of a filter: one has all that ever had a topic's key."""
    if filter.topic is None or filter.key is None:
        return range(len(store.stores))
    return [store.ids.of_key(filter.topic, filter.key)]


def _jobs(store: SeveralStore, query: q.ListJobs) -> list[Job]:
    ids, after = store.ids, clamped(query.after)
    queries = {place: replace(query, after=ids.after(place, after)) for place in _with_jobs_of(store, query.filter)}
    answers = zip(queries, store.ask_some(queries), strict=True)
    found = [outer_job(ids, place, job) for place, some in answers for job in some]
    return sorted(found)[: max(query.limit, 0)] if len(queries) > 1 else found


def _of_each(store: SeveralStore, ids: Sequence[int], query: Callable[[list[int]], q.Query[list[R]]]) -> list[R]:
    """Return what each store says of its jobs, in the order of the ids. Each store is asked once."""
    where = store.ids.split(ids)
    queries = {
        place: query([inner for other, inner in where if other == place])
        for place in dict.fromkeys(p for p, _ in where)
    }
    found = {place: iter(answer) for place, answer in zip(queries, store.ask_some(queries), strict=True)}
    return [next(found[place]) for place, _ in where]


def _histories(store: SeveralStore, query: q.GetHistories) -> list[list[Attempt]]:
    return _of_each(store, query.ids, q.GetHistories)


def _states(store: SeveralStore, query: q.GetStates) -> list[State | None]:
    return _of_each(store, query.ids, q.GetStates)


def _counts(store: SeveralStore, query: q.CountJobs) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    for topic, numbers in chain.from_iterable(counts.items() for counts in store.ask_each(query)):
        found[topic] = Counts(*map(sum, zip(found.get(topic, Counts()), numbers, strict=True)))
    return dict(sorted(found.items()))


def _topics(store: SeveralStore, query: q.ListTopics) -> list[Topic]:
    """Return all topics. One that is paused in some store is paused."""
    found: dict[str, Topic] = {}
    for name, paused, some in chain.from_iterable(store.ask_each(query)):
        before = found.get(name, Topic(name, paused=False))
        both = sorted({*before.priorities, *some}, reverse=True)
        found[name] = Topic(name, before.paused or paused, tuple(both))
    return sorted(found.values())


def _forecast(store: SeveralStore, query: q.GetForecast) -> list[int]:
    return [min(sum(jobs), query.most) for jobs in zip(*store.ask_each(query), strict=True)]


def _ended(store: SeveralStore, query: q.ListEnded) -> list[q.Ended]:
    outer, found = store.ids.outer, enumerate(store.ask_each(query))
    return latest((one._replace(id=outer(place, one.id)) for place, some in found for one in some), query.most)


def _note(store: SeveralStore, query: q.GetNote) -> bytes | None:
    note_name(query.name)
    return store.stores[store.ids.of_note(query.name)].ask(query)


def _notes(store: SeveralStore, query: q.ListNotes) -> list[tuple[str, bytes]]:
    return sorted(chain.from_iterable(store.ask_each(query)))[: max(clamped(query.limit), 0)]


# A worker goes on with the stores that are there: it asks again within a second.


def _next_lease(store: SeveralStore, query: q.GetNextLease) -> int | None:
    return min((end for end in store.ask_present(query) if end is not None), default=None)


def _next_dues(store: SeveralStore, query: q.GetNextDues) -> dict[str, int]:
    found: dict[str, int] = {}
    for topic, due in chain.from_iterable(dues.items() for dues in store.ask_present(query)):
        found[topic] = min(due, found.get(topic, due))
    return found


def _first_due(store: SeveralStore, query: q.ListFirstDue) -> list[Due]:
    found = enumerate(store.ask_each(query))
    jobs = (due for place, some in found for due in outer_dues(store.ids, place, some))
    return sorted(jobs, key=lambda due: (-due.priority, due.due, due.id))[: max(query.limit, 0)]


def _claims(store: SeveralStore, query: q.ListClaims) -> list[tuple[int, int]]:
    found = enumerate(store.ask_each(query))
    return [(store.ids.outer(place, id), claims) for place, some in found for id, claims in some]


def _workers(store: SeveralStore, query: q.ListWorkers) -> list[q.Member]:
    return store.stores[0].ask(query)


# ---- pages ----------------------------------------------------------------------------------------------------------


def _page(store: SeveralStore, query: q.GetPage) -> q.Page:
    """Return a page: each store is asked for one, and they are merged as far as all were looked through."""
    ids, wanted = store.ids, asked(query)
    pages = {
        place: replace(query, after=wanted.cursor(_inner(ids, place, wanted)))
        for place in _with_jobs_of(store, query.filter)
    }
    parts: list[list[Any]] = []
    ends: list[Position] = []
    for number, found in zip(pages, store.ask_some(pages), strict=True):
        jobs = [outer_job(ids, number, job) for job in found.jobs]
        parts.append([(wanted.place(job), job, size) for job, size in zip(jobs, found.sizes, strict=True)])
        if found.next is not None:
            last = asked(replace(query, after=found.next)).after
            ends.append(last._replace(id=ids.outer(number, last.id)))
    # Behind this some store was not looked through.
    end: Position | None = None if not ends else max(ends) if query.newest else min(ends)
    merged = merge(*parts, key=lambda one: one[0], reverse=query.newest)
    reached = [one for one in merged if end is None or (one[0] >= end if query.newest else one[0] <= end)]
    taken = list(islice(reached, _most(reached, query.limit)))
    if len(taken) < len(reached):
        end = taken[-1][0]
    return q.Page(
        [job for _, job, _ in taken], None if end is None else wanted.cursor(end), [size for *_, size in taken]
    )


def _most(found: Sequence[Any], limit: int) -> int:
    """Return how many of these a page may hold."""
    held = 0
    for place, (_, job, _) in enumerate(found[:limit]):
        held += len(job.body)
        if held >= BYTES:
            return place + 1
    return limit


def _inner(ids: Ids, store: int, wanted: Asked) -> Position:
    """Return the place in one store behind which its jobs are those behind a place for everybody."""
    due, id = wanted.after
    return Position(due, ids.after(store, id - 1) + 1 if wanted.newest else max(ids.after(store, id), 0))


ANSWERS: Final[dict[type, Callable[[SeveralStore, Any], Any]]] = {
    q.GetJob: _job,
    q.ListJobs: _jobs,
    q.GetPage: _page,
    q.GetHistories: _histories,
    q.GetStates: _states,
    q.CountJobs: _counts,
    q.ListTopics: _topics,
    q.GetForecast: _forecast,
    q.ListEnded: _ended,
    q.GetNote: _note,
    q.ListNotes: _notes,
    q.GetNextLease: _next_lease,
    q.GetNextDues: _next_dues,
    q.ListFirstDue: _first_due,
    q.ListClaims: _claims,
    q.ListWorkers: _workers,
}
