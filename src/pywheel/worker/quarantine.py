"""Jobs that may have killed their process are started one at a time, so that they take no one with them again.

Whoever was running when a process died is a suspect, the culprit among them. While no two suspects run together, a
culprit can hit only jobs that were never hit before. A suspect that goes on for longer than its probation is taken for
harmless, and may be hit once more; so the probation of each further attempt is four times as long, until it runs to its
end alone. Once a process has survived several suspects it takes more at a time, doubling, so that what died with a
whole host is not handled one by one.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Quarantine"]

_PROBATION: Final = 0.25  # seconds after which a suspect that still runs is taken for harmless, at its second attempt
_LONGER: Final = 4  # times, at each attempt after that
_LONGEST: Final = 8  # attempts for which it becomes longer
_SINGLY: Final = 16  # so many are tried one by one


class Quarantine:
    """Which suspects are on probation. Only the dispatcher uses it."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, int], float] = {}
        self._survived = 0

    def __len__(self) -> int:
        return len(self._until)

    def room(self, now: float) -> int:
        """Return how many more may be claimed."""
        for name in [name for name, until in self._until.items() if until <= now]:
            self.release(name)
        return max((1 << self._survived // _SINGLY) - len(self._until), 0)

    def free_at(self, now: float) -> float:
        """Return when one more may be claimed, unless one ends before."""
        return now if self.room(now) else min(self._until.values())

    def begin(self, name: tuple[int, int], now: float, attempt: int, lease: float) -> None:
        """Note that a suspect begins with an attempt, counted from 1. Its probation is no longer than its lease (s)."""
        self._until[name] = now + min(_PROBATION * _LONGER ** min(max(attempt - 2, 0), _LONGEST), lease)

    def release(self, name: tuple[int, int]) -> None:
        """Note that a suspect has ended, or goes on for long."""
        if self._until.pop(name, None) is not None and self._survived < 10 * _SINGLY:
            self._survived += 1
