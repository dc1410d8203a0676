"""Which shards this worker owns, whom it sees beside itself, and whose overdue jobs it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ..stores.notifier import OVERLOOKED, Member, Notifier, Spare, waiters, workers
from ..stores.ownership import ALL, owners, shards_of

__all__ = ["FORLORN", "OVERDUE", "Ownership"]

OVERDUE: Final = 250
"""ms after which a due job of an owner without room is taken by the one that is next and has some."""
FORLORN: Final = 1_000
"""ms after which it is taken by any worker with room."""
_DOUBTED: Final = 0.5  # seconds without a beat after which an owner is passed by if a job of anybody is overlooked
_BESIDE: Final = 0.25  # seconds between looks while others are there
_ALONE: Final = 1.0
_GONE: Final = 1.25  # times as long as the silence that ends its ownership: then a worker's shards go to the others
_RECOVERY: Final = ""  # the topic whose first shard's owner ends lost leases for all


class Ownership:
    """What follows from the list of workers. Only the dispatcher uses it."""

    def __init__(self, notifier: Notifier, topics: Collection[str]) -> None:
        self._notifier = notifier
        self._topics = frozenset(topics)
        self.look_at = 0.0
        self._members: tuple[Member, ...] = ()
        self.waiters: dict[str, list[str]] = {}
        """By topic, who waits for the ends of its jobs."""
        self._first: int | None = None  # when the first job of topics with room is due, if the store was asked just now
        self._keeps_up = True
        self._there: dict[str, frozenset[str]] = {}  # the topics of those that are not gone, this worker among them

    def look(self, now: float, behind: int, spare: Spare = tuple) -> bool:
        """Show that this worker works, and see who else does; return whether that has changed."""
        self._first = self._notifier.beat(behind, spare)
        self._keeps_up = behind <= 0
        members = self._notifier.members()
        self._members = tuple(workers(members))
        self.waiters = waiters(members) if len(members) > len(self._members) else {}
        me = self._notifier.worker
        longest = _GONE * self._notifier.silent
        there = {m.worker: m.topics for m in self._members if m.silent <= longest or m.worker == me}
        there[me] = self._topics
        self.look_at = now + (_ALONE if len(there) == 1 and not self.waiters else _BESIDE)
        changed, self._there = there != self._there, there
        return changed

    def shards(self, topic: str) -> int:
        """Return the mask of this worker's shards of a topic."""
        return shards_of(self._notifier.worker, topic, self._handling(topic))

    def rescues(self, topics: Iterable[str], now: int) -> dict[str, int]:
        """Return for each topic the mask of shards whose overdue jobs this worker takes for others.

        Their owners have no room, or overlook them. They are divided among those that have some, so that no two go
        after the same jobs; for a while. `topics` are those for which this worker has room.
        """
        me = self._notifier.worker
        late = {m.worker: m.behind for m in self._members if 0 < m.behind < now - OVERDUE and m.worker != me}
        overlooking = self._overlooking(now)
        late.update(dict.fromkeys(overlooking - late.keys(), self._first or 0))
        late = {worker: since for worker, since in late.items() if worker in self._there}
        if not late:
            return {}
        full = {member.worker for member in self._members if member.behind} | overlooking
        full.discard(me)
        anybody = min(late.values()) < now - FORLORN
        found = {}
        for topic in topics:
            handling = self._handling(topic)
            if late.keys().isdisjoint(handling):
                continue
            theirs = sum(1 << shard for shard, owner in enumerate(owners(topic, handling)) if owner in late)
            mine = ALL if anybody else shards_of(me, topic, [name for name in handling if name not in full])
            if theirs & mine:
                found[topic] = theirs & mine
        return found

    def _overlooking(self, now: int) -> set[str]:
        """Return who may not see a job that is due: it stands still, or was never told. This worker may be one.

        Whoever beats is taken at its word a little longer. One that is behind knows of jobs, and is helped anyhow.
        """
        if self._first is None or self._first > now - OVERLOOKED:
            return set()
        anybody = self._first <= now - FORLORN
        me = self._notifier.worker
        found = {m.worker for m in self._members if m.behind <= 0 and (anybody or m.silent >= _DOUBTED)} - {me}
        return found | {me} if self._keeps_up else found

    @property
    def missed(self) -> bool:
        """Whether this worker is not among those that are known to the store."""
        return all(member.worker != self._notifier.worker for member in self._members)

    @property
    def recovers(self) -> bool:
        """Whether it is this worker that ends the leases that are over."""
        return owners(_RECOVERY, tuple(self._there))[0] == self._notifier.worker

    def _handling(self, topic: str) -> list[str]:
        return [worker for worker, topics in self._there.items() if topic in topics]
