"""Wake-ups and presence within one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from ..._errors import StoreClosed
from ...clock import Clock
from ...jobs.job import Due, shard_of
from ..notifier import SILENT, Hints, Member, Notifier, Spare
from ..ownership import owners

__all__ = ["MemoryNotifier", "Presence"]

_HINTS_KEPT: Final = 10_000

_LOOK: Final = 0.02  # seconds between looks at who has fallen silent


class Presence:
    """Who is there. Guarded by the store's lock; `changed` and `stir` are called while it is held."""

    def __init__(self, lock: threading.RLock, clock: Clock) -> None:  # type: ignore[valid-type, unused-ignore]
        self.changing = threading.Condition(lock)
        self.clock = clock
        self.closed = False
        self.numbers = count(1)
        self.notifiers: dict[str, MemoryNotifier] = {}
        self.topics: dict[str, frozenset[str]] = {}  # by worker, of those that have announced some
        self.beats: dict[str, float] = {}
        self.behind: dict[str, int] = {}
        self.stirred = 0  # how often a topic was paused or resumed
        self.pauses: dict[str, int] = {}  # topic: `stirred` as it was paused
        self.woken: set[str] = set()  # whom the changes since the last `ring` concern

    def announce(self, worker: str, topics: tuple[str, ...]) -> None:
        """Note which topics a worker handles; have the others look."""
        if topics:
            self.topics[worker] = frozenset(topics)
            self.beats[worker] = self.clock.time()
        else:
            self.topics.pop(worker, None)
        self.woken |= self.notifiers.keys() - {worker}

    def gone(self, worker: str) -> None:
        """Note that a worker has stopped."""
        self.notifiers.pop(worker, None)
        if worker in self.topics:
            self.announce(worker, ())
            self.ring()

    def silent(self, worker: str) -> float:
        """Return the seconds since a worker showed that it works."""
        return max(self.clock.time() - self.beats[worker], 0.0)

    def owner(self, id: int, topic: str) -> str | None:
        """Return who owns the shard of a job: of those that handle its topic and are not silent, or all are."""
        there = [worker for worker, names in self.topics.items() if topic in names]
        table = owners(topic, [worker for worker in there if self.silent(worker) <= SILENT] or there)
        return table[shard_of(id)] if table else None

    def changed(self, id: int, topic: str, due: int) -> None:
        """Note that a job is, or was until now, due then."""
        if not self.notifiers:  # as where jobs are put alone
            return
        concerned = [notifier for notifier in self.notifiers.values() if due <= notifier.horizon]
        for notifier in concerned:
            notifier.note(id)  # whoever owns the shard: that may change before it asks
        if concerned and (owner := self.owner(id, topic)) is not None:
            self.woken.add(owner)

    def stir(self, topic: str, paused: bool) -> None:
        """Note that a topic was paused or resumed."""
        self.stirred += 1
        self.pauses.pop(topic, None)
        if paused:
            self.pauses[topic] = self.stirred
        self.woken |= self.notifiers.keys()

    def ring(self) -> None:
        """Wake whom the changes since the last call concern."""
        for worker in self.woken & self.notifiers.keys():
            self.notifiers[worker].rung()
        self.woken.clear()

    def quiet(self, topic: str, held: Callable[[str], bool]) -> bool:
        """Whether all workers have said that nothing of a paused topic starts with them, or cannot start any.

        `held` says whether a worker holds claims that it may still begin with.
        """
        since = self.pauses.get(topic)
        if since is None:
            return False
        return all(
            notifier.stopped >= since or (self.silent(worker) > SILENT and not held(worker))
            for worker, notifier in self.notifiers.items()
            if topic in self.topics.get(worker, ())
        )

    def wait_quiet(self, topic: str, seconds: float, held: Callable[[str], bool]) -> bool:
        """Return once they are quiet; False after so long, or if the topic is not paused (any more)."""
        limit = time.monotonic() + seconds  # the caller's patience: not the store's clock, which a test may hold
        with self.changing:
            while not self.quiet(topic, held):
                left = limit - time.monotonic()
                if left <= 0 or topic not in self.pauses or self.closed:
                    return False
                self.changing.wait(min(left, _LOOK))
            return True

    def members(self) -> list[Member]:
        """Return all that have announced topics, by name."""
        return [
            Member(worker, topics, self.silent(worker), self.behind.get(worker, 0))
            for worker, topics in sorted(self.topics.items())
        ]

    def close(self) -> None:
        """Let all waits return."""
        self.closed = True
        for notifier in self.notifiers.values():
            notifier.wake()
        self.changing.notify_all()


class MemoryNotifier(Notifier):
    """An event, and a horizon that the store reads."""

    def __init__(self, presence: Presence, name: str, due_now: Callable[[int], Due | None]) -> None:
        self.worker = f"{name}@{next(presence.numbers)}"
        self.horizon = -1
        self.stopped = presence.stirred  # up to which pause nothing starts here
        self._presence = presence
        self._lock = presence.changing
        self._due_now = due_now
        self._bell: SimpleQueue[None] = SimpleQueue()  # what a signal handler may ring while this thread waits for it
        self._rung = False
        self._log: dict[int, None] = {}  # jobs, each once
        self._missed = False
        self._read = presence.stirred
        presence.notifiers[self.worker] = self
        presence.beats[self.worker] = presence.clock.time()

    # ---- for the store ----------------------------------------------------------------------------------------------

    def note(self, id: int) -> None:
        """Keep a hint, until too many are kept."""
        if len(self._log) >= _HINTS_KEPT:
            self._missed = True
            self._log.clear()
        self._log[id] = None

    def rung(self) -> None:
        """Let it look."""
        self._rung = True
        self.wake()

    # ---- for the worker ---------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon."""
        with self._lock:
            self.horizon = horizon

    def beat(self, behind: int, spare: Spare = tuple) -> None:  # noqa: ARG002
        """Note the time."""
        with self._lock:
            if self._presence.silent(self.worker) > SILENT:
                self._missed = True  # others have owned its shards
            self._presence.beats[self.worker] = self._presence.clock.time()
            self._presence.behind[self.worker] = behind

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, by name."""
        with self._lock:
            self._open()
            return tuple(self._presence.members())

    def hints(self) -> Hints:
        """Return what changed since the last call."""
        with self._lock:
            self._open()
            reload = self._missed or self._presence.stirred > self._read
            self._missed, self._read = False, self._presence.stirred
            ids, self._log = self._log, {}
            known = (due for id in ids if (due := self._due_now(id)) is not None)
            mine = [due for due in known if self._presence.owner(due.id, due.topic) == self.worker]
            return Hints(mine, reload)

    def wait(self, seconds: float) -> bool:
        """Return when rung or woken."""
        with suppress(Empty):
            self._bell.get(not self._presence.closed, max(seconds, 0))
        with suppress(Empty):
            while True:
                self._bell.get_nowait()
        rung, self._rung = self._rung, False
        return rung

    def wake(self) -> None:
        """End a wait."""
        if self._bell.empty():
            self._bell.put(None)

    def ring(self, worker: str) -> None:
        """Wake another worker."""
        other = self._presence.notifiers.get(worker)
        if other is not None:
            other.rung()

    def quiet(self) -> None:
        """Say that nothing starts here any more of what was paused when `hints` said so."""
        with self._lock:
            self.stopped = self._read
            self._lock.notify_all()

    def close(self) -> None:
        """Stop listening, and be gone for the others."""
        with self._lock:
            self._presence.gone(self.worker)
            self._lock.notify_all()

    def _open(self) -> None:
        if self._presence.closed:
            raise StoreClosed("this store is closed: open another one")
