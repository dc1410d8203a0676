"""Commands that do much, as several calls: the server answers others in between.

Each call is whole in itself: what it ended or claimed stays so, whether or not the next one comes. If the server goes
away between two of them, the outcome of each command that was not sent any more is the StoreError. A client that dies
there leaves claims that it never saw, as one that dies before an answer does; their leases end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from ..._errors import PywheelError, StoreError
from ...jobs import commands as c
from ...jobs.lifecycle import LOST_BEGUN
from .commands import SETTLES, FurtherClaim
from .queries import PIECE

__all__ = ["by_pieces"]

_CLAIMS: Final = (c.Reserve, c.Claim)
_LONG: Final = (c.Expire, c.Purge, *_CLAIMS)
Apply = Callable[[Sequence[c.Command[Any]]], list[Any]]


def by_pieces(apply: Apply, commands: Sequence[c.Command[Any]]) -> list[Any]:
    """Apply commands; what those that have much to do leave is done after them, each piece by a call of its own."""
    ends = _ends_apart(commands)
    outcomes: list[Any] = []
    try:
        for first in range(0, len(ends), PIECE):
            outcomes += apply(ends[first : first + PIECE])
        if len(ends) < len(commands):
            outcomes += _with_the_rest(apply, commands[len(ends) :])
    except StoreError as error:
        if not outcomes:
            raise
        outcomes += [error] * (len(commands) - len(outcomes))
    return outcomes


def _ends_apart(commands: Sequence[c.Command[Any]]) -> Sequence[c.Command[Any]]:
    """Return the ends of claims that have calls of their own: where with the claims behind them they are too much."""
    much = sum(min(getattr(one, "limit", 1), PIECE) for one in commands) > PIECE
    if much and all(type(one) in SETTLES or isinstance(one, _CLAIMS) for one in commands):
        return list(takewhile(lambda one: type(one) in SETTLES, commands))
    return ()


def _with_the_rest(apply: Apply, commands: Sequence[c.Command[Any]]) -> list[Any]:
    firsts: list[Any] = [
        replace(one, limit=PIECE) if isinstance(one, _LONG) and one.limit > PIECE else one for one in commands
    ]
    outcomes = apply(firsts)
    for place, (command, first) in enumerate(zip(commands, firsts, strict=True)):
        if command is not first:
            outcomes[place] = _whole(apply, command, outcomes[place])
    return outcomes


def _whole(apply: Apply, command: Any, outcome: Any) -> Any:
    """Return the outcome of a command whose first piece came to this: of as many pieces as there was a server for."""
    last = outcome
    while (left := _rest(command, last)) is not None:
        command = left
        try:
            [last] = apply([replace(left, limit=min(left.limit, PIECE))])
        except StoreError:
            break
        if isinstance(last, PywheelError):
            break
        outcome = _joined(outcome, last)
    return outcome


def _rest(command: Any, last: Any) -> Any:
    """Return what is left of a command after a piece of it; None if nothing is."""
    claimed = isinstance(command, _CLAIMS)
    jobs = (last if isinstance(last, list) else last.jobs) if claimed else []
    done = len(jobs) if claimed else last.ended if isinstance(last, c.Expired) else last
    if isinstance(last, c.Claimed):
        done += len(last.left)
    limit = command.limit - PIECE
    if done < PIECE or limit <= 0:
        return None
    left: Any = None if not claimed or command.bytes is None else command.bytes - sum(len(job.body) for job in jobs)
    if isinstance(command, c.Reserve):
        return replace(command, limit=limit, bytes=left, least=command.least - len(jobs))
    if isinstance(command, c.Claim):
        kind = FurtherClaim if jobs else type(command)
        suspects = command.suspects - sum(job.lost == LOST_BEGUN for job in jobs)
        without = command.without + tuple(due.id for due in last.left)
        begin, after = command.begin - last.begun, command.after
        named = command.topic, command.ids, command.policy, command.worker
        return kind(*named, begin, suspects, left, limit, after, without)
    return replace(command, limit=limit)


def _joined(one: Any, other: Any) -> Any:
    """Return the outcome of two pieces."""
    if isinstance(one, c.Expired):
        return c.Expired(one.ended + other.ended, other.next_lease, tuple(sorted((*one.dead, *other.dead))))
    if isinstance(one, c.Claimed):
        again = min((time for time in (one.again, other.again) if time is not None), default=None)
        jobs, left, begun = one.jobs + other.jobs, one.left + other.left, one.begun + other.begun
        return c.Claimed(jobs, begun, left, other.paused, again, one.full + other.full, other.next)
    return one + other
