"""New jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from .._errors import BadJob
from ..jobs.commands import Put
from ..jobs.durations import Duration
from ..jobs.job import NewJob
from .base import Base
from .new_job import new_job

__all__ = ["Puts"]


class Puts(Base):
    """How jobs are put."""

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
        to: str | None = None,
        traceparent: str | None = None,
        dedupe_for: Duration | None = None,
        priority: int = 0,
    ) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet. `put` says what the arguments mean.

        Raises:
            BadJob: an argument makes no sense.
        """
        return new_job(
            self.max_body,
            topic,
            body,
            delay,
            at,
            key,
            replace,
            ttr,
            max_attempts,
            headers,
            to,
            traceparent,
            dedupe_for,
            priority,
        )

    def put(
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
        to: str | None = None,
        traceparent: str | None = None,
        connection: object = None,
        dedupe_for: Duration | None = None,
        priority: int = 0,
    ) -> int:
        """Store a job; return its id. When this returns, the job is durable. O(log jobs), and one commit.

        A handler may put the successor of its own job under the job's own key. While the store of a queue with a spool
        is away, the id is negative, and names the job as any other does.

        Args:
            topic: what kind of job it is; a handler is registered for a topic.
            body: bytes, or anything that JSON can say.
            delay: seconds, a timedelta, or text such as "30m", counted by the store from the moment it stores the job.
                Negative, or without `at` none: due at once.
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
            dedupe_for: refuse the job also if one with its key ended less than so long ago, however it ended. It is
                asked of the finished jobs that are there still: not of those that were pruned or deleted.
            priority: from -9 to 9: of what is due of the topic the highest comes first.

        Raises:
            BadJob: an argument makes no sense.
            JobExists: a live job has the key, and is not to be replaced, or is running; or one had it that ended less
                than `dedupe_for` ago.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        job = new_job(
            self.max_body,
            topic,
            body,
            delay,
            at,
            key,
            replace,
            ttr,
            max_attempts,
            headers,
            to,
            traceparent,
            dedupe_for,
            priority,
        )
        return self._store(job, connection)

    async def aput(
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
        to: str | None = None,
        traceparent: str | None = None,
        connection: object = None,
        dedupe_for: Duration | None = None,
        priority: int = 0,
    ) -> int:
        """`put`, for asyncio. A task that is cancelled meanwhile may or may not have put the job.

        With a `connection` of a driver that blocks, as those of `put` do, it blocks the loop too.
        """
        job = new_job(
            self.max_body,
            topic,
            body,
            delay,
            at,
            key,
            replace,
            ttr,
            max_attempts,
            headers,
            to,
            traceparent,
            dedupe_for,
            priority,
        )
        if connection is not None:
            return self._put_within(connection, Put((job,)))[0]
        return (await self._outcome(Put((job,))))[0]

    def put_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[int]:
        """Store many jobs, all or none, in one transaction; return their ids, in order. Make them with `job`.

        O(log jobs) each, and one commit: the cheapest way to put many. With a `connection` they are part of your own
        transaction, as for `put`.

        Raises:
            BadJob: one of them was not made with `job`.
            JobExists: a key is taken.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        command = Put(_batch(jobs))
        if connection is not None:
            return self._put_within(connection, command)
        return self.apply(command)

    async def aput_many(self, jobs: Iterable[NewJob], *, connection: object = None) -> list[int]:
        """`put_many`, for asyncio; with a `connection` it blocks the loop."""
        if connection is not None:
            return self.put_many(jobs, connection=connection)
        return await self.aapply(Put(_batch(jobs)))

    def _store(self, job: NewJob, connection: object) -> int:
        if connection is not None:
            return self._put_within(connection, Put((job,)))[0]
        return self.apply(Put((job,)))[0]


def _batch(jobs: Iterable[NewJob]) -> tuple[NewJob, ...]:
    if not isinstance(jobs, Iterable):
        raise BadJob(f"put_many takes what queue.job(...) returns, many of them, not {type(jobs).__name__}")
    batch = tuple(jobs)
    for job in batch:
        if not isinstance(job, NewJob):
            raise BadJob(f"put_many takes what queue.job(...) returns, not {type(job).__name__}")
    return batch
