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

    def __init__(self, shown: str) -> None:
        """`shown` is its address without password."""
        self._shown = shown
        self._since: float | None = None

    def over(self) -> None:
        """Note that it answered."""
        self._since = None

    def away(self, reason: str, advice: str = "start the server, or look at the network between") -> StoreAway:
        """Return the error for one that did not, in one line: for how long, why, and what to do."""
        seconds = self._lasts()
        answers = f"has not answered for {seconds:.0f} s" if seconds >= _SAID_FROM else "does not answer"
        error = StoreAway(f"{self._shown} {answers} ({reason}): {advice}")
        error.seconds = seconds
        return error

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Ask the server within this: a StoreAway gets to know how long it lasts, and an answer ends the outage."""
        try:
            yield
        except StoreAway as error:
            if not error.seconds:  # else it was noted within this one
                error.seconds = self._lasts()
                if error.seconds >= _SAID_FROM:
                    error.args = (f"{error}; away for {error.seconds:.0f} s by now",)
            raise
        self._since = None

    def _lasts(self) -> float:
        now = time.monotonic()
        since = self._since
        if since is None:
            since = self._since = now
        return now - since
