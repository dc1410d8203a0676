"""A store in front of another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, TypeVar

from ..clock import Clock
from ..jobs.commands import Put
from ..jobs.queries import Query
from .contract import Durability, Store
from .notifier import Notifier
from .verify import Finding

__all__ = ["Front"]

R = TypeVar("R")


class Front(Store):
    """Answers as the store behind it does, which may not be there. What is to be different is overridden."""

    @abstractmethod
    def _there(self) -> Store:
        """Return the store behind. StoreAway if it is not there."""

    def _described(self) -> Store:
        """Return the store that says what holds of this one, also while it is away."""
        return self._there()

    @property
    def url(self) -> str:  # type: ignore[override]
        """The address of the store behind."""
        return self._described().url

    @property
    def secret_url(self) -> str:
        """The address with its password, never to be shown."""
        return self._described().secret_url

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        """The clock of the store behind."""
        return self._described().clock

    @property
    def durability(self) -> Durability:  # type: ignore[override]
        """What the store behind promises."""
        return self._described().durability

    @property
    def keeps_limits(self) -> bool:  # type: ignore[override]
        """Whether the store behind does."""
        return self._described().keeps_limits

    @property
    def ids_grow(self) -> bool:  # type: ignore[override]
        """Whether the ids of the store behind do."""
        return self._described().ids_grow

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        return self._there().put_within(connection, put)

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query."""
        return self._there().ask(query)

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs that died with a lost lease."""
        return self._there().died(topics)

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier of the store behind."""
        return self._there().notifier(name)

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once no worker can start a job of a paused topic that it claimed before."""
        return self._there().quiet(topic, seconds)

    def about(self) -> dict[str, Any]:
        """Return what there is to know of the place."""
        return self._there().about()

    def vacuum(self, pages: int) -> int:
        """Give room back."""
        return self._there().vacuum(pages)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is stored."""
        return self._there().verify(repair=repair)
