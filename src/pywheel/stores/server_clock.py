"""The wall clock of a server, as its clients know it."""

from __future__ import annotations

import math
import threading
import time
from typing import Final

from ..clock import MonotonicClock

__all__ = ["ServerClock"]

_DRIFT: Final = 200e-6  # how far two clocks may part in a second, in seconds


class ServerClock(MonotonicClock):
    """This host's monotonic clock, and the wall clock of a server: this host's own may be hours off, and do no harm.

    Each answer of the server that says its time narrows down what lies between the two clocks, to half of the time that
    the answer took (Cristian, 1989); what was learned before is trusted less as it gets older. A step of the server's
    clock is one here, once an answer has shown it. Before the first answer it is this host's wall clock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._low, self._high = -math.inf, math.inf  # between which the server's wall clock less ours lies, in seconds
        self._ahead = time.time() - time.monotonic()
        self._at = time.monotonic()

    def heard(self, server: float, sent: float, received: float) -> None:
        """Take in that the server's wall clock showed `server`, in s, between two readings of `time` here."""
        with self._lock:
            aged = max(received - self._at, 0.0) * _DRIFT
            low = max(self._low - aged, server - received)
            high = min(self._high + aged, server - sent)
            if low > high:  # it was stepped
                low, high = server - received, server - sent
            self._low, self._high, self._at = low, high, received
            self._ahead = (low + high) / 2

    def wall(self) -> int:
        """Return the server's wall clock in whole milliseconds since 1970, rounded down, as far as it is known."""
        return math.floor((time.monotonic() + self._ahead) * 1_000)

    def until(self, wall: int) -> float:
        """Return the seconds until the server's wall clock shows this; negative if it has."""
        return wall / 1_000 - time.monotonic() - self._ahead
