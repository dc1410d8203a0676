"""The queue: what a program does with jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from .._errors import BadJob, NoSuchJob
from ..clock import Clock
from ..jobs import commands as ops
from ..jobs.checks import whole
from ..jobs.commands import Ref, Terms
from ..jobs.durations import Duration, duration, moment
from ..jobs.handler import Handler
from ..jobs.job import Attempt, Counts, Job, NewJob, State, Topic
from ..jobs.retry import DEFAULT, RetryPolicy
from ..observe.metrics import Metrics, Silent
from ..stores.contract import Store
from ..stores.open import open as open_store
from .async_batches import AsyncBatches
from .new_job import name, new_job
from .plans import Learn, change, look, plain

__all__ = ["JobQueue"]

MAX_BODY: Final = 1 << 20
_RESERVER: Final = "reserve"
_F = TypeVar("_F", bound=Callable[[Job], Any])
_Ids = list[int]  # within the class, `list` is a method
_Jobs = list[Job]
_Topics = list[Topic]


def _stored_one(metrics: Metrics, op: ops.Put, ids: _Ids) -> int:
    metrics.count("put", op.jobs[0].topic)
    return ids[0]


def _stored(metrics: Metrics, op: ops.Put, ids: _Ids) -> _Ids:
    for topic, count in Counter([job.topic for job in op.jobs]).items():
        metrics.count("put", topic, count)
    return ids


_YES: Learn[bool] = plain
_NUMBER: Learn[int] = plain
_STATE: Learn[State | None] = plain
_JOBS: Learn[_Jobs] = plain


class JobQueue:
    """Durable delayed jobs in a store: ``sqlite:///jobs.db``, ``memory:``.

    Any thread may call any method; each has a twin with an ``a`` before its name, to be awaited on an asyncio loop:
    ``await queue.aput(...)``. A *reference* to a job is its id, the Job itself, or a pair (topic, key). All methods
    raise StoreError when the store cannot do it, and BadJob for arguments that make no sense; then nothing was done.
    """

    def __init__(
        self,
        url: str | Store = "sqlite:///jobs.db",
        *,
        clock: Clock | None = None,
        create: bool = True,
        max_body: int = MAX_BODY,
        metrics: Metrics | None = None,
    ) -> None:
        self.store = url if isinstance(url, Store) else open_store(url, clock=clock, create=create)
        self.metrics: Metrics = metrics or Silent()
        self.max_body = max_body
        """The longest body, in bytes."""
        self.handlers: dict[str, Handler] = {}
        self.batches = AsyncBatches(self.store)

    # ---- new jobs -------------------------------------------------------------------------------------------------

    def job(
        self,
        topic: str,
        body: Any = None,
        /,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        key: str | None = None,
        replace: bool = False,
        ttr: Duration | None = None,
        max_attempts: int | None = None,
        headers: Mapping[str, str] | None = None,
        traceparent: str | None = None,
    ) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet. `put` says what the arguments mean."""
        now = self.store.clock.wall()
        return new_job(
            now, self.max_body, topic, body, delay, at, key, replace, ttr, max_attempts, headers, traceparent
        )

    def _put(
        self,
        topic: str,
        body: Any = None,
        /,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        key: str | None = None,
        replace: bool = False,
        ttr: Duration | None = None,
        max_attempts: int | None = None,
        headers: Mapping[str, str] | None = None,
        traceparent: str | None = None,
    ) -> ops.Put:
        """Store a job durably; return its id.

        body          bytes, or anything that JSON can say
        delay         seconds, a timedelta, or text such as "30m"; without it, and without `at`, due at once
        at            an aware datetime instead of a delay
        key           yours, unique among the live jobs of the topic: JobExists if it is taken,
        replace       unless this is True and that job is still delayed: then it takes these values and keeps its id
        ttr           how long a handler may run, instead of what the handler says
        max_attempts  instead of what the handler's retry policy says
        headers       text by name, for the handler
        traceparent   W3C trace context of the caller, for the handler
        """
        now = self.store.clock.wall()
        job = new_job(now, self.max_body, topic, body, delay, at, key, replace, ttr, max_attempts, headers, traceparent)
        return ops.Put((job,))

    put, aput = change(_put, _stored_one)

    def _put_many(self, jobs: Iterable[NewJob]) -> ops.Put:
        """Store many jobs, all or none, in one transaction; return their ids. Make them with `job`."""
        batch = tuple(jobs)
        for job in batch:
            if not isinstance(job, NewJob):
                raise BadJob(f"put_many takes what queue.job(...) returns, not {type(job).__name__}")
        return ops.Put(batch)

    put_many, aput_many = change(_put_many, _stored)

    # ---- jobs by reference ------------------------------------------------------------------------------------------

    def _get(self, ref: Ref | Job) -> Callable[[], Job]:
        """Return a job. NoSuchJob."""
        found = _ref(ref)

        def ask() -> Job:
            job = self.store.get(found)
            if job is None:
                raise NoSuchJob(f"there is no job {found!r:.80}")
            return job

        return ask

    get, aget = look(_get)

    def _cancel(self, ref: Ref | Job) -> ops.Cancel:
        """Cancel a delayed job. True: it will never be delivered (again). False: it is not delayed; nothing changed."""
        return ops.Cancel(_ref(ref))

    cancel, acancel = change(_cancel, _YES)

    def _reschedule(
        self, ref: Ref | Job, delay: Duration | None = None, *, at: datetime | None = None
    ) -> ops.Reschedule:
        """Give a delayed job another due time. False: it is not delayed; nothing changed."""
        if (delay is None) == (at is None):
            raise BadJob("give delay or at, one of them")
        due = moment(at) if at is not None else self.store.clock.wall() + duration(0 if delay is None else delay)
        return ops.Reschedule(_ref(ref), due)

    reschedule, areschedule = change(_reschedule, _YES)

    def _retry(self, ref: Ref | Job, delay: Duration = 0) -> ops.Retry:
        """Make a finished job delayed again, with all its attempts. False: it is not finished. JobExists: key taken."""
        return ops.Retry(_ref(ref), self.store.clock.wall() + duration(delay))

    retry, aretry = change(_retry, _YES)

    def _history(self, ref: Ref | Job) -> Callable[[], list[Attempt]]:
        """Return what was tried with a job, oldest first. NoSuchJob."""
        found = self._get(ref)
        return lambda: self.store.history(found().id)

    history, ahistory = look(_history)

    # ---- jobs by topic ------------------------------------------------------------------------------------------

    def _list(
        self, topic: str | None = None, state: State | str | None = None, *, after: int = 0, limit: int = 100
    ) -> Callable[[], _Jobs]:
        """Return up to `limit` jobs by id, of a topic and in a state if given; the next page is `after` the last id."""
        wanted = None if state is None else _state(state)
        return lambda: self.store.jobs(topic, wanted, after, limit)

    list, alist = look(_list)

    def _counts(self) -> Callable[[], dict[str, Counts]]:
        """Return how many jobs each topic has in each state."""
        return self.store.counts

    counts, acounts = look(_counts)

    def _topics(self) -> Callable[[], _Topics]:
        """Return the topics, and whether they are paused."""
        return self.store.topics

    topics, atopics = look(_topics)

    def _pause(self, topic: str) -> ops.Pause:
        """Let no job of a topic be claimed until `resume`; those that run go on. False: it was paused."""
        return ops.Pause(name(topic, "topic"), paused=True)

    pause, apause = change(_pause, _YES)

    def _resume(self, topic: str) -> ops.Pause:
        """Let jobs of a topic be claimed again. False: it was not paused."""
        return ops.Pause(name(topic, "topic"), paused=False)

    resume, aresume = change(_resume, _YES)

    def _purge(
        self,
        state: State | str = State.DONE,
        *,
        older_than: Duration = 0,
        topic: str | None = None,
        limit: int = 10_000,
    ) -> ops.Purge:
        """Forget up to `limit` finished jobs of a state that ended so long ago, and their history; return how many."""
        wanted = _state(state)
        if wanted.live:
            raise BadJob("only finished jobs are purged: done, dead or cancelled")
        return ops.Purge(wanted, self.store.clock.wall() - duration(older_than, "older_than"), topic, limit)

    purge, apurge = change(_purge, _NUMBER)

    # ---- for programs with a loop of their own ----------------------------------------------------------------------

    def _reserve(self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: RetryPolicy = DEFAULT) -> ops.Reserve:
        """Claim up to `limit` due jobs, each leased for its own ttr or this one; [] if none is due. Never waits.

        Settle each with `ack` or `nack` before `job.lease_until`. `retry` says how many attempts a job has that does
        not say itself.
        """
        whole(limit, "limit", 1_000_000)
        terms = Terms(max(duration(ttr, "ttr"), 1), retry.max_attempts)
        return ops.Reserve(name(topic, "topic"), limit, terms, _RESERVER)

    reserve, areserve = change(_reserve, _JOBS)

    def _ack(self, job: Job) -> ops.Ack:
        """Make a claimed job done. False: its lease was lost, the job is or will be delivered again."""
        return ops.Ack(job.id, job.claims)

    ack, aack = change(_ack, _YES)

    def _nack(self, job: Job, delay: Duration | None = 0, *, error: str | None = None) -> ops.Nack:
        """End a claim without success: delayed again, or dead if no attempt is left or `delay` is None.

        Return the new state; None: the lease was lost, nothing changed.
        """
        return ops.Nack(job.id, job.claims, None if delay is None else duration(delay), error)

    nack, anack = change(_nack, _STATE)

    def _touch(self, job: Job, ttr: Duration = 60) -> ops.Touch:
        """Let a claim's lease end `ttr` from now. False: it was lost."""
        return ops.Touch(job.id, job.claims, max(duration(ttr, "ttr"), 1))

    touch, atouch = change(_touch, _YES)

    # ---- handlers ---------------------------------------------------------------------------------------------------

    def handler(
        self,
        topic: str,
        *,
        concurrency: int = 8,
        ttr: Duration = 60,
        retry: RetryPolicy = DEFAULT,
        keep_lease: bool = False,
    ) -> Callable[[_F], _F]:
        """Register the handler of a topic: a function or coroutine function that takes the Job.

        It succeeds by returning. Any exception is a failed attempt, retried as `retry` says; GiveUp makes the job dead
        at once, RetryLater names the delay. `concurrency` is how many may run at once in a worker; `ttr` how long one
        may run until another worker may have its job; `keep_lease` renews that for as long as it runs and its process
        lives.
        """
        named = name(topic, "topic")
        if named in self.handlers:
            raise BadJob(f"topic {named[:80]!r} has a handler already")

        def register(function: _F) -> _F:
            self.handlers[named] = Handler(
                named, function, concurrency, max(duration(ttr, "ttr"), 1), retry, keep_lease
            )
            return function

        return register

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store. Idempotent."""
        self.batches.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ref(ref: Any) -> Ref:
    if isinstance(ref, Job):
        return ref.id
    if isinstance(ref, int) and not isinstance(ref, bool):
        return ref if 0 <= ref < 2**63 else 0
    if isinstance(ref, tuple) and len(ref) == 2:
        return name(ref[0], "topic"), name(ref[1], "key")
    raise BadJob("a job is named by its id, by the Job, or by a pair (topic, key)")


def _state(state: State | str) -> State:
    try:
        return State(state)
    except ValueError:
        raise BadJob(f"{state!r:.40} is no state: {', '.join(State)}") from None
