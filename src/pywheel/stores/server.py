"""Facts about a store's server: its wall clock, and since when it has not answered."""

from __future__ import annotations

import math
import time
from typing import Final

from .._errors import StoreAway
from ..clock import MonotonicClock

_DRIFT: Final = 200e-6  # how far two clocks may part in a second, in seconds
_SAID_FROM: Final = 1.0  # seconds of an outage from which on messages have its length


class ServerClock(MonotonicClock):
    """This host's monotonic clock, and a server's wall clock: the host's own may be hours off without harm.

    Each answer with the server's time narrows down the difference of the two clocks, to half of the time that the
    answer took (Cristian, 1989). Older knowledge is trusted less. A step of the server's clock is a step here, once an
    answer has shown it. Before the first answer this is the host's wall clock.
    """

    def __init__(self) -> None:
        # The bounds of the server's wall clock less this host's, in seconds, and when they were learned. Replaced at
        # once: the later of two threads counts, and there is no lock that a fork could keep.
        self._known = (-math.inf, math.inf, time.monotonic())
        self._ahead = time.time() - time.monotonic()

    def heard(self, server: float, sent: float, received: float, unit: float = 0.0) -> None:
        """Note that the server's wall clock showed `server`, in s, between two readings of `time` here.

        `unit`: the seconds to which the server rounded down.
        """
        low, high, at = self._known
        aged = max(received - at, 0.0) * _DRIFT
        least, most = server - received, server + unit - sent
        low, high = max(low - aged, least), min(high + aged, most)
        if low > high:  # it was stepped
            low, high = least, most
        self._known = (low, high, received)
        self._ahead = (low + high) / 2

    def wall(self) -> int:
        """Return the server's wall clock in whole milliseconds since 1970, rounded down, as far as it is known."""
        return math.floor((time.monotonic() + self._ahead) * 1_000)

    def until(self, wall: int) -> float:
        """Return the seconds until the server's wall clock shows this; negative if it has."""
        return wall / 1_000 - time.monotonic() - self._ahead


class Outage:
    """The time since when a server has not answered. One for each opened store; any thread may use it."""

    def __init__(self, shown: str) -> None:
        """`shown` is its address without password."""
        self._shown = shown
        self._since: float | None = None

    def over(self) -> None:
        """Note that the server answered."""
        self._since = None

    def away(self, reason: str, advice: str = "start the server, or look at the network between") -> StoreAway:
        """Return the error for a server that did not answer, in one line: for how long, why, and what to do."""
        seconds = self._lasts()
        answers = f"has not answered for {seconds:.0f} s" if seconds >= _SAID_FROM else "does not answer"
        error = StoreAway(f"{self._shown} {answers} ({reason}): {advice}")
        error.seconds = seconds
        return error

    def noted(self, error: StoreAway) -> None:
        """Add the length of the outage to an error."""
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
