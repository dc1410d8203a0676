"""Which slices of time this worker owns, whom it sees beside itself, and whether jobs of others are overdue."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..stores.notifier import OVERLOOKED, Member, Notifier, Spare, waiters, workers
from ..stores.ownership import owners, shards_of

__all__ = ["Membership"]

_OVERDUE: Final = 250
"""ms after which a due job of an owner without room is taken by any worker that has some."""
_BESIDE: Final = 0.25  # seconds between looks while others are there
_ALONE: Final = 1.0
_GONE: Final = 1.25  # times as long as the silence that ends its ownership: then a worker's shards go to the others
_RECOVERY: Final = ""  # the topic whose first shard's owner ends lost leases for all


class Membership:
    """What follows from the list of workers. Only the dispatcher uses it."""

    def __init__(self, notifier: Notifier, topics: Collection[str]) -> None:
        self._notifier = notifier
        self._topics = frozenset(topics)
        self.look_at = 0.0
        self._members: tuple[Member, ...] = ()
        self.waiters: dict[str, list[str]] = {}
        """By topic, who waits for the ends of its jobs."""
        self._first: int | None = None  # when the first job of topics with room is due, if the store was asked just now
        self._there: dict[str, frozenset[str]] = {}  # the topics of those that are not gone, this worker among them
        self.recovers = False
        """Whether it is this worker that ends the leases that are over."""

    def look(self, now: float, behind: int, spare: Spare = tuple) -> bool:
        """Show that this worker works, and see who else does; return whether that has changed."""
        self._first = self._notifier.beat(behind, spare)
        members = self._notifier.members()
        self._members = tuple(workers(members))
        self.waiters = waiters(members) if len(members) > len(self._members) else {}
        me = self._notifier.worker
        longest = _GONE * self._notifier.silent
        there = {m.worker: m.topics for m in self._members if m.silent <= longest or m.worker == me}
        there[me] = self._topics
        self.look_at = now + (_ALONE if len(there) == 1 and not self.waiters else _BESIDE)
        if there == self._there:
            return False
        self._there = there
        self.recovers = owners(_RECOVERY, tuple(there))[0] == me
        return True

    def shards(self, topic: str) -> int:
        """Return the mask of this worker's shards of a topic."""
        return shards_of(self._notifier.worker, topic, self._handling(topic))

    def some_overdue(self, now: int) -> bool:
        """Whether jobs are due for long that others know and have no room for, or that nobody seems to know."""
        if self._first is not None and self._first <= now - OVERLOOKED:
            return True
        me = self._notifier.worker
        return any(0 < member.behind < now - _OVERDUE for member in self._members if member.worker != me)

    @property
    def missed(self) -> bool:
        """Whether this worker is not among those that are known to the store."""
        return all(member.worker != self._notifier.worker for member in self._members)

    def _handling(self, topic: str) -> list[str]:
        return [worker for worker, topics in self._there.items() if topic in topics]
