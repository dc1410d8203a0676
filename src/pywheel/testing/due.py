"""Handling of due jobs in a test, without a worker."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from .._errors import BadBody, BadOption
from ..client.queue import AsyncJobQueue, JobQueue
from ..events import JobStarted
from ..execution import Ended, Execution, admit, event_of, settlement
from ..jobs.checks import MOST, whole
from ..jobs.commands import Ack, ClaimPolicy, Expire, Nack, Release, Reserve
from ..jobs.handler import Handler, Skipped, moved, rest_of, to_the_end
from ..jobs.job import Job, State
from ..jobs.limits import Limits
from ..jobs.managed import ManagedHandler, close_all
from ..jobs.queries import GetNextDues, GetNextLease
from ..jobs.results import result_of
from ..stores.schedule_notes import TOPIC, ScheduleNotes
from ..worker.schedules import declare, with_planner

_WORKER = "run_due"
_EXPIRED = 1_000  # lost leases that are ended in one step
_LOGGER = logging.getLogger("pywheel.jobs")
R = TypeVar("R")


class Failure(NamedTuple):
    """The error that a handler raised, and the job as the handler got it."""

    job: Job
    error: BaseException


def run_due(queue: JobQueue | AsyncJobQueue, limit: int | None = None) -> int:
    """Handle every job that is due now, in this thread, by due time; return how many, at most `limit`.

    The queue's handlers, also coroutine functions, run one after the other. Each job is acked, delayed for a retry, or
    dead, as with a worker. Jobs that handlers put, if due at once, are also handled. No time passes: with a
    ManualClock, advance it and call this again.

    Raises:
        RuntimeError: a coroutine called it. There: ``await asyncio.to_thread(run_due, queue)``.
        TypeError: this is not a queue.
        BadOption: this is no limit.
        BadBody: a job's body cannot be read with the keys of this queue.
        StoreError: the store failed.
    """
    if not isinstance(queue, JobQueue | AsyncJobQueue):
        raise TypeError(f"run_due takes a JobQueue, not {queue!r:.40}")
    with DueRunner(queue.sync) as runner:
        return at_once(runner.run(limit))


def limits_in_force(queue: JobQueue, topic: str, handler: Handler) -> Limits | None:
    """Return the limits by which jobs of a topic are claimed: those that an operator has set, or else the handler's."""
    override = queue.topics.limits(topic)
    return handler.limits if override is None else override.limits


def at_once(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that never waits; return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # its result
    raise AssertionError("it waited")


class DueRunner:
    """Handles due jobs, until its `with` ends. Within `async with` handlers run on the current loop.

    Args:
        queue: the queue with the handlers and the store.
        failed: called for each handler that raised, after its job is settled; an error that it raises ends the run.

    Raises:
        RuntimeError: a coroutine used `with`.
    """

    def __init__(self, queue: JobQueue, failed: Callable[[Failure], None] | None = None) -> None:
        self._queue = queue
        self._failed = failed
        functions = [handler.function for handler in queue.handlers.values()]
        self._managed = [function for function in functions if isinstance(function, ManagedHandler)]
        self._policy: dict[str, ClaimPolicy] = {}
        self._planner = with_planner(queue, {})[TOPIC]
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> Self:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError(
                "this would block the loop that runs it: await asyncio.to_thread(run_due, queue); "
                "of a QueueTester await arun_due() or aadvance()"
            )
        self._runner = asyncio.Runner()  # makes its loop when it is needed
        self._attach()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._runner is not None
        try:
            if self._managed:
                self._runner.run(close_all(self._managed))
        finally:
            self._runner.close()

    async def __aenter__(self) -> Self:
        self._attach()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._managed:
            await close_all(self._managed)

    def _attach(self) -> None:
        for topic, handler in self._queue.handlers.items():
            if isinstance(handler.function, ManagedHandler):
                handler.function.attach(topic, self._queue.store, handler.concurrency)

    async def run(self, limit: int | None = None) -> int:
        """Handle the jobs that are due now; return how many. Outside `async with` it never waits."""
        if limit is not None:
            whole(limit, "limit", MOST, 0, error=BadOption)
        handled = 0
        self._policy.clear()  # limits may have been set meanwhile
        declare(self._queue)
        ScheduleNotes(self._queue.store).begin()  # the clock may have been stepped back
        around = self._queue.middleware.around
        left = {topic: around(handler) for topic, handler in self._queue.handlers.items()}
        left.setdefault(TOPIC, self._planner)
        while left and handled != limit:
            first = self._first(tuple(left))
            if first is None:
                break
            jobs = await self._handle_one(left, first)
            handled += jobs if first != TOPIC else 0  # the planner's job does not count
        return handled

    async def _handle_one(self, left: dict[str, Handler], topic: str) -> int:
        """Handle the first job of a topic; return 1. If none can be claimed, remove the topic from `left`; return 0."""
        if topic not in self._policy:
            handler = left[topic]
            self._policy[topic] = handler.policy._replace(limits=limits_in_force(self._queue, topic, handler))
        [jobs] = self._queue.store.apply([Reserve(topic, 1, self._policy[topic], _WORKER)])
        if isinstance(jobs, BaseException):
            raise jobs
        for job in jobs:
            await self._handle(left[topic], _opened(self._queue, job))
        if not jobs:
            del left[topic]
        return len(jobs)

    def _first(self, topics: tuple[str, ...]) -> str | None:
        """Return the topic of the first due job, after ending leases that are over; None if no job is due."""
        store = self._queue.store
        now, lease = store.clock.wall(), store.ask(GetNextLease())
        if lease is not None and lease <= now:
            store.apply([Expire(_EXPIRED)])
        dues = store.ask(GetNextDues(topics))
        due = [(dues[topic], topic) for topic in topics if dues.get(topic, now + 1) <= now]
        return min(due)[1] if due else None

    async def _handle(self, handler: Handler, job: Job) -> None:
        """Run a handler, and settle its job."""
        queue = self._queue
        clock, tell = queue.store.clock, queue.events.emit
        tell(JobStarted(job, max(clock.wall() - job.due, 0) / 1000))
        began = clock.time()
        command, error = settlement(queue.store, handler, job, await self._tried(handler, job))
        move = None if isinstance(command, Ack | Nack) else moved(job, error)
        outcome = queue.store.apply([command] if move is None else [command, move])[0]
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome:  # if not, the lease was lost
            tell(event_of(job, command, move, outcome, clock.time() - began, error))
            if isinstance(command, Nack) and outcome is State.DEAD:
                await self._tell_dead(job, command.error)
        if error is not None and self._failed is not None and not isinstance(error, Skipped):
            self._failed(Failure(job, error))

    async def _tried(self, handler: Handler, job: Job) -> Ended:
        """Run a handler. Raise an error that is meant for the test's runner, and give the job back."""
        store = self._queue.store
        keep = result_of if handler.results else None
        execution = Execution(handler.function, self._queue.events, keep=keep, admit=partial(admit, store))
        if self._runner is not None:
            ended = execution.run(job, self._finish)
        else:
            ended = await execution.arun(job, self._rest)
        error = ended.error
        cancelled = isinstance(error, asyncio.CancelledError)
        if error is not None and (
            self._cancelled() if cancelled else not isinstance(error, Exception | SystemExit)
        ):  # Ctrl-C, or pytest.fail
            store.apply([Release(job.id, job.claims)])
            raise error
        return ended

    async def _tell_dead(self, job: Job, error: str | None) -> None:
        results: list[Any] = []
        self._queue.middleware.call_dead(job, error, results.append)
        for result in results:
            try:
                if (rest := rest_of(result)) is not None:
                    await self._rest(rest)
            except Exception:
                _LOGGER.exception("on_dead failed for the dead job %d of %r", job.id, job.topic)

    async def _rest(self, rest: Awaitable[Any]) -> Any:
        """Await a coroutine, in a context and a task of its own; return its result."""
        if self._runner is not None:
            return self._finish(rest)
        return await asyncio.create_task(to_the_end(rest), context=contextvars.copy_context())

    def _finish(self, rest: Awaitable[Any]) -> Any:
        assert self._runner is not None
        return self._runner.run(to_the_end(rest), context=contextvars.copy_context())

    def _cancelled(self) -> bool:
        """Whether the test was cancelled, not the handler alone."""
        task = None if self._runner is not None else asyncio.current_task()
        return task is not None and task.cancelling() > 0


def _opened(queue: JobQueue, job: Job) -> Job:
    try:
        return queue.store.opened(job)
    except BadBody:
        queue.store.apply([Release(job.id, job.claims)])
        raise
