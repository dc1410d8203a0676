"""The queue: what a program does with jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Self, Unpack

from ..jobs.commands import Ack, Cancel, Change, Put, Ref, Release, Touch, reference
from ..jobs.durations import Duration, duration
from ..jobs.job import Job, NewJob, State
from ..jobs.new_job import JobOptions, batch, edit
from ..jobs.results import Result
from ..jobs.retry import AnyRetry
from ..tasks.task import AsyncTask, Task, twin
from . import claims, results
from .calls import Applies, AsyncApplies, awaited, in_a_thread
from .jobs import AsyncJobs, AsyncTopics, Jobs, Topics, found
from .program import AsyncDecorator, Decorator, Program, TaskOptions
from .schedules import AsyncSchedules, Schedules

__all__ = ["AsyncJobQueue", "JobQueue"]


class _Queue(Program):
    """A program's queue, of either kind."""

    @property
    def sync(self) -> JobQueue:
        """The same queue, for threads: for handlers that are plain functions. One store, the same handlers."""
        return twin(JobQueue, self)  # type: ignore[no-any-return]  # of that kind

    @property
    def aio(self) -> AsyncJobQueue:
        """The same queue, for asyncio. One store, the same handlers."""
        return twin(AsyncJobQueue, self)  # type: ignore[no-any-return]  # of that kind


class JobQueue(_Queue, Applies):
    """Durable delayed jobs in a store: ``sqlite:///jobs.db``, ``memory:``.

    Any thread may call any method; for asyncio there is `AsyncJobQueue`. A *reference* to a job is its id, the Job
    itself, or a pair (topic, key), which means the live job with that key, or else the latest. All methods raise
    StoreError when the store cannot do it, and BadJob for arguments about jobs that make no sense. An error means that
    nothing was done, with these exceptions: OutcomeUnknown; a change of many by filter, which goes on in batches; and
    a commit that a signal handler interrupted, or that the disk of a SQLite file did not confirm. That one may have
    happened, as its StoreError says.

    Args:
        url: the address of a store, or a Store; or a function that returns one, called when the queue is used first.
            Until then nothing is opened, and StoreError is raised there: for a program that makes its queue before
            its settings are known, or before its server forks.
        clock: for tests: what the store goes by, such as a ManualClock.
        create: whether a store that is not there is made.
        max_body: the longest body, in bytes.
        listeners: who is told of what happens; each is called with an event of `pywheel.events`.
        spool: the address of a file of its own, ``sqlite:///spool.db``, for puts while the store is away, also as the
            queue is made. They are forwarded once it is back; docs/spool.md says what holds.
        encryption: the keys with which bodies are encrypted in the store, and decrypted for who may read them.

    Raises:
        StoreError: the store cannot be opened.
        BadOption: an argument makes no sense.
        TypeError: it is of a wrong class, such as a clock that is none.
    """

    @property
    def jobs(self) -> Jobs:
        """Many jobs: listed, tried again, deleted; for operators."""
        return Jobs(self.calls)

    @property
    def topics(self) -> Topics:
        """Whole topics: counted, paused; for operators."""
        return Topics(self.calls)

    @property
    def schedules(self) -> Schedules:
        """Periodic jobs that are made by calls."""
        return Schedules(self.calls)

    def task(
        self, topic: str | None = None, *, key: Callable[..., str] | str | None = None, **options: Unpack[TaskOptions]
    ) -> Decorator:
        """Return a decorator that makes a task of a function, or of a coroutine function.

        A job of it calls the function with the arguments that were put, and with what else it asks for: the Job, and
        what `provide` gives. It succeeds by returning, and fails as a handler does.

        Args:
            topic: where its jobs are; the function's module and name unless told.
            key: of each job: a function of the task's arguments that returns it, or the same one for all.
            options: those of `handler`, and of `put` for each of its jobs, such as `delay`, `replace`, `max_attempts`.
                A `ttr` is the handler's.

        Raises:
            BadJob, BadOption: the topic has a handler, or an argument makes no sense, such as a function with
                ``*args``.
            TypeError: it is no function.
        """
        return self._task(Task, topic, key, dict(options))

    # ---- new jobs ---------------------------------------------------------------------------------------------------

    def put(self, topic: str, body: Any = None, /, *, connection: object = None, **options: Unpack[JobOptions]) -> int:
        """Store a job; return its id. When this returns, the job is durable. O(log jobs), and one commit.

        A handler may put the successor of its own job under the job's own key. While the store of a queue with a spool
        is away, the id is negative, and names the job as any other does.

        Args:
            topic: what kind of job it is; a handler is registered for a topic.
            body: bytes, or anything that JSON can say.
            delay: seconds, a timedelta, or text such as "30m", counted by the store from the moment it stores the job.
                Without it and `at`, or if it is negative, the job is due at once.
            at: an aware datetime, instead of a delay.
            key: yours, unique among the live jobs of the topic.
            replace: let a delayed job that has the key take these values. It keeps its id.
            ttr: how long a handler may run, more than 0, instead of what the handler says.
            max_attempts: how often it is tried, instead of what the handler's retry policy says.
            headers: text by name, for the handler.
            to: where an outlet delivers it: an http or https URL, or a name in the outlet's own words. It is kept as
                the header "to".
            traceparent: W3C trace context of the caller, for the handler.
            connection: yours to the store's own database, with a transaction open: the job exists exactly if that
                commits. The driver's, or SQLAlchemy's connection or session, or Django's.
            dedupe_for: for how long after the end of a job with the same key the put is refused, however it ended. Jobs
                that were pruned or deleted do not count.
            priority: from -9 to 9; of the due jobs of a topic the highest comes first.
            expires: how long after its due time it may begin. A worker that claims it later cancels it instead. A
                retry has a due time of its own.

        Raises:
            BadJob: an argument makes no sense.
            JobExists: a live job has the key, and is not to be replaced, or is running; or one had it that ended less
                than `dedupe_for` ago.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        return self.calls.apply_within(connection, Put((self.job(topic, body, **options),)))[0]

    def put_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[int]:
        """Store many jobs, all or none, in one transaction; return their ids, in order. Make them with `job`.

        O(log jobs) each, and one commit: the cheapest way to put many. With a `connection` they are part of your own
        transaction, as for `put`.

        Raises:
            BadJob: one of them was not made with `job`.
            JobExists: a key is taken.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        return self.calls.apply_within(connection, Put(batch(jobs)))

    # ---- one job ----------------------------------------------------------------------------------------------------

    def get(self, ref: Ref | Job) -> Job:
        """Return a job as it is now. O(log jobs).

        Raises:
            NoSuchJob: there is none.
            BadJob: this names no job.
        """
        return found(self.calls, ref)

    def cancel(self, ref: Ref | Job, *, connection: object = None) -> Change:
        """Cancel a delayed job; return MADE, or what stood in the way. After MADE it is never delivered again.

        A `Change` is true if it was made, and else says why not: ``if not (change := queue.cancel(7)): print(change)``
        prints "running", "done" or another state, or "not found".

        With a `connection` it is part of your own transaction, as for `put`: the job is cancelled exactly if that
        commits, and no worker starts it meanwhile.
        """
        return self._apply(Cancel(reference(ref)), connection)

    def reschedule(
        self, ref: Ref | Job, delay: Duration | None = None, *, at: datetime | None = None, connection: object = None
    ) -> Change:
        """Give a delayed job another due time: `delay` from now, or `at`; return MADE, or what stood in the way.

        With a `connection` it is part of your own transaction, as for `cancel`.

        Raises:
            BadJob: not one of the two was given, or it makes no sense.
        """
        return self._apply(edit(self.calls.max_body, ref, delay=delay, at=at), connection)

    def result(self, ref: Ref | Job) -> Result:
        """Return what has become of a job by now: its state, the result of its handler if it is kept, its last error.

        Raises:
            NoSuchJob: there is none.
            StoreError: the store cannot say.
        """
        return results.result(self.calls, ref)

    def wait(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """Return what has become of a job once it is done, dead or cancelled.

        It returns some ms after a worker has ended the job, and half a second after anybody else has. One thread
        listens for all who wait in a process; nobody else pays for it. While the store is away it waits on: one that
        begins then does so if it has a timeout.

        Args:
            ref: the job. By a key it is the job that has it now.
            timeout: how long to wait at most. Without it, for as long as it takes.

        Raises:
            WaitTimeout: the job has not ended in that time. It goes on.
            NoSuchJob: there is none, or it was deleted meanwhile.
            StoreClosed: the queue was closed meanwhile.
            StoreError: the store cannot say which job it is, in all that time.
        """
        return results.wait(self.calls, ref, timeout)

    # ---- for programs with a loop of their own ----------------------------------------------------------------------

    def reserve(self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: AnyRetry | None = None) -> list[Job]:
        """Claim up to `limit` due jobs, by (due, id); return them, [] if none is due. Never waits for one.

        Each is leased for its own ttr, or this one. Settle it with `ack` or `nack` before `job.lease_until`: what is
        not settled by then is due again: at once, or with `retry` after its delay for that attempt. How often a job is
        tried that does not say itself is what `retry` says, or 10 times; `nack` follows it, too. Of a function it asks
        with the job and the error whose text it was given, or None; the default policy holds for lost leases then.
        No two callers get the same job. O(log jobs) each, and one commit.

        Jobs whose bodies cannot be read here, as a key is missing, are looked past, and stay as they were.

        Raises:
            BadJob: an argument makes no sense.
            NoKey, BadBody: jobs are due, and none of them can be read.
        """
        return claims.reserve(self.calls, self._reserving(topic, limit, ttr, retry))

    def ack(self, job: Job) -> bool:
        """Make a claimed job done; return whether the claim held. False: the job is or will be delivered again."""
        return self._apply(Ack(*claims.receipt(job)))

    def nack(self, job: Job, delay: Duration | None = None, *, error: str | None = None) -> State | None:
        """End a claim as a failed attempt; return the new state: delayed, or dead if no attempt is left.

        It is due again after `delay`, or else as the retry policy says that `reserve` was given for its topic, or the
        topic's handler, or the default one. None: the lease was lost, nothing changed.
        """
        return self._apply(claims.nacking(job, delay, error, self._retry(job)))

    def bury(self, job: Job, *, error: str | None = None) -> bool:
        """Make a claimed job dead, whatever attempts are left; return whether the claim held."""
        return self._apply(claims.nacking(job, None, error, None)) is not None

    def release(self, job: Job) -> bool:
        """Give a claim back, due as before, no attempt spent; return whether it held. False changes nothing."""
        return self._apply(Release(*claims.receipt(job)))

    def touch(self, job: Job, ttr: Duration = 60) -> bool:
        """Let a claim's lease end `ttr` from now, more than 0; return whether it held. False changes nothing."""
        return self._apply(Touch(*claims.receipt(job), duration(ttr, "ttr", 1)))

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the queue and its store. Idempotent. What is under way ends; later calls raise StoreClosed."""
        self.calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncJobQueue(_Queue, AsyncApplies):
    """Durable delayed jobs in a store, for asyncio: ``async with AsyncJobQueue("sqlite:///jobs.db") as queue``.

    It is made as a `JobQueue` is, and has the same methods, which are awaited. What tasks of a loop ask for at about
    the same time shares one transaction. Handlers are registered and declared without `await`.
    """

    @property
    def jobs(self) -> AsyncJobs:
        """Many jobs: listed, tried again, deleted; for operators."""
        return AsyncJobs(self.calls)

    @property
    def topics(self) -> AsyncTopics:
        """Whole topics: counted, paused; for operators."""
        return AsyncTopics(self.calls)

    @property
    def schedules(self) -> AsyncSchedules:
        """Periodic jobs that are made by calls."""
        return AsyncSchedules(self.calls)

    @property
    def _sync(self) -> JobQueue:
        return self.sync

    def task(
        self, topic: str | None = None, *, key: Callable[..., str] | str | None = None, **options: Unpack[TaskOptions]
    ) -> AsyncDecorator:
        """Return a decorator that makes a task of a function: as `JobQueue.task`, with methods that are awaited."""
        return self._task(AsyncTask, topic, key, dict(options))

    async def put(
        self, topic: str, body: Any = None, /, *, connection: object = None, **options: Unpack[JobOptions]
    ) -> int:
        """As `JobQueue.put`. A task that is cancelled meanwhile may or may not have put the job.

        The `connection` is of a driver for asyncio: psycopg's AsyncConnection, asyncpg's, aiosqlite's, aiomysql's or
        asyncmy's, or SQLAlchemy's AsyncSession or AsyncConnection on one of them. One of a driver that blocks is taken,
        too, and blocks the loop.
        """
        return (await self.calls.aapply_within(connection, Put((self.job(topic, body, **options),))))[0]

    async def put_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[int]:
        """As `JobQueue.put_many`."""
        return await self.calls.aapply_within(connection, Put(batch(jobs)))

    get = in_a_thread(JobQueue.get)
    cancel = awaited(JobQueue.cancel)
    reschedule = awaited(JobQueue.reschedule)
    result = in_a_thread(JobQueue.result)

    async def wait(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """As `JobQueue.wait`."""
        return await results.wait_async(self.calls, ref, timeout)

    async def reserve(
        self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: AnyRetry | None = None
    ) -> list[Job]:
        """As `JobQueue.reserve`. A task that is cancelled meanwhile gives back what it got before it ends."""
        return await claims.reserve_async(self.calls, self._reserving(topic, limit, ttr, retry))

    ack = awaited(JobQueue.ack)
    nack = awaited(JobQueue.nack)
    release = awaited(JobQueue.release)
    touch = awaited(JobQueue.touch)

    async def bury(self, job: Job, *, error: str | None = None) -> bool:
        """As `JobQueue.bury`."""
        return await self._apply(claims.nacking(job, None, error, None)) is not None

    close = in_a_thread(JobQueue.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
