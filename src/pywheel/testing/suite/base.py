"""What all parts of the conformance suite share: a store, a clock that stands still, and shorthand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

from ...clock import Clock, ManualClock
from ...jobs.commands import Op, Put, Reserve, Terms
from ...jobs.job import SHARDS, Counts, Job, NewJob
from ...stores.contract import Store

__all__ = ["ALL", "FAR", "NOW", "START", "TERMS", "StoreTests"]

NOW = 1_700_000_000_000
FAR = NOW + 10**9
TERMS = Terms(ttr=1_000, max_attempts=3)
ALL = frozenset(range(SHARDS))
START = (-1, 0)


class StoreTests(ABC):
    """Each test gets a new, empty store and a clock that stands still."""

    clock: ManualClock
    store: Store

    @abstractmethod
    def make_store(self, clock: Clock) -> Store:
        """Return a new, empty store whose clock is this one."""

    def reopen(self) -> None:  # noqa: B027  (a store that need not be reopened is not)
        """Called between operations; a durable store may be closed and opened here. `self.store` is used after it."""

    def setup_method(self) -> None:
        """Prepare for a test."""
        self.clock = ManualClock(wall=NOW)
        self.store = self.make_store(self.clock)

    def teardown_method(self) -> None:
        """Clean up after a test."""
        self.store.close()

    # ---- shorthand --------------------------------------------------------------------------------------------------

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass."""
        self.clock.advance(timedelta(milliseconds=milliseconds))

    def apply(self, op: Op) -> Any:
        """Apply one command; raise its outcome if it is an error."""
        [outcome] = self.store.apply([op])
        self.reopen()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put(self, topic: str = "t", body: bytes = b"b", due: int = NOW, **more: Any) -> int:
        """Put one job; return its id."""
        [id] = self.apply(Put((NewJob(topic, body, due, **more),)))
        return int(id)

    def reserve(self, limit: int = 100, topic: str = "t", terms: Terms = TERMS) -> list[Job]:
        """Reserve jobs of a topic."""
        jobs: list[Job] = self.apply(Reserve(topic, limit, terms, "w"))
        return jobs

    def one(self, **more: Any) -> Job:
        """Reserve the only job that is due."""
        [job] = self.reserve(**more)
        return job

    def job(self, id: int) -> Job:
        """Return a job that exists."""
        job = self.store.get(id)
        assert job is not None
        return job

    def counts(self, topic: str = "t") -> Counts:
        """Return the counts of a topic."""
        return self.store.counts()[topic]

    def refused(self, op: Op) -> Exception:
        """Apply a command that must be refused; return how."""
        [outcome] = self.store.apply([op])
        assert isinstance(outcome, Exception)
        return outcome
