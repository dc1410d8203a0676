"""One job, by its id or its key."""

from __future__ import annotations

import asyncio
from datetime import datetime

from .._errors import BadJob, NoSuchJob
from ..jobs.commands import Cancel, Delete, Ref, Reschedule, Retry, reference
from ..jobs.durations import Duration, delay_ms, moment
from ..jobs.job import Attempt, Job
from ..jobs.queries import GetHistories, GetJob
from .base import Base

__all__ = ["ByReference"]


class ByReference(Base):
    """What can be asked about one job, and done to it. Each is O(log jobs), a history also by its rows."""

    def get(self, ref: Ref | Job) -> Job:
        """Return a job as it is now.

        Raises:
            NoSuchJob: there is none.
            BadJob: this names no job.
        """
        found = self.store.ask(GetJob(reference(ref)))
        if found is None:
            raise NoSuchJob(f"there is no job {_called(ref)}")
        return found

    async def aget(self, ref: Ref | Job) -> Job:
        """`get`, for asyncio."""
        return await asyncio.to_thread(self.get, ref)

    def history(self, ref: Ref | Job) -> list[Attempt]:
        """Return what was tried with a job, oldest first, the present attempt too.

        Raises:
            NoSuchJob: there is none.
        """
        return self.store.ask(GetHistories([self.get(ref).id]))[0]

    async def ahistory(self, ref: Ref | Job) -> list[Attempt]:
        """`history`, for asyncio."""
        return await asyncio.to_thread(self.history, ref)

    def cancel(self, ref: Ref | Job) -> bool:
        """Cancel a delayed job; return whether it was one. After True it is never delivered again."""
        return self.apply(Cancel(reference(ref)))

    async def acancel(self, ref: Ref | Job) -> bool:
        """`cancel`, for asyncio."""
        return await self.aapply(Cancel(reference(ref)))

    def reschedule(self, ref: Ref | Job, delay: Duration | None = None, *, at: datetime | None = None) -> bool:
        """Give a delayed job another due time: `delay` from now, or `at`; return whether it was one.

        False changes nothing.

        Raises:
            BadJob: not one of the two was given, or it makes no sense.
        """
        return self.apply(_reschedule(ref, delay, at))

    async def areschedule(self, ref: Ref | Job, delay: Duration | None = None, *, at: datetime | None = None) -> bool:
        """`reschedule`, for asyncio."""
        return await self.aapply(_reschedule(ref, delay, at))

    def retry(self, ref: Ref | Job, delay: Duration = 0) -> bool:
        """Make a finished job delayed again, with all its attempts; return whether it was one.

        False changes nothing.

        Raises:
            JobExists: its key belongs to another live job by now.
        """
        return self.apply(Retry(reference(ref), delay=delay_ms(delay)))

    async def aretry(self, ref: Ref | Job, delay: Duration = 0) -> bool:
        """`retry`, for asyncio."""
        return await self.aapply(Retry(reference(ref), delay=delay_ms(delay)))

    def delete(self, ref: Ref | Job) -> bool:
        """Forget a job that is not running, and its history; return whether there was one."""
        return self.apply(Delete(reference(ref)))

    async def adelete(self, ref: Ref | Job) -> bool:
        """`delete`, for asyncio."""
        return await self.aapply(Delete(reference(ref)))


def _reschedule(ref: Ref | Job, delay: Duration | None, at: datetime | None) -> Reschedule:
    if delay is not None and at is None:
        return Reschedule(reference(ref), delay=delay_ms(delay))
    if at is not None and delay is None:
        return Reschedule(reference(ref), due=moment(at))
    raise BadJob("give delay or at, one of them")


def _called(ref: Ref | Job) -> str:
    """Return what a job is called by, for an error."""
    if isinstance(ref, Job):
        return str(ref.id)
    return str(ref) if isinstance(ref, int) else f"{ref[1]!r:.80} of topic {ref[0]!r:.80}"
