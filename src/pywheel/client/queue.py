"""The queue: a program's calls that put, claim and settle jobs."""

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


class _Queue(Program):
    """A program's queue, for threads or for asyncio."""

    @property
    def sync(self) -> JobQueue:
        """The same queue for threads and handlers that are plain functions. It shares the store and the handlers."""
        return twin(JobQueue, self)  # type: ignore[no-any-return]  # of that kind

    @property
    def aio(self) -> AsyncJobQueue:
        """The same queue for asyncio. It shares the store and the handlers."""
        return twin(AsyncJobQueue, self)  # type: ignore[no-any-return]  # of that kind


class JobQueue(_Queue, Applies):
    """Durable delayed jobs in a store: ``sqlite:///jobs.db``, ``memory:``.

    Any thread may call any method; for asyncio there is `AsyncJobQueue`. A *reference* to a job is its id, the Job
    itself, or a pair (topic, key). The pair means the live job with that key, or else the latest.

    All methods raise StoreError if the store cannot do it, and BadJob for arguments about jobs that make no sense. An
    error means that nothing was done, with three exceptions. After OutcomeUnknown the call may have taken effect. A
    bulk call by a filter works in batches: those before the error are done. A commit that a signal handler interrupted,
    or that the disk of a SQLite file did not confirm, may have happened; its StoreError says so.

    Args:
        url: the address of a store, or a Store, or a function that returns one. The queue calls the function on first
            use, which then raises StoreError if the store cannot be opened. Use a function if the program makes its
            queue before its settings are known, or before its server forks.
        clock: the store's clock, for tests, such as a ManualClock.
        create: whether to create a store that does not exist.
        max_body: the longest body, in bytes.
        listeners: functions that are called with each event of `pywheel.events`.
        spool: the address of a separate file, ``sqlite:///spool.db``, for puts while the store is away, even if it is
            away when the queue is made. They are forwarded once the store is back; docs/spool.md states the guarantees.
        encryption: the keys that encrypt bodies in the store, and decrypt them for programs that may read them.

    Raises:
        StoreError: the store cannot be opened.
        BadOption: an argument makes no sense.
        TypeError: an argument has a wrong class, such as a clock that is not a Clock.
    """

    @property
    def jobs(self) -> Jobs:
        """The calls on jobs for operators: list, edit, retry, delete."""
        return Jobs(self.calls)

    @property
    def topics(self) -> Topics:
        """The calls on whole topics for operators: count, pause, limit."""
        return Topics(self.calls)

    @property
    def schedules(self) -> Schedules:
        """The calls that make and manage periodic jobs."""
        return Schedules(self.calls)

    def task(
        self, topic: str | None = None, *, key: Callable[..., str] | str | None = None, **options: Unpack[TaskOptions]
    ) -> Decorator:
        """Return a decorator that makes a task of a function, or of a coroutine function.

        A job of the task calls the function with the arguments that were put. Other parameters get the Job, and the
        values that `provide` gives. The job succeeds when the function returns, and fails as with a handler.

        Args:
            topic: the topic of its jobs; default: the function's module and name.
            key: the key of each job: a function of the task's arguments that returns it, or one key for all jobs.
            options: those of `handler`, and of `put` for each of its jobs, such as `delay`, `replace`, `max_attempts`.
                A `ttr` is the handler's. `max_attempts` also holds for the jobs that others put to the topic.

        Raises:
            BadJob, BadOption: the topic has a handler, or an argument makes no sense, such as a function with
                ``*args``.
            TypeError: the decorated object is not a function.
        """
        return self._task(Task, topic, key, dict(options))

    # ---- new jobs ---------------------------------------------------------------------------------------------------

    def put(self, topic: str, body: Any = None, /, *, connection: object = None, **options: Unpack[JobOptions]) -> int:
        """Store a job; return its id. When this returns, the job is durable. O(log jobs), and one commit.

        A handler may put the successor of its own job under the job's own key. While the store of a queue with a spool
        is away, the id is negative, and names the job like any other id.

        Args:
            topic: the kind of job; a handler is registered for a topic.
            body: bytes, or any JSON value.
            delay: seconds, a timedelta, or text such as "30m", counted by the store from the moment it stores the job.
                Without it and `at`, or if it is negative, the job is due at once.
            at: an aware datetime, instead of a delay.
            key: your name for the job, unique among the live jobs of the topic.
            replace: if a delayed job has the key, let it take these values. It keeps its id.
            ttr: how long the handler may run, more than 0; default: the handler's ttr.
            max_attempts: how often the job is tried; default: the number in the handler's retry policy.
            headers: text by name, for the handler; up to 65,536 characters in all.
            to: the destination of an outlet: an http or https URL, or a name in the outlet's own words. It is kept as
                the header "to".
            traceparent: the caller's W3C trace context, for the handler.
            connection: your own connection to the store's database, with a transaction open. The job exists exactly if
                that transaction commits. A connection of the driver, a connection or session of SQLAlchemy, or
                Django's.
            dedupe_for: refuse the put for this long after a job with the same key has ended, however it ended. Jobs
                that were purged or deleted do not count.
            priority: from -9 to 9; of the due jobs of a topic the highest comes first.
            expires: how long after its due time the job may begin. A worker that claims it later cancels it instead. A
                retry has a due time of its own.
        Raises:
            BadJob: an argument makes no sense.
            JobExists: a live job has the key, and is running or may not be replaced; or a job with the key ended less
                than `dedupe_for` ago.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        return self.calls.apply_within(connection, Put((self.job(topic, body, **options),)))[0]

    def put_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[int]:
        """Store many jobs, all or none, in one transaction; return their ids, in order. Make the jobs with `job`.

        This is the cheapest way to put many: O(log jobs) each, and one commit. With a `connection` they are part of
        your own transaction, as for `put`.

        Raises:
            BadJob: one of them was not made with `job`.
            JobExists: a key is taken.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        return self._apply(Put(batch(jobs)), connection)

    # ---- one job ----------------------------------------------------------------------------------------------------

    def get(self, ref: Ref | Job) -> Job:
        """Return a job as it is now. O(log jobs).

        Raises:
            NoSuchJob: there is no such job.
            BadJob: the reference makes no sense.
        """
        return found(self.calls, ref)

    def cancel(self, ref: Ref | Job, *, connection: object = None) -> Change:
        """Cancel a delayed job; return MADE, or the reason why not. After MADE the job is never delivered again.

        A `Change` is true if it was made, and otherwise names the reason. For example,
        ``if not (change := queue.cancel(7)): print(change)`` prints "running", "done" or another state, or "not found".

        With a `connection` the call is part of your own transaction, as for `put`: the job is cancelled exactly if
        that commits, and no worker starts it meanwhile.
        """
        return self._apply(Cancel(reference(ref)), connection)

    def reschedule(
        self, ref: Ref | Job, delay: Duration | None = None, *, at: datetime | None = None, connection: object = None
    ) -> Change:
        """Give a delayed job another due time: `delay` from now, or `at`; return MADE, or the reason why not.

        With a `connection` the call is part of your own transaction, as for `cancel`.

        Raises:
            BadJob: both or neither of `delay` and `at` are given, or the value makes no sense.
        """
        return self._apply(edit(self.calls.max_body, ref, delay=delay, at=at), connection)

    def result(self, ref: Ref | Job) -> Result:
        """Return the state of a job, the result of its handler if it is kept, and its last error.

        Raises:
            NoSuchJob: there is no such job.
            StoreError: the store cannot say.
        """
        return results.result(self.calls, ref)

    def wait(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """Wait until a job is done, dead or cancelled; return its state, result and last error.

        The call returns some ms after a worker has ended the job, and up to half a second after any other end. One
        thread listens for all waiting calls of a process; without waiting calls there is no cost. While the store is
        away the call keeps waiting; a call that begins then does so only with a timeout.

        Args:
            ref: the job. A key means the job that has the key when the call begins.
            timeout: the longest wait; default: no limit. The first query may last longer: up to the store's own limit.

        Raises:
            WaitTimeout: the job has not ended in that time. It goes on.
            NoSuchJob: there is no such job, or it was deleted meanwhile.
            StoreClosed: the queue was closed meanwhile.
            StoreError: the store could not say within the timeout which job it is.
        """
        return results.wait(self.calls, ref, timeout)

    # ---- for programs with a loop of their own ----------------------------------------------------------------------

    def reserve(self, topic: str, limit: int = 1, *, ttr: Duration = 60, retry: AnyRetry | None = None) -> list[Job]:
        """Claim up to `limit` due jobs, by (due, id); return them, [] if none is due. Never waits for one.

        Each job is leased for its own ttr, or for the given one. Settle it with `ack` or `nack` before
        `job.lease_until`. A job that is not settled by then is due again: at once, or with `retry` after the delay
        for that attempt. No two callers get the same job. O(log jobs) each, and one commit.

        A job without its own `max_attempts` is tried as often as `retry` says, by default 10 times. `nack` follows
        `retry` as well. If `retry` is a function, `nack` calls it with the job and an error with the given text, or
        None; lost leases then follow the default policy.

        A job whose body cannot be read here, because a key is missing, is skipped and stays as it was. If a call is
        interrupted, as by Ctrl-C, jobs that it has claimed by then may stay claimed until their leases end.

        Raises:
            BadJob: an argument makes no sense.
            NoKey, BadBody: jobs are due, but none of them can be read.
        """
        return claims.reserve(self.calls, self._reserving(topic, limit, ttr, retry))

    def ack(self, job: Job) -> bool:
        """Make a claimed job done; return whether the claim held. After False the job is or will be delivered again."""
        return self._apply(Ack(*claims.receipt(job)))

    def nack(self, job: Job, delay: Duration | None = None, *, error: str | None = None) -> State | None:
        """End a claim as a failed attempt; return the new state: delayed, or dead if no attempt is left.

        The job is due again after `delay`. Without it, the retry policy decides: the policy that `reserve` was given
        for the topic, or else the handler's, or else the default one. None: the lease was lost, nothing changed.
        """
        return self._apply(claims.nacking(job, delay, error, self._retry(job)))

    def bury(self, job: Job, *, error: str | None = None) -> bool:
        """Make a claimed job dead, even if attempts are left; return whether the claim held."""
        return self._apply(claims.nacking(job, None, error, None)) is not None

    def release(self, job: Job) -> bool:
        """Give a claim back without spending an attempt; return whether it held. The job is due as before."""
        return self._apply(Release(*claims.receipt(job)))

    def touch(self, job: Job, ttr: Duration | None = None) -> bool:
        """Let a claim's lease end `ttr` from now, more than 0; return whether it held. After False nothing changed.

        Without `ttr`, the job's own counts, or else 60 s. Give the ttr of `reserve` again if that was longer.
        """
        return self._apply(Touch(*claims.receipt(job), None if ttr is None else duration(ttr, "ttr", 1)))

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the queue and its store. Idempotent. Calls under way complete; later calls raise StoreClosed."""
        self.calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncJobQueue(_Queue, AsyncApplies):
    """Durable delayed jobs in a store, for asyncio: ``async with AsyncJobQueue("sqlite:///jobs.db") as queue``.

    It takes the arguments of a `JobQueue`, and has the same methods, awaited. Calls that the tasks of a loop make at
    about the same time share one transaction. Handlers are registered and declared without `await`.
    """

    @property
    def jobs(self) -> AsyncJobs:
        """The calls on jobs for operators: list, edit, retry, delete."""
        return AsyncJobs(self.calls)

    @property
    def topics(self) -> AsyncTopics:
        """The calls on whole topics for operators: count, pause, limit."""
        return AsyncTopics(self.calls)

    @property
    def schedules(self) -> AsyncSchedules:
        """The calls that make and manage periodic jobs."""
        return AsyncSchedules(self.calls)

    @property
    def _sync(self) -> JobQueue:
        return self.sync

    def task(
        self, topic: str | None = None, *, key: Callable[..., str] | str | None = None, **options: Unpack[TaskOptions]
    ) -> AsyncDecorator:
        """Return a decorator that makes a task of a function: as `JobQueue.task`, but with awaited methods."""
        return self._task(AsyncTask, topic, key, dict(options))

    async def put(
        self, topic: str, body: Any = None, /, *, connection: object = None, **options: Unpack[JobOptions]
    ) -> int:
        """As `JobQueue.put`. A task that is cancelled meanwhile may or may not have put the job.

        The `connection` is one of a driver for asyncio: psycopg's AsyncConnection, asyncpg's, aiosqlite's, aiomysql's
        or asyncmy's, or SQLAlchemy's AsyncSession or AsyncConnection on one of them. A connection of a blocking driver
        works as well, but blocks the loop.
        """
        return (await self.calls.aapply_within(connection, Put((self.job(topic, body, **options),))))[0]

    put_many = awaited(JobQueue.put_many)
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
        """As `JobQueue.reserve`. A task that is cancelled meanwhile gives its claims back before it ends."""
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
