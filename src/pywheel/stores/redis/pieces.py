"""Leases that are over, and finished jobs to be forgotten, by pieces: after an outage they may be many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ...jobs.commands import Command, Expire, Expired, Purge

__all__ = ["PIECE", "by_pieces"]

PIECE: Final = 250
"""Leases that one call ends, or finished jobs that it forgets: some ms. In `lua/base.lua` too."""

_MANY: Final = frozenset((Expire, Purge))
Apply = Callable[[Sequence[Command[Any]]], list[Any]]


def by_pieces(apply: Apply, commands: Sequence[Command[Any]]) -> list[Any]:
    """Apply commands; what those that have much to do leave is done after them, each piece by a call of its own."""
    many = [place for place, command in enumerate(commands) if type(command) in _MANY]
    if not many:
        return apply(commands)
    first = list(commands)
    for place in many:
        first[place] = _clipped(commands[place])
    outcomes = apply(first)
    for place in many:
        command: Any = commands[place]
        last = outcomes[place]
        while command.limit > PIECE and _count(last) == PIECE:
            command = replace(command, limit=command.limit - PIECE)
            [last] = apply([_clipped(command)])
            outcomes[place] = _sum(outcomes[place], last)
    return outcomes


def _clipped(command: Any) -> Command[Any]:
    clipped: Command[Any] = replace(command, limit=min(command.limit, PIECE))
    return clipped


def _count(outcome: Any) -> Any:
    return outcome.ended if isinstance(outcome, Expired) else outcome


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, Expired) and isinstance(other, Expired):
        return Expired(one.ended + other.ended, other.next_lease, tuple(sorted((*one.dead, *other.dead))))
    return one + other if isinstance(other, int) else other
