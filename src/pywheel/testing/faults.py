"""A store that fails on purpose, in front of any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._errors import StoreAway
from ..jobs.commands import Command
from ..stores.contract import Store
from ..stores.front import Front


class FaultyStore(Front):
    """Calls `fault(when, commands)` before and after each call of `apply`, which raises the errors of `fault`.

    `when` is ``"before"``: nothing is applied, or ``"after"``: everything is, durably, unknown to the caller. The fault
    may also kill the process. While `away` is set, all methods except `close` and `opened` raise StoreAway.
    """

    def __init__(self, store: Store, fault: Callable[[str, Sequence[Command[Any]]], None] | None = None) -> None:
        self.inner = store
        self.fault = fault
        self.away = False

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands, or fail before or after that."""
        store = self._there()
        if self.fault:
            self.fault("before", commands)
        outcomes = store.apply(commands)
        if self.fault:
            self.fault("after", commands)
        return outcomes

    def _described(self) -> Store:
        return self.inner

    def _there(self) -> Store:
        if self.away:
            raise StoreAway("the store is away (on purpose)")
        return self.inner
