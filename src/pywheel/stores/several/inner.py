"""What a store must do beside the contract, to be one of several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..contract import Store

__all__ = ["Inner"]


class Inner(Store):
    """A store that may be one of several."""

    @abstractmethod
    def nonce(self, nonce: str, kept: Sequence[int | str] | None = None) -> list[Any] | None:
        """Return what is kept of the put that had a nonce, or None; then note this, if it is given.

        That is ids, negative ones too, and the fingerprint with an m before it, if there is one. A later put with that
        nonce has them as its outcome.
        """
