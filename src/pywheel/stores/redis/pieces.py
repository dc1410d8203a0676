"""Leases that are over, ended by pieces: after an outage they may be many, and everybody waits for a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ..._errors import StoreBusy
from ...jobs.commands import Command, Expire, Expired

__all__ = ["PIECE", "LeasesOver", "by_pieces"]

PIECE: Final = 250
"""Leases that one script ends: some ms."""
_BUSY: Final = "thousands of leases are over, as after an outage, and are being ended: try again"

Apply = Callable[[Sequence[Command[Any]]], list[Any]]


class LeasesOver(Exception):
    """More leases are over than one script ends, and a command wants all of them ended. Nothing has happened."""


def by_pieces(apply: Apply, commands: Sequence[Command[Any]], seconds: float) -> list[Any]:
    """Apply commands after the leases that they end: these by scripts of their own. StoreBusy after so many seconds."""
    until = time.monotonic() + seconds
    limits = [max(command.limit, 0) for command in commands if isinstance(command, Expire)]
    most = sum(limits) if len(limits) == len(commands) else 2**62
    ended, dead = 0, []
    while True:
        if ended + PIECE < most:
            [piece] = apply([Expire(PIECE)])
            ended += piece.ended
            dead += piece.dead
            if piece.ended == PIECE and time.monotonic() < until:
                continue
        try:
            return _with(ended, dead, commands, apply)
        except LeasesOver:
            if time.monotonic() >= until:
                raise StoreBusy(_BUSY) from None


def _with(ended: int, dead: Sequence[int], commands: Sequence[Command[Any]], apply: Apply) -> list[Any]:
    """Apply commands; what was ended before counts for the first of them that end leases."""
    counted: list[int] = []
    rest: list[Command[Any]] = []
    for command in commands:
        count = 0
        if isinstance(command, Expire):
            count = min(ended, max(command.limit, 0))
            ended -= count
            command = replace(command, limit=command.limit - count)
        counted.append(count)
        rest.append(command)
    outcomes = apply(rest)
    for place, count in enumerate(counted):
        outcome = outcomes[place]
        if count and isinstance(outcome, Expired):
            outcomes[place] = Expired(outcome.ended + count, outcome.next_lease, tuple(sorted((*dead, *outcome.dead))))
            dead = ()
    return outcomes
