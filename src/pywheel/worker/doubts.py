"""Ends of claims that the store may know, though its answer was lost: each is told for what it was.

An end that is tried again is refused, as its claim is over. Else it would be taken for a lost lease, and nobody would
be told that the job is done, or dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from .._errors import StoreError
from ..jobs.commands import Ack, Nack, Release
from ..jobs.job import Attempt, Outcome, State
from ..jobs.queries import GetHistories, GetStates
from ..stores.contract import Store
from .leases import Lease

__all__ = ["Doubts"]

_ENDS: Final[dict[type, Outcome]] = {Ack: Outcome.DONE, Nack: Outcome.FAILED, Release: Outcome.RELEASED}


class Doubts:
    """Only the dispatcher uses it, by `Settling`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases: set[Lease] = set()

    def add(self, leases: Iterable[Lease]) -> None:
        """Note claims whose ends may have been settled."""
        self._leases.update(leases)

    def resolved(self, settled: Sequence[tuple[Any, Lease]], outcomes: list[Any]) -> list[Any]:
        """Return the outcomes, with that of an earlier try where its answer was lost. No query without doubts."""
        if not self._leases:
            return outcomes
        doubted, self._leases = self._leases, set()
        places = [n for n, (_, lease) in enumerate(settled) if lease in doubted and outcomes[n] in (False, None)]
        if not places:
            return outcomes
        ids = [settled[place][1].job.id for place in places]
        try:
            histories, states = self._store.ask(GetHistories(ids)), self._store.ask(GetStates(ids))
        except StoreError as error:  # not now: it is tried once more, and asked again
            for place in places:
                outcomes[place] = error
            return outcomes
        for place, history, state in zip(places, histories, states, strict=True):
            if (outcome := _outcome(*settled[place], history, state)) is not None:
                outcomes[place] = outcome
        return outcomes


def _outcome(command: Any, lease: Lease, history: Sequence[Attempt], state: State | None) -> bool | State | None:
    """Return what an earlier try came to, as the store has it by now; None if the lease was lost indeed."""
    ended = next((one.outcome for one in history if one.claim == lease.job.claims), None)
    if ended is not _ENDS[type(command)]:
        return None
    if ended is not Outcome.FAILED:
        return True
    return State.DEAD if state is State.DEAD else State.DELAYED
