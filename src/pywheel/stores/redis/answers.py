"""The outcomes of commands, from what the server answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ..._errors import JobExists, NonceTaken
from ...jobs import commands as c
from ...jobs.job import Due, NewJob, State
from ..checks import lately
from ..marks import unmarked
from .records import STATES, claimed, from_id, score

__all__ = [
    "Learn",
    "as_it_is",
    "changed",
    "claim_of",
    "expired",
    "ids_of",
    "kept",
    "nacked",
    "nothing",
    "reserved",
    "shared_out",
]

_EXISTS: Final = -1
_TWICE: Final = -2
_LATELY: Final = -3
_REFUSALS: Final = (_EXISTS, _TWICE, _LATELY)  # no ids, which several stores note as less than these

Learn = Callable[[Iterator[Any], list[Any]], None]
"""Takes from the answer what belongs to some commands, and appends their outcomes."""


def ids_of(jobs: Sequence[NewJob], mark: str | None = None) -> Learn:
    """Return what takes in the ids of jobs, or why there are none."""

    def learn(answers: Iterator[Any], found: list[Any]) -> None:
        answer = next(answers)
        if answer and answer[0] in _REFUSALS:
            found.append(_taken(jobs, *answer))
            return
        try:
            found.append(unmarked(answer, mark))
        except NonceTaken as taken:
            found.append(taken)

    return learn


def _taken(jobs: Sequence[NewJob], code: int, holder: int, place: int, ago: int = 0) -> JobExists:
    key = jobs[place].key or ""
    if code == _LATELY:
        return lately(holder, key, ago, jobs[place].dedupe_for)
    if code == _TWICE:
        return JobExists(f"two of the jobs put have the key {key[:80]!r}", 0)
    return JobExists(f"job {holder} has the key {key[:80]!r} already and is live", holder)


def shared_out(first: int, sizes: Sequence[int]) -> list[Any]:
    """Return the ids of each command's jobs, which follow each other."""
    if len(sizes) == 1:
        return [list(range(first, first + sizes[0]))]
    found = []
    for size in sizes:
        found.append(list(range(first, first + size)))
        first += size
    return found


def as_it_is(answers: Iterator[Any], found: list[Any]) -> None:
    """Take an answer as it is."""
    found.append(next(answers))


def nothing(answers: Iterator[Any], found: list[Any]) -> None:
    """Take an answer that says nothing."""
    next(answers)
    found.append(None)


def changed(answers: Iterator[Any], found: list[Any]) -> None:
    """Take whether something changed, or who has the key."""
    answer = next(answers)
    if isinstance(answer, list):
        found.append(JobExists(f"job {answer[1]} has this key now and is live", answer[1]))
    else:
        found.append(bool(answer))


def kept(answers: Iterator[Any], found: list[Any]) -> None:
    """Take what was kept under a name before."""
    before = next(answers)
    found.append(before[0] if before else None)


def nacked(state: int) -> State | None:
    """Return the state after a nack, None if its receipt was void."""
    return None if state < 0 else STATES[state]


def reserved(answers: Iterator[Any], found: list[Any]) -> None:
    """Take the jobs of a reserve."""
    found.append(claimed(next(answers)))


def claim_of(topic: str) -> Learn:
    """Return what takes in the outcome of a claim."""

    def learn(answers: Iterator[Any], found: list[Any]) -> None:
        paused, begun, left, again, coming, *rest = next(answers)
        parts = iter(rest[: 4 * left])
        some = [
            (from_id(id), due, lane, group) for id, due, lane, group in zip(parts, parts, parts, parts, strict=True)
        ]
        others = [Due(due, id, topic, lane) for id, due, lane, _ in some]
        full = tuple((id, group.decode()) for id, _, _, group in some if group is not None)
        jobs, when = claimed(rest[4 * left :]), int(again) if again else None
        first = None if coming is None else score(coming)
        found.append(c.Claimed(jobs, begun, others, paused=bool(paused), again=when, full=full, next=first))

    return learn


def expired(answers: Iterator[Any], found: list[Any]) -> None:
    """Take how many leases were ended, when the next one is over, and which jobs are dead by that."""
    ended, first, dead = next(answers)
    found.append(c.Expired(ended, score(first) if first else None, tuple(sorted(map(from_id, dead)))))
