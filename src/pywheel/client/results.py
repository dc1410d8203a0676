"""What has become of a job, now or once it has ended."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from .._errors import WaitTimeout
from ..jobs.commands import Ref
from ..jobs.durations import Duration, duration
from ..jobs.job import Job
from ..jobs.results import Result
from .by_reference import ByReference
from .waits import Waits, results

__all__ = ["Results"]


class Results(ByReference):
    """Results, and waiting for them."""

    _waits: Waits

    def result(self, ref: Ref | Job) -> Result:
        """Return what has become of a job by now: its state, the result of its handler if it is kept, its last error.

        Raises:
            NoSuchJob: there is none.
            StoreError: the store cannot say.
        """
        job = self.get(ref)
        [found] = results(self.store, [(job.id, job.state)])
        return found

    async def aresult(self, ref: Ref | Job) -> Result:
        """`result`, for asyncio."""
        return await asyncio.to_thread(self.result, ref)

    def wait(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """Return what has become of a job once it is done, dead or cancelled.

        It returns some ms after a worker has ended the job, and half a second after anybody else has. One thread
        listens for all who wait in a process; nobody else pays for it. While the store is away it waits on.

        Args:
            ref: the job. By a key it is the job that has it now.
            timeout: how long to wait at most. Without it, for as long as it takes.

        Raises:
            WaitTimeout: the job has not ended in that time. It goes on.
            NoSuchJob: there is none, or it was deleted meanwhile.
            StoreClosed: the queue was closed meanwhile.
            StoreError: the store cannot say which job it is.
        """
        seconds = _seconds(timeout)
        job = self.get(ref)
        if not job.state.live:
            return self.result(job)
        future = self._waits.enter(job)
        try:
            return future.result(seconds)
        except TimeoutError:
            raise _late(job, seconds) from None
        finally:
            self._waits.leave(job.id, future)

    async def await_(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """`wait`, for asyncio. The twin of `wait` would be named as a keyword is: hence the underscore."""
        seconds = _seconds(timeout)
        job = await self.aget(ref)
        if not job.state.live:
            return await self.aresult(job)
        future: Future[Result] = self._waits.enter(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
        except TimeoutError:
            raise _late(job, seconds) from None
        finally:
            self._waits.leave(job.id, future)


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration(timeout, "timeout") / 1000


def _late(job: Job, seconds: float | None) -> WaitTimeout:
    return WaitTimeout(f"job {job.id} of topic {job.topic!r:.82} has not ended within {seconds:g} s: it goes on")
