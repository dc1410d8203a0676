"""What a store must do beside the contract, to be one of several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..contract import Store

__all__ = ["Inner"]


class Inner(Store):
    """A store that may be one of several."""

    @abstractmethod
    def nonce(self, nonce: str, ids: Sequence[int] | None = None) -> list[int] | None:
        """Return the ids of the put that had a nonce, or None; then note these, negative ones too, if they are given.

        A later put with that nonce has them as its outcome.
        """
