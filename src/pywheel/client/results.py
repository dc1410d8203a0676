"""The result of a job, now or once the job has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from .._errors import StoreAway, StoreBusy, WaitTimeout
from ..jobs.commands import Ref
from ..jobs.durations import Duration, duration
from ..jobs.job import Job
from ..jobs.results import Result
from ..stores.contract import pauses
from .calls import Calls
from .completion_listener import results
from .jobs import found

_PAUSES: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest


def result(calls: Calls, ref: Ref | Job) -> Result:
    """Return the state, result and last error of a job as they are now."""
    job = found(calls, ref)
    [so_far] = results(calls.store, [(job.id, job.state)])
    return so_far


def wait(calls: Calls, ref: Ref | Job, timeout: Duration | None) -> Result:
    """Wait until a job has ended; return its result."""
    time_left = TimeLeft(timeout)
    while isinstance(job := _found(calls, ref, time_left), float):
        time.sleep(job)
    if isinstance(job, Result):
        return job
    with _entered(calls, job, time_left) as future:
        return future.result(time_left())


async def wait_async(calls: Calls, ref: Ref | Job, timeout: Duration | None) -> Result:
    """`wait`, for asyncio."""
    time_left = TimeLeft(timeout)
    while isinstance(job := await asyncio.to_thread(_found, calls, ref, time_left), float):
        await asyncio.sleep(job)
    if isinstance(job, Result):
        return job
    with _entered(calls, job, time_left) as future:
        return await asyncio.wait_for(asyncio.wrap_future(future), time_left())


def _found(calls: Calls, ref: Ref | Job, time_left: TimeLeft) -> Job | Result | float:
    """Return the job to wait for, or its result if it has ended; the seconds to the next try if the store is away."""
    try:
        job = found(calls, ref)
        return job if job.state.live else result(calls, ref)
    except (StoreAway, StoreBusy) as error:
        return time_left.pause(error)


@contextmanager
def _entered(calls: Calls, job: Job, time_left: TimeLeft) -> Iterator[Future[Result]]:
    """Give the future of a job's result within this context. A TimeoutError in it becomes WaitTimeout."""
    future = calls.waits.enter(job)
    try:
        yield future
    except TimeoutError:
        why = f"job {job.id} of topic {job.topic!r:.82} has not ended within {time_left.seconds:g} s: it goes on"
        raise WaitTimeout(why) from None
    finally:
        calls.waits.leave(job.id, future)


class TimeLeft:
    """The time that a waiting call has left, and the pauses between its questions to a store that is away."""

    def __init__(self, timeout: Duration | None) -> None:
        self.seconds = None if timeout is None else duration(timeout, "timeout") / 1000
        self._until = None if self.seconds is None else time.monotonic() + self.seconds
        self._pauses = pauses(*_PAUSES)

    def __call__(self) -> float | None:
        """Return the seconds that are left; None without a timeout."""
        return None if self._until is None else max(self._until - time.monotonic(), 0.0)

    def pause(self, error: Exception) -> float:
        """Return the seconds until the next try after this error. Without a timeout, or time left, raise the error."""
        left = self()
        if not left:
            raise error
        return min(next(self._pauses), left)
