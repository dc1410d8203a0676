"""What is known of a store's server: its wall clock, and since when it has not answered."""

from __future__ import annotations

import math
import time
from typing import Final

from .._errors import StoreAway
from ..clock import MonotonicClock

__all__ = ["Outage", "ServerClock"]

_DRIFT: Final = 200e-6  # how far two clocks may part in a second, in seconds
_SAID_FROM: Final = 1.0  # seconds


class ServerClock(MonotonicClock):
    """This host's monotonic clock, and the wall clock of a server: this host's own may be hours off, and do no harm.

    Each answer of the server that says its time narrows down what lies between the two clocks, to half of the time that
    the answer took (Cristian, 1989); what was learned before is trusted less as it gets older. A step of the server's
    clock is one here, once an answer has shown it. Before the first answer it is this host's wall clock.
    """

    def __init__(self) -> None:
        # Between which the server's wall clock less ours lies, in seconds, and when that was learned. Replaced at once:
        # of two threads that learn something the one that is later counts, and no lock is there for a fork to keep.
        self._known = (-math.inf, math.inf, time.monotonic())
        self._ahead = time.time() - time.monotonic()

    def heard(self, server: float, sent: float, received: float) -> None:
        """Take in that the server's wall clock showed `server`, in s, between two readings of `time` here."""
        low, high, at = self._known
        aged = max(received - at, 0.0) * _DRIFT
        low = max(low - aged, server - received)
        high = min(high + aged, server - sent)
        if low > high:  # it was stepped
            low, high = server - received, server - sent
        self._known = (low, high, received)
        self._ahead = (low + high) / 2

    def wall(self) -> int:
        """Return the server's wall clock in whole milliseconds since 1970, rounded down, as far as it is known."""
        return math.floor((time.monotonic() + self._ahead) * 1_000)

    def until(self, wall: int) -> float:
        """Return the seconds until the server's wall clock shows this; negative if it has."""
        return wall / 1_000 - time.monotonic() - self._ahead


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

    def noted(self, error: StoreAway) -> None:
        """Let an error say how long it lasts."""
        if not error.seconds:
            error.seconds = self._lasts()
            if error.seconds >= _SAID_FROM:
                error.args = (f"{error}; away for {error.seconds:.0f} s by now",)

    def _lasts(self) -> float:
        now = time.monotonic()
        since = self._since
        if since is None:
            since = self._since = now
        return now - since
