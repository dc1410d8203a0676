"""The transitions of a job, each written once: every store is tested against this.

    put ──> delayed ──(due; claimed)──> running ──ack──> done
               ^  └─cancel─> cancelled     │  │
               ├──(failed, or lease lost)──┘  └─(no attempt left)─> dead
               └──────── retry, by hand ── dead | cancelled | done

A claim is *held* at first, and has *begun* once its handler runs. Only a begun claim spends an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from .commands import Change, Reserve
from .job import Outcome, State

_T = TypeVar("_T")

ENDINGS: Final[Mapping[State, tuple[Outcome, ...]]] = {
    State.DONE: (Outcome.DONE,),
    State.CANCELLED: (Outcome.CANCELLED,),
    State.DEAD: (Outcome.FAILED, Outcome.LOST),
}
"""The possible outcomes of the last attempt, by the state of a finished job."""

NEVER_LOST: Final = 0
LOST_HELD: Final = 1
"""The last claim was lost before its handler is known to have begun: the job may have killed its process."""
LOST_BEGUN: Final = 2
"""The last claim was lost while its handler ran: the job is suspected first."""


class Run(NamedTuple):
    """A claim under way."""

    claim: int  # with the job's id, the receipt
    attempt: int  # its number, now or once it begins
    begun: bool
    lease: int  # end of the lease, ms
    max_attempts: int
    backoff: int  # ms after the lease's end at which the job is due again, if the claim is not settled


class Ending(NamedTuple):
    """The job's state after a claim."""

    state: State  # DELAYED, DONE or DEAD
    due: int | None  # the new due time; None: as before
    spent: bool  # whether the claim spent an attempt
    lost: int  # NEVER_LOST, LOST_HELD or LOST_BEGUN


DONE: Final = Ending(State.DONE, None, True, NEVER_LOST)
"""The end of an acked claim."""
RELEASED: Final = Ending(State.DELAYED, None, False, NEVER_LOST)
"""The end of a claim that was given back."""


class Choice(NamedTuple):
    """The jobs that a `Claim` takes, of those it may have."""

    taken: list[int]  # positions in the list of jobs
    begun: int  # this many of them, from the first on, begin at once; the others are held
    left: list[int]


def due(now: int, due: int, delay: int | None) -> int:
    """Return the due time of a job that was put, edited or retried with these values."""
    return due if delay is None else now + delay


def rank(job: Any) -> tuple[int, int, int]:
    """Return the sort key of due jobs, whatever record has them."""
    return -job.priority, job.due, job.id


def may_move(state: State, seen: tuple[int, int], expect: tuple[int, int] | None) -> Change:
    """Return MADE if a job may be cancelled or edited, or the reason why not. `seen` is its due time and claims."""
    if expect not in (None, seen):
        return Change.CHANGED
    return Change.MADE if state is State.DELAYED else Change(state)


def may_retry(state: State) -> Change:
    """Return MADE if a job may be retried by hand, or the reason why not."""
    return Change(state) if state.live else Change.MADE


def may_delete(state: State) -> Change:
    """Return MADE if a job may be deleted, or the reason why not."""
    return Change.RUNNING if state is State.RUNNING else Change.MADE


def reserve(
    command: Reserve, found: Iterable[_T], size: Callable[[_T], int], admits: Callable[[_T], bool] | None = None
) -> list[_T]:
    """Return the due jobs that `Reserve` claims, in their order. Reads at most one job beyond them.

    `admits` says whether limits admit a job.
    """
    left, chosen = command.bytes, list[_T]()
    for one in found:
        if len(chosen) >= command.limit or (left is not None and size(one) > left and len(chosen) >= command.least):
            break
        if admits is None or admits(one):
            chosen.append(one)
            left = None if left is None else left - size(one)
    return chosen


def choose(
    lost: Sequence[int],
    sizes: Sequence[int],
    begin: int,
    suspects: int,
    most: int,
    admits: Callable[[int], bool] | None = None,
) -> Choice:
    """Choose the jobs to claim from due jobs, in their order, by the ends of their last claims, as `Claim` says.

    `sizes` are the sizes of the bodies, of which up to `most` bytes are claimed. `admits` says whether limits admit the
    job at a position. With limits a job that does not begin is left.
    """
    begin, suspects = max(begin, 0), max(suspects, 0)
    if admits is None and not any(lost) and sum(sizes) <= most:  # the usual case
        return Choice(list(range(len(lost))), min(begin, len(lost)), [])
    taken: list[int] = []
    left: list[int] = []
    begun = 0
    for place, (last, size) in enumerate(zip(lost, sizes, strict=True)):
        if (last or admits) and (begun == begin or (last == LOST_BEGUN and suspects == 0)):
            left.append(place)
            continue
        if size > most and taken:
            return Choice(taken, begun, left + list(range(place, len(lost))))
        if admits is not None and not admits(place):
            left.append(place)
            continue
        taken.append(place)
        most -= size
        begun += begun < begin
        suspects -= last == LOST_BEGUN
    return Choice(taken, begun, left)


def lost(run: Run) -> Ending:
    """Return the end of a claim whose lease is over: due again after its backoff, or dead if no attempt is left.

    A job that was only held is due as before, and has spent no attempt.
    """
    if not run.begun:
        return Ending(State.DELAYED, None, False, LOST_HELD)
    if run.attempt >= run.max_attempts:
        return Ending(State.DEAD, None, True, LOST_BEGUN)
    return Ending(State.DELAYED, run.lease + run.backoff, True, LOST_BEGUN)


def failed(run: Run, now: int, delay: int | None) -> Ending:
    """Return the end of a nacked claim: due after `delay`, or dead without a delay or if no attempt is left."""
    if delay is None or run.attempt >= run.max_attempts:
        return Ending(State.DEAD, None, True, NEVER_LOST)
    return Ending(State.DELAYED, now + delay, True, NEVER_LOST)


def seen(run: Run, now: int) -> State:
    """Return the state that a reader sees of a job with this claim, whether or not the claim was expired."""
    return State.RUNNING if now < run.lease else lost(run).state


def attempts(claims: int, forgiven: int) -> int:
    """Return how many attempts were spent: the ended claims, without those that do not count."""
    return claims - forgiven


def backoff(delays: Sequence[int], attempt: int, jitter: float, draw: float) -> int:
    """Return the ms that a job waits after a lost attempt, counted from 1. `draw` is from -1 to 1."""
    if not delays:
        return 0
    return max(round(delays[min(max(attempt, 1), len(delays)) - 1] * (1 + jitter * draw)), 0)
