"""Commands for several stores: what of each goes to which store, and one outcome made of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import count
from operator import attrgetter
from typing import Any, Final

from ..._errors import JobExists, PywheelError, StoreError
from ...jobs import commands as c
from ...jobs.job import Due, Job, NewJob
from .ids import Ids

__all__ = [
    "Answers",
    "Part",
    "Round",
    "claimed",
    "inner_put",
    "new_jobs",
    "noted",
    "order",
    "outer_dues",
    "outer_error",
    "outer_ids",
    "outer_job",
    "part_of",
    "parts",
    "suspects_turn",
    "turn",
]

Answers = dict[int, "list[Any] | StoreError"]
"""By store, the outcomes of its commands, or why there are none."""
Part = tuple[int, c.Command[Any]]
_NOTED: Final = -2
_new: Final = tuple.__new__  # of a named tuple: without the function that its own is
_AGAIN: Final = 100  # ms until what could not be asked for is tried again
suspects_turn: Final = count()
"""Whose turn it is to try a suspect."""


def turn(job: Job) -> tuple[int, int, int]:
    """Return what due jobs are ordered by."""
    return -job.priority, job.due, job.id


def order(due: Due, now: int) -> tuple[bool, int, Due]:
    """Return what delayed jobs are ordered by: those that are due as they are claimed, then the others."""
    early = due.due > now
    return early, 0 if early else -due.priority, due


class Round:
    """Commands that go out at once, each to one store or to some of them. On the way of every job: it is quick."""

    def __init__(self, ids: Ids, now: int) -> None:
        self._ids = ids
        self._now = now
        self.batches: dict[int, list[c.Command[Any]]] = {}
        """The commands for each store, in order."""
        self._asked: list[tuple[c.Command[Any], list[tuple[int, int]]]] = []

    def add(self, command: c.Command[Any], parts: Sequence[Part]) -> None:
        """Add a command, as the stores are to get it."""
        batches = self.batches
        places = []
        for store, part in parts:
            if store not in batches:
                batches[store] = []
            batch = batches[store]
            places.append((store, len(batch)))
            batch.append(part)
        self._asked.append((command, places))

    def outcomes(self, answers: Answers) -> Iterator[Any]:
        """Yield the outcomes of the commands, in order."""
        for command, places in self._asked:
            if len(places) == 1:
                store, place = places[0]
                answer = answers[store]
                outcome = answer[place] if type(answer) is list else answer
                if outcome is True:  # as most of them are
                    yield outcome
                    continue
                found = [(store, outcome)]
            else:
                found = [(store, _outcome(answers[store], place)) for store, place in places]
            yield _merged(self._ids, command, found, self._now)


def _outcome(answer: list[Any] | StoreError, place: int) -> Any:
    return answer if isinstance(answer, StoreError) else answer[place]


def parts(ids: Ids, command: c.Command[Any]) -> list[Part] | None:
    """Return what each store is to do of a command that is no put; None if that takes several steps."""
    if isinstance(command, c.Claim) and (command.limit > 0 or command.policy.limits is not None):
        return None
    split = _SPLIT.get(type(command))
    return None if split is None else split(ids, command)


def _by_ref(ids: Ids, command: Any) -> list[Part]:
    store, ref = ids.of(command.ref)
    return [(store, replace(command, ref=ref))]


def _by_id(ids: Ids, command: Any) -> list[Part]:
    """Much quicker than `replace`."""
    kind, id = type(command), command.id
    return [(ids.store(id), kind(ids.inner(id), *_BESIDE_ID[kind](command)))]


def _beside_id(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the fields of a command but its id, its first."""
    names = [field.name for field in fields(kind)[1:]]
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda command: (get(command),)


_BESIDE_ID: Final = {kind: _beside_id(kind) for kind in (c.Rewrite, c.Begin, c.Ack, c.Nack, c.Release, c.Touch)}


def _claim(ids: Ids, command: c.Claim) -> list[Part]:
    """The first ids may begin, whatever their stores. Suspects are one store's turn, bytes are divided."""
    begin, suspects, most = command.begin, command.suspects, command.bytes
    by_store: dict[int, tuple[list[int], list[int]]] = {}
    of = by_store.get
    for place, (store, inner) in enumerate(ids.split(command.ids)):
        there = of(store)
        if there is None:
            there = by_store[store] = ([], [])
        there[0].append(inner)
        if place < begin:
            there[1].append(inner)
    if len(by_store) < 2:
        [(store, (some, _))] = by_store.items() or [(0, ([], []))]
        return [(store, replace(command, ids=tuple(some)))]
    turn, most = next(suspects_turn) % len(by_store), most // len(by_store)
    return [
        (
            store,
            replace(command, ids=tuple(some), begin=len(begins), suspects=suspects * (place == turn), bytes=most),
        )
        for place, (store, (some, begins)) in enumerate(by_store.items())
    ]


_SPLIT: Final[dict[type, Callable[[Ids, Any], list[Part]]]] = {
    c.Cancel: _by_ref,
    c.Reschedule: _by_ref,
    c.Retry: _by_ref,
    c.Delete: _by_ref,
    c.SetNote: lambda ids, command: [(ids.of_note(command.name), command)],
    c.Claim: _claim,
    **dict.fromkeys(_BESIDE_ID, _by_id),
}


def new_jobs(put: c.Put | c.Import) -> Sequence[NewJob]:
    """Return what new jobs have of the jobs of a put or an import."""
    return put.jobs if isinstance(put, c.Put) else [one.new for one in put.jobs]


def part_of(put: c.Put | c.Import, jobs: Sequence[Any], nonce: str | None) -> c.Put | c.Import:
    """Return a command of the same kind with other jobs."""
    return replace(put, jobs=tuple(jobs), nonce=nonce)  # type: ignore[arg-type]  # jobs of that kind


def inner_put(ids: Ids, put: c.Put | c.Import, store: int) -> c.Put | c.Import:
    """Return a put as a store is to get it: a parent there is one there, a parent elsewhere has none of its keys."""
    if isinstance(put, c.Import) or all(job.parent is None for job in put.jobs):
        return put
    jobs = []
    for job in put.jobs:
        if job.parent is not None:
            id, claims = job.parent
            here = ids.store(id) == store
            job = job._replace(parent=(ids.inner(id), claims) if here else None)
        jobs.append(job)
    return replace(put, jobs=tuple(jobs))


# ---- outcomes -------------------------------------------------------------------------------------------------------


def _merged(ids: Ids, command: c.Command[Any], found: Sequence[tuple[int, Any]], now: int) -> Any:
    """Return the outcome of a command from those of its parts."""
    kind = type(command)
    if kind is c.Claim:
        return claimed(ids, command, found, now)
    [(store, outcome)] = found
    if isinstance(outcome, PywheelError):
        return outer_error(ids, store, outcome)
    return outer_ids(ids, store, outcome) if kind in (c.Put, c.Import) else outcome


def outer_ids(ids: Ids, store: int, found: Sequence[int]) -> list[int]:
    """Return ids of a store for everybody, or what `noted` gave."""
    if not found or found[0] > 0:
        return ids.all_outer(store, found)
    return [_NOTED - id for id in found]


def noted(found: Sequence[int]) -> list[int]:
    """Return ids for everybody as a store can keep them with a nonce, beside ids of its own."""
    return [_NOTED - id for id in found]


def outer_job(ids: Ids, store: int, job: Job) -> Job:
    """Return a store's job for everybody."""
    return _new(Job, (ids.outer(store, job[0]), *job[1:]))


def outer_dues(ids: Ids, store: int, found: Sequence[Due]) -> list[Due]:
    """Return what a store says of jobs that wait, for everybody."""
    outer = ids.all_outer(store, [due.id for due in found])
    return [_new(Due, (due, id, *where)) for (due, _, *where), id in zip(found, outer, strict=True)]


def outer_error(ids: Ids, store: int, error: PywheelError) -> PywheelError:
    """Return a refusal with the id that everybody knows."""
    if isinstance(error, JobExists) and error.id:
        id = ids.outer(store, error.id)
        return JobExists(str(error).replace(f"job {error.id} ", f"job {id} ", 1), id)
    return error


def claimed(ids: Ids, command: Any, found: Sequence[tuple[int, Any]], now: int) -> Any:
    """Return what was claimed. What a store could not be asked for is left, if others answered."""
    begun: list[Job] = []
    held: list[Job] = []
    left: list[Due] = []
    paused, failed = False, None
    nexts: list[int] = []
    for store, outcome in found:
        if isinstance(outcome, PywheelError):
            failed = outcome
            nexts.append(now + _AGAIN)
            left += [Due(now + _AGAIN, id, command.topic) for id in command.ids if ids.store(id) == store]
            continue
        jobs = [outer_job(ids, store, job) for job in outcome.jobs]
        begun += jobs[: outcome.begun]
        held += jobs[outcome.begun :]
        left += outer_dues(ids, store, outcome.left)
        paused |= outcome.paused
        nexts += [] if outcome.next is None else [outcome.next]
    if failed is not None and not (begun or held):
        return failed
    if len(found) > 1:
        begun.sort(key=turn)
        held.sort(key=turn)
        left.sort(key=lambda due: order(due, now))
    paused &= not (begun or held)
    first = min(nexts, default=None) if command.limit > 0 and not paused else None
    return c.Claimed(begun + held, len(begun), left, paused, next=first)
