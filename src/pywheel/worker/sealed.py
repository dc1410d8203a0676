"""Jobs whose bodies this worker cannot read, as a key is missing: they stay as they are, and others may have them.

What was claimed and cannot be read is given back, unspent. After that it is looked at once a minute, without a claim,
and claimed again when it can be read. While there are such jobs this worker says that it is behind, so that workers
with the key take them. A topic of which many in a row cannot be read rests between claims, for longer each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .._errors import BadBody, StoreError
from ..events import BodiesSealed, Events
from ..jobs.commands import Claimed
from ..stores.contract import Store
from .leases import Lease
from .settling import Settling
from .topics import Topic

__all__ = ["Sealed"]

_AGAIN: Final = 60.0  # seconds between looks at a job, and between events of a topic
_LOOKS: Final = 20  # jobs looked at in one step
_ROW: Final = 1_000  # jobs in a row after which their topic rests
_RESTS: Final = (0.5, 60.0)  # seconds: first, longest


class Sealed:
    """What could not be read lately. Only the dispatcher uses it."""

    def __init__(self, store: Store, settling: Settling, events: Events) -> None:
        self._store = store
        self._settling = settling
        self._events = events
        self._jobs: dict[int, float] = {}  # when each is looked at again, the first first
        self._told: dict[Topic, float] = {}  # when that was said last
        self._rows: dict[Topic, int] = {}  # so many in a row could not be read
        self._rests: dict[Topic, float] = {}  # for how long each rested
        self._since = 0

    def behind(self, now: float) -> int:
        """Return since when there are such jobs, wall clock in ms; 0 if there are none."""
        while self._jobs:
            id, look_at = next(iter(self._jobs.items()))
            if now < look_at + 2 * _AGAIN:
                return self._since
            del self._jobs[id]  # it has not come again: somebody has it, or it is gone
        return 0

    def claimable(self, topic: Topic, ids: Sequence[int], now: float) -> tuple[int, ...]:
        """Return those of a window's ids that are to be claimed; it forgets the others until it is read again."""
        if not self._jobs:
            return tuple(ids)
        looks, found = _LOOKS, []
        for id in ids:
            look_at = self._jobs.get(id)
            if look_at is not None and look_at <= now and looks:
                looks -= 1
                if self._can_be_read(id, now):
                    look_at = None
            if look_at is None:
                found.append(id)
            else:
                topic.window.settled(id)
        return tuple(found)

    def _can_be_read(self, id: int, now: float) -> bool:
        del self._jobs[id]
        try:
            job = self._store.get(id)
            if job is not None:
                self._store.opened(job)
        except (BadBody, StoreError):
            self._jobs[id] = now + _AGAIN
            return False
        return True

    def leases(self, topic: Topic, outcome: Claimed, asked: float, now: int) -> list[Lease]:
        """Return the claims that can be worked on, their bodies plain. The others go back to the store."""
        found: list[Lease] = []
        sealed: list[Lease] = []
        wrong: BadBody | None = None
        opened = self._store.opened
        for number, job in enumerate(outcome.jobs):
            begun = number < outcome.begun
            try:
                found.append(Lease(opened(job), topic, asked, begun=begun))
            except BadBody as error:
                wrong = error
                sealed.append(Lease(job, topic, asked, begun=begun))
        if found and self._rows:
            self._rows.pop(topic, None)
            self._rests.pop(topic, None)
        if wrong is not None:
            self._give_back(topic, sealed, asked, now)
            if not found:
                self._rest(topic, len(sealed), asked)
            if asked >= self._told.get(topic, 0.0):
                self._told[topic] = asked + _AGAIN
                self._events.tell(BodiesSealed(topic.name, len(sealed), wrong))
        return found

    def _rest(self, topic: Topic, jobs: int, asked: float) -> None:
        """Let a topic rest if nothing of it can be read: trying its jobs one after the other would cost all others."""
        self._rows[topic] = self._rows.get(topic, 0) + jobs
        if self._rows[topic] >= _ROW:
            first, longest = _RESTS
            self._rests[topic] = min(2 * self._rests.get(topic, first / 2), longest)
            topic.retry_at = asked + self._rests[topic]

    def _give_back(self, topic: Topic, leases: Sequence[Lease], asked: float, now: int) -> None:
        if not self._jobs:
            self._since = now
        topic.inside += len(leases)
        for lease in leases:
            self._jobs.pop(lease.job.id, None)
            self._jobs[lease.job.id] = asked + _AGAIN
            lease.handled = False
            self._settling.done(lease)
