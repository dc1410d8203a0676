"""How long a server has been away, for the errors of those who ask it meanwhile."""

from __future__ import annotations

import time

from .._errors import StoreAway

__all__ = ["Outage"]


class Outage:
    """Since when a server has not answered. From any thread; one for each opened store."""

    def __init__(self, shown: str) -> None:
        """`shown` is its address without password."""
        self._shown = shown
        self._since: float | None = None

    def over(self) -> None:
        """Note that it answered."""
        self._since = None

    def away(self, reason: str, advice: str = "start the server, or look at the network between") -> StoreAway:
        """Return the error for one that did not, in one line: for how long, why, and what to do."""
        now = time.monotonic()
        since = self._since
        if since is None:
            since = self._since = now
        seconds = now - since
        answers = f"has not answered for {seconds:.0f} s" if seconds >= 1 else "does not answer"
        error = StoreAway(f"{self._shown} {answers} ({reason}): {advice}")
        error.seconds = seconds
        return error
