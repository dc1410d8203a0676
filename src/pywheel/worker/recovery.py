"""Recovery: ends the leases that are over, whosoever they were, so that their jobs are due again."""

from __future__ import annotations

from typing import Final

from .._errors import StoreError
from ..jobs.commands import Expire, Expired
from ..jobs.queries import GetNextLease
from ..stores.contract import Store

__all__ = ["Recovery"]

_BATCH: Final = 200
_DEPUTY: Final = 500  # ms after which any worker does what the one in charge has not done


class Recovery:
    """When to end leases. Only the dispatcher uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: int | None = None

    def look(self) -> None:
        """See when the next lease may be over."""
        self._next = self._store.ask(GetNextLease())

    def due_at(self, *, in_charge: bool) -> int | None:
        """Return when there is something to do; None if nobody holds a lease."""
        if self._next is None:
            return None
        return self._next if in_charge else self._next + _DEPUTY

    def commands(self, now: int, *, in_charge: bool) -> list[Expire]:
        """Return what is to be done now."""
        at = self.due_at(in_charge=in_charge)
        return [Expire(_BATCH)] if at is not None and now >= at else []

    def learn(self, outcome: Expired | StoreError) -> None:
        """Take in what was done."""
        if isinstance(outcome, Expired):
            self._next = outcome.next_lease
