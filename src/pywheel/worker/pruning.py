"""Pruning: forgets what finished long ago, in small steps beside the work, as fast as jobs finish."""

from __future__ import annotations

from typing import Final

from .._errors import StoreError
from ..jobs.commands import Purge
from ..jobs.job import State

__all__ = ["Pruning"]

_STEP: Final = 50  # jobs at a time, some 0.5 ms; with many acks in a step twice as many as these
_PAUSE: Final = 10  # ms between steps while there is more
_ROUND: Final = (250, 30_000)  # ms between looks when there is nothing: a tenth of the time that jobs are kept
_STATES: Final = (State.DONE, State.CANCELLED)


class Pruning:
    """When to forget what. Only the dispatcher uses it."""

    def __init__(self, keep: int | None) -> None:
        self._keep = keep
        self._at = dict.fromkeys(_STATES, 0) if keep is not None else {}
        shortest, longest = _ROUND
        self._round = min(max((keep or 0) // 10, shortest), longest)

    @property
    def due_at(self) -> int | None:
        """Return when there is something to do."""
        return min(self._at.values(), default=None)

    def commands(self, now: int, acks: int) -> list[Purge]:
        """Return what is to be done now, in a step with so many acks."""
        keep = self._keep
        if keep is None:
            return []
        return [
            Purge(state, keep, None, _STEP + 2 * acks) for state, at in self._at.items() if now >= at or acks >= _STEP
        ]

    def learn(self, now: int, command: Purge, outcome: int | StoreError) -> None:
        """Take in what was done."""
        more = isinstance(outcome, StoreError) or outcome >= command.limit
        self._at[command.state] = now + (_PAUSE if more else self._round)

    def again(self) -> None:
        """Look anew: the clock was stepped."""
        self._at = dict.fromkeys(self._at, 0)
