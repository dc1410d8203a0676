"""A worker's step by statements of its own: acks, renewals and claims that need no look at each job first.

What `transaction` does by reading, deciding and writing each job, a database does by a few statements where there is
little to decide. What it cannot tell it leaves to that, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...jobs.commands import Ack, Begin, Claim, Command, Touch
from ..checks import in_range

__all__ = ["SETTLING", "Direct", "possible"]

SETTLING: Final = (Ack, Begin, Touch)
"""What is said of a job that runs, and hardly ever of one that does not any more."""
_CLAIMS: Final = 2**31


class Direct(NamedTuple):
    """What became of commands that the database decided."""

    now: int
    outcomes: list[Any]
    rest: Mapping[int, Command[Any]]  # by place: what is left to be decided of a Claim, about other jobs
    leases: list[int]  # that were given
    counted: int  # rows of counts that were written


def possible(commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> bool:
    """Whether all commands settle, renew or claim, in topics that are known, and each has jobs of its own."""
    seen: set[int] = set()
    for command in commands:
        if isinstance(command, Claim):
            ids = set(command.ids)
            if command.topic not in topics or not all(map(in_range, ids)) or not seen.isdisjoint(ids):
                return False
            if command.terms.limits is not None:
                return False
            seen |= ids
        elif isinstance(command, SETTLING):
            if command.id in seen or not in_range(command.id) or not 0 < command.claims < _CLAIMS:
                return False
            seen.add(command.id)
        else:
            return False
    return True
