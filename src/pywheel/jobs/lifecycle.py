"""The transitions of a job, each written once: every store is tested against this.

    put ──> delayed ──(due; claimed)──> running ──ack──> done
               ^  └─cancel─> cancelled     │  │
               ├──(failed, or lease lost)──┘  └─(no attempt left)─> dead
               └──────── retry, by hand ── dead | cancelled | done

A claim is *held* from its beginning and has *begun* once its handler runs. Only what has begun spends an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from .commands import Change, Reserve
from .job import Outcome, State

__all__ = [
    "DONE",
    "ENDINGS",
    "LOST_BEGUN",
    "LOST_HELD",
    "NEVER_LOST",
    "RELEASED",
    "Ending",
    "Run",
    "attempts",
    "backoff",
    "choose",
    "due",
    "failed",
    "lost",
    "may_delete",
    "may_move",
    "may_retry",
    "reserve",
    "seen",
]

_T = TypeVar("_T")

ENDINGS: Final[Mapping[State, tuple[Outcome, ...]]] = {
    State.DONE: (Outcome.DONE,),
    State.CANCELLED: (Outcome.CANCELLED,),
    State.DEAD: (Outcome.FAILED, Outcome.LOST),
}
"""How the last attempt of a finished job ended."""

NEVER_LOST: Final = 0
LOST_HELD: Final = 1
"""Its last claim was lost before its handler is known to have begun: it may be what killed its process."""
LOST_BEGUN: Final = 2
"""Its last claim was lost while its handler ran: it is the first to be suspected."""


class Run(NamedTuple):
    """A claim under way."""

    claim: int  # with the job's id, the receipt
    attempt: int  # the number it has, or will have when it begins
    begun: bool
    lease: int  # until when, ms
    max_attempts: int
    backoff: int  # ms after the lease's end at which the job is due again, if nobody settles it


class Ending(NamedTuple):
    """What a claim leaves behind."""

    state: State  # DELAYED, DONE or DEAD
    due: int | None  # when it is due again; None: as before
    spent: bool  # whether an attempt was
    lost: int  # NEVER_LOST, LOST_HELD or LOST_BEGUN


DONE: Final = Ending(State.DONE, None, True, NEVER_LOST)
"""What an acked claim leaves behind."""
RELEASED: Final = Ending(State.DELAYED, None, False, NEVER_LOST)
"""What a claim that was given back leaves behind."""


class Choice(NamedTuple):
    """Which of the jobs that a `Claim` may have are claimed."""

    taken: list[int]  # places in the list of jobs
    begun: int  # so many of them, the first, begin at once; the others are held
    left: list[int]


def due(now: int, due: int, delay: int | None) -> int:
    """Return when a job is due that was put, edited or retried with these."""
    return due if delay is None else now + delay


def may_move(state: State, seen: tuple[int, int], expect: tuple[int, int] | None) -> Change:
    """Return whether a job may be cancelled or edited. `seen` is its due time and claims."""
    if expect not in (None, seen):
        return Change.CHANGED
    return Change.MADE if state is State.DELAYED else Change(state)


def may_retry(state: State) -> Change:
    """Return whether a job may be retried by hand."""
    return Change(state) if state.live else Change.MADE


def may_delete(state: State) -> Change:
    """Return whether a job may be forgotten."""
    return Change.RUNNING if state is State.RUNNING else Change.MADE


def reserve(
    command: Reserve, found: Iterable[_T], size: Callable[[_T], int], admits: Callable[[_T], bool] | None = None
) -> list[_T]:
    """Return those of the due jobs, in their order, that `Reserve` claims. It takes one more than these at most.

    `admits` says whether limits let a job through.
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
    """Choose from due jobs, in their order, what is claimed, by what their last claims came to: `Claim` says how.

    `sizes` are those of the bodies, of which `most` bytes are claimed. `admits` says whether limits let the job at a
    place through: with them what does not begin is left.
    """
    begin, suspects = max(begin, 0), max(suspects, 0)
    if admits is None and not any(lost) and sum(sizes) <= most:  # as it usually is
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
    """Return what becomes of a claim whose lease is over: due again after its backoff, or dead after its attempts.

    One that was only held is due as before and has spent nothing.
    """
    if not run.begun:
        return Ending(State.DELAYED, None, False, LOST_HELD)
    if run.attempt >= run.max_attempts:
        return Ending(State.DEAD, None, True, LOST_BEGUN)
    return Ending(State.DELAYED, run.lease + run.backoff, True, LOST_BEGUN)


def failed(run: Run, now: int, delay: int | None) -> Ending:
    """Return what becomes of a claim that was nacked: due after `delay`, or dead without one or after its attempts."""
    if delay is None or run.attempt >= run.max_attempts:
        return Ending(State.DEAD, None, True, NEVER_LOST)
    return Ending(State.DELAYED, now + delay, True, NEVER_LOST)


def seen(run: Run, now: int) -> State:
    """Return the state that a reader sees of a job with this claim, whether or not anybody has expired it."""
    return State.RUNNING if now < run.lease else lost(run).state


def attempts(claims: int, forgiven: int) -> int:
    """Return how many attempts were spent: the claims that ended, less those that do not count."""
    return claims - forgiven


def backoff(delays: Sequence[int], attempt: int, jitter: float, draw: float) -> int:
    """Return the ms that a lost attempt, counted from 1, waits; `draw` is from -1 to 1."""
    if not delays:
        return 0
    return max(round(delays[min(max(attempt, 1), len(delays)) - 1] * (1 + jitter * draw)), 0)
