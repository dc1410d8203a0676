"""What has become of a job, now or once it has ended."""

from __future__ import annotations

import asyncio
import random
import time
from concurrent.futures import Future
from typing import Final

from .._errors import StoreAway, StoreBusy, WaitTimeout
from ..jobs.commands import Ref
from ..jobs.durations import Duration, duration
from ..jobs.job import Job
from ..jobs.results import Result
from .by_reference import ByReference
from .waits import Waits, results

__all__ = ["Results"]

_PAUSES: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest


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
        time_left = _TimeLeft(timeout)
        while True:
            try:
                job = self.get(ref)
                if not job.state.live:
                    return self.result(job)
                break
            except (StoreAway, StoreBusy) as error:
                pause = time_left.pause(error)
            time.sleep(pause)
        future = self._waits.enter(job)
        try:
            return future.result(time_left())
        except TimeoutError:
            raise _late(job, time_left.seconds) from None
        finally:
            self._waits.leave(job.id, future)

    async def await_(self, ref: Ref | Job, timeout: Duration | None = None) -> Result:
        """`wait`, for asyncio. The twin of `wait` would be named as a keyword is: hence the underscore."""
        time_left = _TimeLeft(timeout)
        while True:
            try:
                job = await self.aget(ref)
                if not job.state.live:
                    return await self.aresult(job)
                break
            except (StoreAway, StoreBusy) as error:
                pause = time_left.pause(error)
            await asyncio.sleep(pause)
        future: Future[Result] = self._waits.enter(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), time_left())
        except TimeoutError:
            raise _late(job, time_left.seconds) from None
        finally:
            self._waits.leave(job.id, future)


class _TimeLeft:
    """How long somebody waits on, and how often the store is asked for the job meanwhile."""

    def __init__(self, timeout: Duration | None) -> None:
        self.seconds = None if timeout is None else duration(timeout, "timeout") / 1000
        self._until = None if self.seconds is None else time.monotonic() + self.seconds
        self._pause = _PAUSES[0]

    def __call__(self) -> float | None:
        """Return the seconds that are left; None: there is no end."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)

    def pause(self, error: Exception) -> float:
        """Return the seconds until the next try after this error. It is raised if no time is left, or was given."""
        left = self()
        if not left:
            raise error
        pause, self._pause = self._pause * random.uniform(0.5, 1), min(2 * self._pause, _PAUSES[1])
        return min(pause, left)


def _late(job: Job, seconds: float | None) -> WaitTimeout:
    return WaitTimeout(f"job {job.id} of topic {job.topic!r:.82} has not ended within {seconds:g} s: it goes on")
