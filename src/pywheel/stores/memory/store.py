"""A store in the memory of one process: for tests, for simulations, and as the contract in plain Python."""

from __future__ import annotations

from ...clock import Clock, MonotonicClock
from ..contract import Store
from ..notifier import Member, Notifier, workers
from ..verify import Finding
from .commands import MemoryCommands
from .queries import MemoryQueries
from .verify import verify

__all__ = ["MemoryStore"]


class MemoryStore(MemoryCommands, MemoryQueries, Store):
    """Jobs in dicts. Lost with the process; the worker's and the queue's behaviour is that of a durable store."""

    durability = "memory"

    def __init__(self, url: str = "memory:", *, clock: Clock | None = None) -> None:
        super().__init__(url, clock or MonotonicClock())

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        with self.lock:
            self._open()
            return self._add_notifier(name)

    def workers(self) -> list[Member]:
        """Return all workers that have announced topics."""
        with self.lock:
            self._open()
            return workers(self._presence.members())

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long."""
        with self.lock:
            self._open()
        return self._presence.wait_quiet(topic, seconds, lambda worker: self._has_held(worker, topic))

    def _has_held(self, worker: str, topic: str) -> bool:
        """Whether a worker may still begin with a job of a topic."""
        now = self.clock.wall()
        runs = (entry.run for entry in self._running.values() if (entry.worker, entry.new.topic) == (worker, topic))
        return any(run is not None and not run.begun and now < run.lease for run in runs)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is kept."""
        with self.lock:
            self._open()
            return verify(self, repair=repair)

    def close(self) -> None:
        """Let go of everything: the jobs are lost."""
        with self.lock:
            self._closed = True
            self._presence.close()
