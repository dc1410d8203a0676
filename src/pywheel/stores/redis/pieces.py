"""Commands that do much, as several calls: the server answers others in between.

Each call is whole in itself: what it ended or claimed stays so, whether or not the next one comes. A client that dies
between two of them leaves claims that it never saw, as one that dies before an answer does; their leases end.
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
    """Apply commands; what those that have much to do leave is done after them, each piece by a call of its own.

    Ends of claims before a claim have calls of their own where all that is too much for one, if nothing else is asked.
    """
    outcomes: list[Any] = []
    much = sum(min(getattr(one, "limit", 1), PIECE) for one in commands) > PIECE
    if much and all(type(one) in SETTLES or isinstance(one, _CLAIMS) for one in commands):
        ends = list(takewhile(lambda one: type(one) in SETTLES, commands))
        for first in range(0, len(ends), PIECE):
            outcomes += apply(ends[first : first + PIECE])
        commands = commands[len(ends) :]
        if not commands:
            return outcomes
    firsts: list[Any] = [
        replace(one, limit=PIECE) if isinstance(one, _LONG) and one.limit > PIECE else one for one in commands
    ]
    answers = apply(firsts)
    for place, (command, first) in enumerate(zip(commands, firsts, strict=True)):
        if command is not first:
            answers[place] = _whole(apply, command, answers[place])
    return outcomes + answers


def _whole(apply: Apply, command: Any, outcome: Any) -> Any:
    """Return the outcome of a command whose first piece came to this. What was claimed comes back, whatever follows."""
    last = outcome
    while (left := _rest(command, last)) is not None:
        command = left
        try:
            [last] = apply([replace(left, limit=min(left.limit, PIECE))])
        except StoreError:
            if isinstance(command, _CLAIMS):
                break
            raise
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
