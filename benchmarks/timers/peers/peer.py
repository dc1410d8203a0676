"""The methods of every peer. Each peer has its own loops, as a program would write them there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any


def nothing(*_: Any) -> None:
    """The callback of timers that are not delivered."""


class Peer(ABC):
    """A set of many timers. `when` is always a sequence in their own time, from `own_time`."""

    def own_time(self, ticks: Sequence[int]) -> Sequence[Any]:
        """Convert ticks of a millisecond to what this peer calls time."""
        return ticks

    @abstractmethod
    def schedule(self, when: Iterable[Any]) -> list[Any]:
        """Start one timer for each; return the handles."""

    @abstractmethod
    def cancel(self, handles: Sequence[Any]) -> int:
        """Cancel them, or as many as is bearable; return how many."""

    @abstractmethod
    def restart(self, handles: Sequence[Any], when: Sequence[Any]) -> int:
        """Move each to a new deadline, or as many as is bearable; return how many."""

    @abstractmethod
    def churn(self, when: Sequence[Any]) -> int:
        """Start and cancel one timer after another; return how many."""

    def close(self) -> None:  # noqa: B027
        """Free everything, if that takes more than to forget it."""

    def counted_bytes(self) -> int:
        """Return sys.getsizeof of what holds the timers; 0 if that is out of sight."""
        return 0


class Deliverer(Peer):
    """A peer whose time can pass, at least once."""

    @abstractmethod
    def fill(self, when: Sequence[Any], items: Sequence[Any]) -> list[Any]:
        """Start one timer for each, with an item of its own to deliver."""

    @abstractmethod
    def deliver(self, steps: Sequence[Any]) -> int:
        """Let the time go through `steps` and take expired timers as lists; return how many came."""

    def idle(self, steps: Sequence[Any]) -> None:
        """Let the time go through `steps` on which nothing is due."""
        self.deliver(steps)
