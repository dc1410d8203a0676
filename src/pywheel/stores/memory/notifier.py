"""Wake-ups and presence within one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from ..._errors import StoreClosed
from ...clock import Clock
from ...jobs.job import Due, slice_of
from ..notifier import SILENT, Hints, Member, Notifier, Spare
from ..ownership import owners
from ..sql.transaction import Changes

__all__ = ["MemoryNotifier", "Presence"]

_HINTS_KEPT: Final = 10_000
_HELD: Final = 3.0  # seconds of silence after which a worker begins no more with what it held: `Terms.hold` is less
_LOOK: Final = 0.02  # seconds between looks at who has fallen silent


class Presence:
    """Who is there. Guarded by the store's lock; `tell` is called with it."""

    def __init__(
        self,
        lock: threading.RLock,  # type: ignore[valid-type, unused-ignore]
        clock: Clock,
        delayed: Callable[[Sequence[int]], list[Due]],
    ) -> None:
        self.changing = threading.Condition(lock)
        self.clock = clock
        self.delayed = delayed
        self.closed = False
        self.numbers = count(1)
        self.notifiers: dict[str, MemoryNotifier] = {}
        self.topics: dict[str, frozenset[str]] = {}  # by worker, of those that have announced some
        self.beats: dict[str, float] = {}
        self.behind: dict[str, int] = {}
        self.stirred = 0  # how often topics were paused or resumed
        self.pauses: dict[str, int] = {}  # by topic that is paused: `stirred` as it was

    # ---- what changed -----------------------------------------------------------------------------------------------

    def tell(self, changes: Changes, names: Mapping[int, str]) -> None:
        """Note the hints of a transaction, and wake the workers that it concerns. `names` are those of topics."""
        woken: set[str | None] = set()
        for worker, topics in changes.announced.items():
            self._announce(worker, topics)
            woken |= self.notifiers.keys() - {worker}
        for topic, paused in changes.paused.items():
            self.stirred += 1
            self.pauses.pop(names[topic], None)
            if paused:
                self.pauses[names[topic]] = self.stirred
            woken |= self.notifiers.keys()
        for topic, dues in changes.dues.items():
            for id, due in dues:
                for notifier in self.notifiers.values():
                    if due <= notifier.horizon:
                        notifier.note(id)  # whoever owns the slice: that may change before it asks
                        woken.add(self.owner(names[topic], due))
        for name, notifier in self.notifiers.items():
            if name in woken:
                notifier.rung()

    def _announce(self, worker: str, topics: Sequence[str]) -> None:
        if topics:
            self.topics[worker] = frozenset(topics)
            self.beats[worker] = self.clock.time()
        else:
            self.topics.pop(worker, None)

    # ---- who is there -----------------------------------------------------------------------------------------------

    def gone(self, worker: str) -> bool:
        """Whether a worker has closed."""
        return worker not in self.notifiers

    def leave(self, worker: str) -> None:
        """Note that a worker has closed; have the others look."""
        self.notifiers.pop(worker, None)
        if self.topics.pop(worker, None) is not None:
            for other in self.notifiers.values():
                other.rung()
        self.changing.notify_all()

    def silent(self, worker: str) -> float:
        """Return the seconds since a worker showed that it works."""
        return max(self.clock.time() - self.beats[worker], 0.0)

    def owner(self, topic: str, due: int) -> str | None:
        """Return who owns the slice of a due time: of those that handle its topic and are not silent, or all are."""
        there = [worker for worker, names in self.topics.items() if topic in names]
        table = owners(topic, [worker for worker in there if self.silent(worker) <= SILENT] or there)
        return table[slice_of(due)] if table else None

    def members(self) -> list[Member]:
        """Return all that have announced topics, by name."""
        return [
            Member(worker, topics, self.silent(worker), self.behind.get(worker, 0))
            for worker, topics in sorted(self.topics.items())
        ]

    # ---- pauses -----------------------------------------------------------------------------------------------------

    def wait_quiet(self, topic: str, seconds: float) -> bool:
        """Return once its workers start nothing of a paused topic; False after so long, or if it is not paused."""
        until = time.monotonic() + seconds  # the caller's patience: not the store's clock, which a test may hold
        with self.changing:
            while not self._quiet(topic):
                left = until - time.monotonic()
                if left <= 0 or topic not in self.pauses or self.closed:
                    return False
                self.changing.wait(min(left, _LOOK))
            return True

    def _quiet(self, topic: str) -> bool:
        since = self.pauses.get(topic)
        return since is not None and all(
            notifier.stopped >= since or self.silent(worker) > _HELD
            for worker, notifier in self.notifiers.items()
            if topic in self.topics.get(worker, ())
        )

    def close(self) -> None:
        """Let all waits return."""
        self.closed = True
        for notifier in self.notifiers.values():
            notifier.wake()
        self.changing.notify_all()


class MemoryNotifier(Notifier):
    """A bell, a horizon, and a log of the jobs that changed within it. Made with the store's lock."""

    def __init__(self, presence: Presence, name: str) -> None:
        self.worker = f"{name}@{next(presence.numbers)}"
        self.horizon = -1
        self.stopped = presence.stirred  # up to which pause nothing starts here
        self._presence = presence
        self._lock = presence.changing
        self._bell: SimpleQueue[None] = SimpleQueue()  # what a signal handler may ring while this thread waits for it
        self._rung = False
        self._log: dict[int, None] = {}  # jobs, each once
        self._missed = False
        self._read = presence.stirred
        presence.notifiers[self.worker] = self
        presence.beats[self.worker] = presence.clock.time()

    # ---- for the presence -------------------------------------------------------------------------------------------

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
                self._missed = True  # others have owned its slices
            self._presence.beats[self.worker] = self._presence.clock.time()
            self._presence.behind[self.worker] = behind

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, by name."""
        with self._lock:
            self._open()
            return tuple(self._presence.members())

    def hints(self) -> Hints:
        """Return what changed since the last call. One query, if anything did."""
        with self._lock:
            self._open()
            ids = list(self._log)
            dues = self._presence.delayed(ids) if ids else []
            reload = self._missed or self._presence.stirred > self._read
            self._missed, self._read, self._log = False, self._presence.stirred, {}
            mine = [due for due in dues if self._presence.owner(due.topic, due.due) == self.worker]
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
            self._presence.leave(self.worker)

    def _open(self) -> None:
        if self._presence.closed:
            raise StoreClosed("this store is closed: open another one")
