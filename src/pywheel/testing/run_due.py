"""Runs what is due, in a test, without a worker."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

from .._errors import BadBody, BadJob
from ..client.queue import JobQueue
from ..events import JobEnded, JobGivenBack, JobStarted
from ..jobs.attached import Attached, let_go
from ..jobs.checks import MOST, whole
from ..jobs.commands import Ack, Nack, Release, Reserve
from ..jobs.handler import Handler, current_job, ending, moved, rest_of, to_the_end
from ..jobs.job import Job, Outcome, State
from ..stores.contract import Span
from ..stores.ownership import ALL

__all__ = ["run_due"]

_WORKER = "run_due"


def run_due(queue: JobQueue, limit: int | None = None) -> int:
    """Handle every job that is due now, in this thread, by due time; return how many, at most `limit`.

    The queue's handlers run one after the other, coroutine functions too, and each job is acked, tried again later or
    dead, as a worker would have it. What handlers put that is due at once is handled as well. No time passes: with
    a ManualClock, advance it and call this again.

    Raises:
        RuntimeError: a coroutine called it. There: ``await asyncio.to_thread(run_due, queue)``.
        BadJob: this is no queue, or no limit.
        BadBody: a job's body cannot be read with the keys of this queue.
        StoreError: the store failed.
    """
    if not isinstance(queue, JobQueue):
        raise BadJob(f"run_due takes a JobQueue, not {queue!r:.40}")
    if limit is not None:
        whole(limit, "limit", MOST, 0)
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("run_due would block this loop: await asyncio.to_thread(run_due, queue)")
    handled = 0
    left = dict(queue.handlers)
    attached = [handler.function for handler in left.values() if isinstance(handler.function, Attached)]
    for topic, handler in left.items():
        if isinstance(handler.function, Attached):
            handler.function.attach(topic, queue.store, handler.concurrency)
    with asyncio.Runner() as runner:
        try:
            while left and handled != limit:
                first = _first(queue, tuple(left))
                if first is None:
                    break
                handled += _handle_one(queue, left, first, runner)
        finally:
            if attached:
                runner.run(let_go(attached))
    return handled


def _handle_one(queue: JobQueue, left: dict[str, Handler], topic: str, runner: asyncio.Runner) -> int:
    """Handle the first job of a topic, or leave the topic out if it is paused; return how many jobs it was."""
    [jobs] = queue.store.apply([Reserve(topic, 1, left[topic].terms, _WORKER)])
    if isinstance(jobs, BaseException):
        raise jobs
    for job in jobs:
        _handle(queue, left[topic], _opened(queue, job), runner)
    if not jobs:
        del left[topic]
    return len(jobs)


def _first(queue: JobQueue, topics: tuple[str, ...]) -> str | None:
    """Return the topic whose turn it is."""
    spans = [Span(topic, ALL, (-1, 0), -1) for topic in topics]
    dues = zip(queue.store.first_dues(spans), topics, strict=True)
    due = [(due, topic) for due, topic in dues if due is not None and due <= queue.store.clock.wall()]
    return min(due)[1] if due else None


def _opened(queue: JobQueue, job: Job) -> Job:
    try:
        return queue.store.opened(job)
    except BadBody:
        queue.store.apply([Release(job.id, job.claims)])
        raise


def _handle(queue: JobQueue, handler: Handler, job: Job, runner: asyncio.Runner) -> None:
    clock, tell = queue.store.clock, queue.events.tell
    tell(JobStarted(job, max(clock.wall() - job.due, 0) / 1000))
    began, error = clock.time(), None
    token = current_job.set(job)
    try:
        with queue.events.handling(job):
            if (rest := rest_of(handler.function(job))) is not None:
                runner.run(to_the_end(rest), context=contextvars.copy_context())
    except (Exception, asyncio.CancelledError, SystemExit) as raised:  # noqa: BLE001  (as in a worker: the attempt failed)
        error = raised
    except BaseException:  # Ctrl-C, or pytest.fail: it is for whoever runs the test
        queue.store.apply([Release(job.id, job.claims)])
        raise
    finally:
        current_job.reset(token)
    command = ending(handler, job, error)
    move = None if isinstance(command, Ack | Nack) else moved(job, error)
    outcome = queue.store.apply([command] if move is None else [command, move])[0]
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome:  # else the lease was lost
        if move is not None:
            tell(JobGivenBack(job, (move.delay or 0) / 1000))
        else:
            _tell_end(queue, job, command, outcome, clock.time() - began)


def _tell_end(queue: JobQueue, job: Job, command: Any, outcome: Any, seconds: float) -> None:
    done = isinstance(command, Ack)
    state = State.DONE if done else outcome
    error = None if done else command.error
    queue.events.tell(JobEnded(job, Outcome.DONE if done else Outcome.FAILED, state, seconds, error))
