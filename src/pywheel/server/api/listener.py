"""Who waits by HTTP has a place among the workers: it hears what is put, looks what is due, and ends lost leases."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from ...jobs.commands import Announce, Expire
from ...jobs.job import Due
from ...jobs.queries import GetNextDues, GetNextLease
from ...stores.contract import Store, intact
from ...stores.notifier import Notifier, workers
from ...stores.ownership import shards_of, turn

__all__ = ["Listener"]

_ALONE: Final = 1.0  # seconds between looks at all topics
_BESIDE: Final = 0.25  # while others work there too
_OVERDUE: Final = 250  # ms after which a job in another's slice of time is taken
_DEPUTY: Final = 500  # ms after which a lost lease is ended that whoever is in charge has not ended
_HORIZON: Final = 5_000  # ms: what is due later is read before it is
_EXPIRED: Final = 200


class Listener:
    """The place among the workers. Used by one thread only."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._look_at = 0.0
        self._lease: int | None = None  # when to end one that is lost, ms
        self._rung = True
        self._topics: tuple[str, ...] = ()
        self._handling: dict[str, list[str]] = {}  # workers by topic

    def announce(self, topics: tuple[str, ...]) -> None:
        """Say which topics are waited for."""
        self._topics = topics
        self._notifier.publish(self._store.clock.wall() + _HORIZON)
        intact(self._store.apply([Announce(self._notifier.worker, topics)]))
        self._look_at = 0.0

    def look(self, behind: int) -> bool:
        """Show that somebody listens, see who else does, and end lost leases; whether it was time for it."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._notifier.beat(behind)
        self._notifier.publish(self._store.clock.wall() + _HORIZON)
        members = self._notifier.members()
        me = self._notifier.worker
        if all(member.worker != me for member in members):
            intact(self._store.apply([Announce(me, self._topics)]))
            members = self._notifier.members()
        there = [
            member
            for member in workers(members)
            if member.worker == me or member.silent <= 1.25 * self._notifier.silent
        ]
        self._handling = {
            topic: [member.worker for member in there if topic in member.topics] for topic in self._topics
        }
        alone = len(there) <= 1
        self._look_at = now + (_ALONE if len(members) <= 1 else _BESIDE)
        self._end_lost(0 if alone else _DEPUTY)
        return True

    def _end_lost(self, later: int) -> None:
        """End the leases that have been over for so many ms."""
        lease = self._store.ask(GetNextLease())
        if lease is not None and self._store.clock.wall() >= lease + later:
            [expired] = intact(self._store.apply([Expire(_EXPIRED)]))
            lease = expired.next_lease
        self._lease = None if lease is None else lease + later

    def hints(self) -> Iterable[Due] | None:
        """Return what was put or rescheduled since; None if all is to be read again."""
        if not self._rung:
            return ()
        found = self._notifier.hints()
        self._rung = False
        if found.reload:
            self._notifier.quiet()  # nothing is begun here that a pause must wait for
            return None
        return found.due

    def firsts(self, topics: Iterable[str]) -> dict[str, int | None]:
        """Return when somebody is to be woken for topics. One query.

        What is due in another's slice of time is asked for a while later: its owner comes first.
        """
        names = list(topics)
        if not names:
            return {}
        me = self._notifier.worker
        found: dict[str, int | None] = dict.fromkeys(names)
        for name, due in self._store.ask(GetNextDues(names)).items():
            handling = self._handling.get(name)
            found[name] = turn(shards_of(me, name, handling), due, _OVERDUE) if handling else due
        return found

    def wait(self, seconds: float) -> None:
        """Wait until there is something to do."""
        now = time.monotonic()
        if self._lease is not None:
            self._look_at = min(self._look_at, now + max(self._store.clock.until(self._lease), 0.0))
        self._rung |= self._notifier.wait(max(min(seconds, self._look_at - now), 0.0))
