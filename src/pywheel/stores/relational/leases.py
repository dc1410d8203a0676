"""When some lease may be over at the earliest, as far as one process knows it without asking each time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["Leases"]

_FRESH: Final = 1.5  # seconds that what was read is good for: then others may have given leases


class Leases:
    """The earliest end of a lease as it was read last, and of the leases that this process has given since."""

    def __init__(self) -> None:
        self._read: tuple[float, int | None] | None = None  # when, and what
        self._given: list[tuple[float, int]] = []

    def found(self, lease: int | None, moment: float) -> None:
        """Take in the earliest end of a lease, as it was at a monotonic time."""
        self._read = (moment, lease)
        self._given = [given for given in self._given if given[0] >= moment]  # the others were there to be read

    def gave(self, lease: int) -> None:
        """Take in the earliest end of leases that this process has given."""
        self._given.append((time.monotonic(), lease))

    def first(self, read: Callable[[], int | None]) -> int | None:
        """Return the earliest end of a lease; what was read is read again once it is old."""
        moment = time.monotonic()
        if self._read is None or moment - self._read[0] > _FRESH:
            self.found(read(), moment)
        leases = [lease for _, lease in self._given]
        if self._read is not None and self._read[1] is not None:
            leases.append(self._read[1])
        return min(leases, default=None)
