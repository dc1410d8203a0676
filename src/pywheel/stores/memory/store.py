"""A store in the memory of one process: for tests, for simulations, and as the contract in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from itertools import islice

from ...clock import Clock, MonotonicClock
from ...jobs import commands as o
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic, shard_of
from ..contract import Hints, Listener, Store
from .commands import MemoryCommands
from .state import MemoryListener

__all__ = ["MemoryStore"]


class MemoryStore(MemoryCommands, Store):
    """Jobs in dicts. Lost with the process; the worker's and the queue's behaviour is that of a durable store."""

    durability = "memory"

    def __init__(self, url: str = "memory:", *, clock: Clock | None = None) -> None:
        super().__init__(url, clock or MonotonicClock())

    def get(self, ref: o.Ref) -> Job | None:
        """Return a job, or None."""
        with self.lock:
            self._open()
            entry = self._find(ref)
            return self._job(entry, self.clock.wall()) if entry else None

    def jobs(self, topic: str | None, state: State | None, after: int, limit: int) -> list[Job]:
        """Return jobs by id. O(jobs)."""
        with self.lock:
            self._open()
            now = self.clock.wall()
            jobs = (self._job(entry, now) for id, entry in self._jobs.items() if id > after)
            return list(islice((j for j in jobs if topic in (None, j.topic) and state in (None, j.state)), limit))

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic. O(jobs)."""
        with self.lock:
            self._open()
            now = self.clock.wall()
            tally = {name: dict.fromkeys(State, 0) for name in sorted(self._paused)}
            for entry in self._jobs.values():
                tally[entry.new.topic][self._job(entry, now).state] += 1
            return {name: Counts(*states.values()) for name, states in tally.items()}

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        with self.lock:
            self._open()
            return [Topic(name, paused) for name, paused in sorted(self._paused.items())]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        with self.lock:
            self._open()
            entry = self._jobs.get(id)
            if entry is None:
                return []
            return entry.history + ([self._attempt(entry, entry.run, None, None, None)] if entry.run else [])

    def next_due(self) -> int | None:
        """Return the earliest time at which something more could be claimed."""
        with self.lock:
            self._open()
            times = [due[0][0] for due in self._due.values() if due]
            times += [
                entry.run.lease + entry.run.backoff
                for entry in self._running.values()
                if entry.run and entry.claims - entry.forgiven < entry.run.max_attempts
            ]
            return min(times, default=None)

    def window(
        self, topics: Collection[str], shards: Collection[int], after: tuple[int, int], until: int, limit: int
    ) -> list[Due]:
        """Return delayed jobs by (due, id)."""
        with self.lock:
            self._open()
            found: list[Due] = []
            for topic in topics:
                if not self._paused.get(topic):
                    due = self._due.get(topic, [])
                    part = due[bisect_right(due, after) : bisect_right(due, (until, self._last))]
                    found += islice((Due(d, id, topic) for d, id in part if shard_of(id) in shards), limit)
            return sorted(found)[:limit]

    def first_due(self, topics: Collection[str], after: int) -> int | None:
        """Return the earliest due time above `after`."""
        with self.lock:
            self._open()
            times = []
            for topic in topics:
                due = self._due.get(topic, [])
                at = bisect_right(due, (after, self._last))
                times += [when for when, _ in due[at : at + 1]]
            return min(times, default=None)

    def hints(self, cursor: int) -> Hints:
        """Return what changed since `cursor`."""
        with self.lock:
            self._open()
            if cursor < 0:
                return Hints(self._hinted, [], reload=False)
            missing = self._hinted - cursor
            new = islice(self._hints, max(len(self._hints) - missing, 0), None)
            entries = [self._jobs[id] for id in new if id in self._jobs]
            due = [Due(e.due, e.id, e.new.topic) for e in entries if e.state is State.DELAYED and not e.run]
            return Hints(self._hinted, due, missing > len(self._hints) or self._reload_at > cursor)

    def listen(self, name: str) -> Listener:
        """Return a new listener."""
        with self.lock:
            self._open()
            self._listened += 1
            listener = MemoryListener(self, f"{name}@{self._listened}")
            self._listeners.append(listener)
            return listener

    def close(self) -> None:
        """Let go of everything: the jobs are lost."""
        with self.lock:
            self._closed = True
