"""The base of all parts of the conformance suite: a store, a clock that stands still, and shorthand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any, TypeVar

from ...clock import Clock, ManualClock
from ...jobs.commands import Announce, Claim, Claimed, ClaimPolicy, Command, Put, Reserve
from ...jobs.job import Attempt, Counts, Due, Job, NewJob, State
from ...jobs.queries import CountJobs, Filter, GetHistories, GetJob, ListJobs, Query
from ...stores.contract import Store
from ...stores.notifier import Notifier

R = TypeVar("R")
E = TypeVar("E", bound=Exception)
NOW = 1_700_000_000_000
FAR = NOW + 10**9
TERMS = ClaimPolicy(ttr=1_000, max_attempts=3, hold=200)
START = (-1, 0)


class StoreTests(ABC):
    """Each test gets a new, empty store and a clock that stands still."""

    clock: ManualClock
    store: Store
    notifiers: list[Notifier]

    @abstractmethod
    def make_store(self, clock: Clock) -> Store:
        """Return a new, empty store whose clock is this one."""

    def reopen(self) -> None:  # noqa: B027  (some stores need no reopening)
        """Close and reopen a durable store, if wanted. The suite calls this between operations without a notifier.

        The suite uses `self.store` afterwards.
        """

    def setup_method(self) -> None:
        """Prepare for a test."""
        self.clock = ManualClock(wall=NOW)
        self.notifiers = []
        self.store = self.make_store(self.clock)

    def teardown_method(self) -> None:
        """Clean up after a test."""
        for notifier in self.notifiers:
            notifier.close()
        self.store.close()

    def together(self, ids: Sequence[int]) -> list[Sequence[int]]:
        """Return these ids in groups that one claim treats as a unit. A store of several stores has several groups."""
        return [ids]

    # ---- shorthand: commands ----------------------------------------------------------------------------------------

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass."""
        self.clock.advance(timedelta(milliseconds=milliseconds))

    def apply(self, command: Command[R]) -> R:
        """Apply one command; raise its outcome if it is an error."""
        outcome: Any
        [outcome] = self.store.apply([command])
        if not self.notifiers:  # a notifier belongs to one opening
            self.reopen()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def refused(self, command: Command[Any], error: type[E]) -> E:
        """Apply a command that must be refused; return its error, which is of this class."""
        [outcome] = self.store.apply([command])
        assert isinstance(outcome, error), command
        return outcome

    def raises(self, error: type[Exception], *calls: Callable[[], object]) -> None:
        """Check that each of some calls raises an error of this class."""
        for place, call in enumerate(calls):
            try:
                call()
            except error:
                continue
            raise AssertionError(f"call {place} raised nothing")

    def put(self, topic: str = "t", body: bytes = b"b", due: int = NOW, **more: Any) -> int:
        """Put one job; return its id."""
        [id] = self.apply(Put((NewJob(topic, body, due, **more),)))
        return id

    def reserve(self, limit: int = 100, topic: str = "t", policy: ClaimPolicy = TERMS) -> list[Job]:
        """Reserve jobs of a topic."""
        return self.apply(Reserve(topic, limit, policy, "w"))

    def one(self, **more: Any) -> Job:
        """Reserve the only job that is due."""
        [job] = self.reserve(**more)
        return job

    def begun(self, topic: str = "t", **more: Any) -> Job:
        """Put a job and reserve it."""
        self.put(topic, **more)
        return self.one(topic=topic)

    def lose(self, **more: Any) -> int:
        """Return the id of a job whose lease is over, which no command has noticed yet."""
        id = self.put(**more)
        self.reserve()
        self.pass_time(1_000)
        return id

    def claim(self, *ids: int, begin: int = 0, policy: ClaimPolicy = TERMS, **more: Any) -> Claimed:
        """Claim jobs of the topic t."""
        return self.apply(Claim("t", ids, policy, "w", begin, **more))

    def held(self, id: int, **more: Any) -> Job:
        """Claim one job, without beginning."""
        claimed = self.claim(id, **more)
        assert (len(claimed.jobs), claimed.begun) == (1, 0)
        return claimed.jobs[0]

    def at_once(self, *functions: Callable[[], object]) -> None:
        """Call functions at the same time, each in a thread of its own."""
        barrier = Barrier(len(functions))
        with ThreadPoolExecutor(len(functions)) as threads:
            for called in [threads.submit(lambda one=one: (barrier.wait(), one())) for one in functions]:  # type: ignore[misc]
                called.result()

    # ---- shorthand: looking -----------------------------------------------------------------------------------------

    def ask(self, query: Query[R]) -> R:
        """Return the store's answer."""
        return self.store.ask(query)

    def job(self, id: int) -> Job:
        """Return a job that exists."""
        job = self.ask(GetJob(id))
        assert job is not None
        return job

    def counts(self, topic: str = "t") -> Counts:
        """Return the counts of a topic."""
        return self.ask(CountJobs())[topic]

    def listed(self, after: int = 0, limit: int = 1_000, **filter: Any) -> list[int]:
        """Return the ids of the jobs that a filter selects."""
        return [job.id for job in self.ask(ListJobs(Filter(**filter), after, limit))]

    def waiting(self, topic: str = "t") -> list[Due]:
        """Return the delayed jobs of a topic, by due time."""
        jobs = self.ask(ListJobs(Filter(topic, State.DELAYED), 0, 10_000))
        return sorted(Due(job.due, job.id, job.topic, job.priority) for job in jobs)

    def state(self, id: int) -> State:
        """Return the state of a job."""
        return self.job(id).state

    def history(self, id: int) -> list[Attempt]:
        """Return the history of a job."""
        return self.ask(GetHistories([id]))[0]

    def last(self, id: int) -> Attempt:
        """Return the last row of a job's history."""
        return self.history(id)[-1]

    # ---- shorthand: workers -----------------------------------------------------------------------------------------

    def notifier(self, *topics: str, name: str = "w", horizon: int | None = None) -> Notifier:
        """Return a notifier whose worker has announced these topics. It is closed after the test."""
        notifier = self.store.notifier(name)
        self.notifiers.append(notifier)
        if topics:
            self.apply(Announce(notifier.worker, topics))
        if horizon is not None:
            notifier.publish(horizon)
        return notifier
