"""Who is there, for one opened store: the list of workers as the server answered it last."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ...clock import Clock
from ..notifier import Member
from ..ownership import owners, shards_of

if TYPE_CHECKING:
    from .notifier import RedisNotifier

__all__ = ["SILENT", "Presence", "Roster"]

SILENT: Final = 3.5
"""Seconds without a beat after which a worker owns nothing: a beat is a query, and comes about once a second."""
_BUSY: Final = 2.0  # seconds: who claimed jobs so long ago is busy


class Roster:
    """All workers that have announced topics, as of one answer."""

    __slots__ = ("_at", "_beats", "_clock", "_heard", "topics", "version")

    def __init__(
        self, clock: Clock, version: bytes, at: int, beats: Sequence[bytes], topics: dict[str, frozenset[str]]
    ) -> None:
        self._clock = clock
        self._heard = clock.time()
        self._at = at
        self.version = version
        self.topics = topics
        pairs = iter(beats)
        said = {worker.decode(): beat.split() for worker, beat in zip(pairs, pairs, strict=True)}
        self._beats = {worker: (int(when), int(behind)) for worker, (when, behind, _) in said.items()}

    def silent(self, worker: str) -> float:
        """Return the seconds since a worker has shown that it works."""
        when, _ = self._beats.get(worker, (self._at, 0))
        return abs(self._at - when) / 1000 + self._clock.time() - self._heard

    def members(self) -> tuple[Member, ...]:
        """Return all workers, by name."""
        beats = self._beats
        return tuple(
            Member(worker, topics, self.silent(worker), beats[worker][1] if worker in beats else 0)
            for worker, topics in sorted(self.topics.items())
        )

    def heard(self, topic: str) -> list[str]:
        """Return the workers that own the shards of a topic: those that are not silent, or all are."""
        there = [worker for worker, topics in self.topics.items() if topic in topics]
        return [worker for worker in there if self.silent(worker) <= SILENT] or there

    def owners(self, topic: str) -> tuple[str, ...]:
        """Return the owner of each shard of a topic, () without workers."""
        return owners(topic, self.heard(topic))

    def masks(self, worker: str) -> dict[str, int]:
        """Return for each topic of a worker the mask of the shards that it owns."""
        return {topic: shards_of(worker, topic, self.heard(topic)) for topic in self.topics.get(worker, ())}


def topics_of(members: Sequence[bytes]) -> dict[str, frozenset[str]]:
    """Return the topics of each worker, from an answer."""
    pairs = iter(members)
    return {worker.decode(): frozenset(json.loads(topics)) for worker, topics in zip(pairs, pairs, strict=True)}


class Presence:
    """What the notifiers of an opened store share. From any thread."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.closed = False
        self.roster: Roster | None = None
        self.stale = True
        """Whether somebody came or went since the roster was read."""
        self.lock = threading.Lock()
        self.listening: weakref.WeakSet[RedisNotifier] = weakref.WeakSet()
        self._busy_until = 0.0  # by the monotonic clock

    def claimed(self) -> None:
        """Note that jobs are claimed here."""
        self._busy_until = self.clock.time() + _BUSY

    @property
    def busy(self) -> bool:
        """Whether jobs were claimed here of late. Then others have some too, and a death is looked for more often."""
        return self.clock.time() < self._busy_until

    def learn(self, version: bytes, at: int, beats: Sequence[bytes], members: Any) -> Roster:
        """Take in an answer; `members` is None if nobody has come or gone since the roster that is known."""
        known = self.roster
        topics = known.topics if members is None and known is not None else topics_of(members or ())
        self.roster = Roster(self.clock, version, at, beats, topics)
        self.stale = False
        return self.roster

    def renewed(self) -> None:
        """Have everybody read all again: the server is another one, or has lost something."""
        self.roster = None
        self.stale = True
        with self.lock:
            notifiers = list(self.listening)
        for notifier in notifiers:
            notifier.renew()

    def after_fork(self, clock: Clock) -> None:
        """Begin anew in a forked child: what listens is the parent's."""
        self.lock = threading.Lock()
        for notifier in list(self.listening):
            notifier.after_fork()
        self.listening.clear()
        self.clock, self.roster, self.stale = clock, None, True

    def close(self) -> None:
        """Let all waits return."""
        self.closed = True
        with self.lock:
            notifiers = list(self.listening)
        for notifier in notifiers:
            notifier.wake()
