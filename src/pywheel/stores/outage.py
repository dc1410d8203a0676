"""How long a server has been away, for the errors of those who ask it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .._errors import StoreAway

__all__ = ["Outage"]

_SAID_FROM: Final = 1.0  # seconds


class Outage:
    """Since when a server has not answered. One for each opened store, used from any thread."""

    def __init__(self) -> None:
        self._since: float | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Ask the server within this: a StoreAway gets to know how long it lasts, and an answer ends the outage."""
        try:
            yield
        except StoreAway as error:
            self._lasts(error)
            raise
        self._since = None

    def _lasts(self, error: StoreAway) -> None:
        if error.seconds:  # one that was noted within this one
            return
        now = time.monotonic()
        since = self._since
        if since is None:
            since = self._since = now
        error.seconds = now - since
        if error.seconds >= _SAID_FROM:
            error.args = (f"{error}; away for {error.seconds:.0f} s by now",)
