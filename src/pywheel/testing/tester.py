"""The queue of a program in a test: in memory, with a clock that the test moves, without workers, threads or sleep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Self

from .._errors import BadOption
from ..client.queue import AsyncJobQueue, JobQueue
from ..clock import ManualClock
from ..execution import is_tick
from ..jobs.durations import Duration, duration
from ..jobs.handler import GiveUp, Handler, NotNow, RetryLater
from ..jobs.job import Job, State
from ..jobs.limits import Gate, note_of
from ..jobs.queries import GetNextDues, GetNextLease, GetNote
from ..stores.schedule_notes import TOPIC
from ..tasks.task import AnyTask
from .due import DueRunner, Failure, at_once, limits_in_force
from .puts import PutJob, RecordingStore, in_words
from .wanted import Wanted, refuse_ambiguous, topic_of

_SHOWN: Final = 20
_PAGE: Final = 1_000
_ON_PURPOSE: Final = (GiveUp, NotNow, RetryLater)


class QueueTester:
    """A program's queue, switched to a store in memory, with methods for tests.

    The queue keeps its handlers, and leaves its own store for good: after `close`, or the `with`, each of its methods
    raises StoreClosed, so that no later test works on a real store by mistake. Handlers run only within `run_due`,
    `advance` and their async twins, in the thread that calls them. A put with a `connection=` is applied at once.

    Args:
        queue: the program's queue; by default a new one.
        clock: the clock to use; by default a new one. Timers on the same clock run within `advance`, each in its turn.
        raises: end `run_due` and `advance` with the error that a handler raises, after its job is settled as by a
            worker. GiveUp, RetryLater and NotNow, which handlers raise on purpose, are excepted.
        moved: called with the time of day, a datetime in UTC, now and whenever `advance` has moved the clock, before
            handlers run. With a library that freezes the program's time: ``moved=frozen.move_to``.

    Raises:
        TypeError: this is not a queue, or no ManualClock.
    """

    def __init__(
        self,
        queue: JobQueue | AsyncJobQueue | None = None,
        *,
        clock: ManualClock | None = None,
        raises: bool = False,
        moved: Callable[[datetime], object] | None = None,
    ) -> None:
        if queue is not None and not isinstance(queue, JobQueue | AsyncJobQueue):
            raise TypeError(f"a QueueTester takes a JobQueue, not {queue!r:.40}")
        if clock is not None and not isinstance(clock, ManualClock):
            raise TypeError(f"a QueueTester takes a ManualClock, not {clock!r:.40}")
        self.clock = clock or ManualClock()
        self.raises = raises
        self._moved = moved
        self.failures: list[Failure] = []
        """The errors that handlers raised, in order, each with its job as the handler got it."""
        self._store = RecordingStore(clock=self.clock)
        if queue is None:
            self.queue = JobQueue(self._store)
        else:
            self.queue = queue.sync
            queue.use(self._store)
        self._move_to(self.clock.time_ns())

    def __repr__(self) -> str:
        return f"<QueueTester at {self.clock.time():.3f} s, {len(self._store.puts)} jobs put>"

    # ---- running ----------------------------------------------------------------------------------------------------

    def run_due(self, limit: int | None = None) -> int:
        """Handle the jobs that are due now, as `pywheel.testing.run_due` does; return how many, at most `limit`.

        Raises:
            RuntimeError: a coroutine called this; use ``await arun_due()`` there.
            Exception: a handler's error, with `raises`.
        """
        with self._runner() as runner:
            return at_once(runner.run(limit))

    async def arun_due(self, limit: int | None = None) -> int:
        """Do as `run_due`, in a coroutine: coroutine handlers run on its loop."""
        async with self._runner() as runner:
            return await runner.run(limit)

    def advance(self, delay: Duration) -> int:
        """Move the clock by `delay`, from due time to due time; handle jobs that are due on the way; return how many.

        Each handler, also at a retry, finds the clock at the due time of its job. Jobs that are due now come first;
        jobs that are due at the end are included. The cost depends on the jobs, not on the time that passes.

        Raises:
            RuntimeError: a coroutine called this; use ``await aadvance(...)`` there.
            BadOption: this is not a delay.
            Exception: a handler's error, with `raises`. The clock then stands at that time: call this again for the
                rest.
        """
        with self._runner() as runner:
            return at_once(self._advance(runner, duration(delay, "delay", error=BadOption)))

    async def aadvance(self, delay: Duration) -> int:
        """Do as `advance`, in a coroutine: coroutine handlers run on its loop."""
        async with self._runner() as runner:
            return await self._advance(runner, duration(delay, "delay", error=BadOption))

    async def _advance(self, runner: DueRunner, ms: int) -> int:
        clock = self.clock
        end = clock.time_ns() + ms * 1_000_000
        handled = await runner.run()
        while (stop := min(clock._next_stop(end), self._next_ns(end))) < end:
            self._move_to(stop)
            handled += await runner.run()
        self._move_to(end)
        return handled + await runner.run()

    def _move_to(self, ns: int) -> None:
        self.clock._advance_to(ns)
        if self._moved is not None:
            self._moved(datetime.fromtimestamp(self.clock.wall() / 1000, UTC))

    def _next_ns(self, end: int) -> int:
        """Return the clock's time at which the next job is due or a lease may be over, or the end.

        Jobs of paused topics do not count, nor those that a limit holds back; those that a rate holds back do.
        """
        clock, handlers, store = self.clock, self.queue.handlers, self.queue.store
        now, now_ns = clock.wall(), clock.time_ns()
        lease = store.ask(GetNextLease())
        walls = [] if lease is None else [lease]  # its job is due then
        for topic, due in store.ask(GetNextDues((*handlers, TOPIC))).items():
            walls.append(due if due > now or topic not in handlers else self._next_start(topic, handlers[topic]))
        return min([end, *(now_ns + max(round(clock.until(wall) * 1e9), 1) for wall in walls if wall > now)])

    def _next_start(self, topic: str, handler: Handler) -> int:
        """Return when the rate of a topic allows a start, in ms; 0 if it is not the rate that holds its jobs back."""
        limits, store = limits_in_force(self.queue, topic, handler), self.queue.store
        if limits is None:
            return 0
        gate = Gate(limits._replace(most=None), (), store.ask(GetNote(note_of(topic))), store.clock.wall())
        gate.admits(None)
        return gate.again or 0

    def _runner(self) -> DueRunner:
        return DueRunner(self.queue, self._fail)

    def _fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        if self.raises and not isinstance(failure.error, _ON_PURPOSE):
            raise failure.error

    # ---- looking ----------------------------------------------------------------------------------------------------

    def jobs(self, topic: object = None, state: State | str | None = None) -> list[Job]:
        """Return the jobs of a topic, a task or a handler, or all: in every state or in one, by id.

        Raises:
            BadOption: the function handles no topic, or several; or there is no such state.
        """
        wanted = None if topic is None else self._topic(topic)
        found: list[Job] = []
        while page := self.queue.jobs.list(wanted, state, after=found[-1].id if found else 0, limit=_PAGE):
            found.extend(page)
        return [job for job in found if job.topic != TOPIC]

    def dead(self, topic: object = None) -> list[Job]:
        """Return the dead jobs of a topic or all, each with its `last_error`, by id."""
        return self.jobs(topic, State.DEAD)

    def clear(self) -> None:
        """Delete all jobs except future ticks, and forget the puts and the failures. The clock does not move."""
        for job in self.jobs():
            if not (is_tick(job) and job.state.live):
                self.queue.release(job)  # if it is running; only a delayed job can be cancelled
                self.queue.cancel(job.id)
                self.queue.jobs.delete(job.id)
        self._store.puts.clear()
        self.failures.clear()

    def assert_put(
        self,
        task_or_topic: object,
        /,
        *args: Any,
        count: int | None = None,
        delay: Duration | None = None,
        key: str | None = None,
        **kwargs: Any,
    ) -> list[Job]:
        """Return the jobs that match, as they were put, in order, since the beginning or the last `clear`.

        A job counts in every state, also if it is done or cancelled. Ticks of schedules do not count: no program puts
        them.

        Args:
            task_or_topic: a task, a topic, or a function that handles one.
            args: of a task, its arguments, as the function gets them; those not given match any. Of a topic, the body:
                bytes, or the value of its JSON; by default any body.
            count: how many jobs must match; by default one or more.
            delay: how long after its put each was due; by default any time.
            key: the job's key; by default any or none.
            kwargs: of a task, arguments by name. Of a topic, some of the body's fields.

        Raises:
            AssertionError: no job matches, or not `count`. It shows the actual puts, and the errors of handlers.
            BadArguments: the task takes no such argument.
            BadOption: the arguments make no sense, or one means two things: the task's function has a `count` itself.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        task = task_or_topic if isinstance(task_or_topic, AnyTask) else None
        if task is not None:
            refuse_ambiguous(task, count=count, delay=delay, key=key)
        wanted = Wanted(self._topic(task_or_topic), task, args, kwargs, delay, key)
        puts = [PutJob(self.queue.store.opened(put.job), put.delay) for put in self._store.puts.values()]
        found = [put.job for put in puts if wanted.fits(put)]
        if (not found) if count is None else len(found) != count:
            raise AssertionError(self._complaint(len(found), count, wanted, puts))
        return found

    def _topic(self, wanted: object) -> str:
        return topic_of(wanted, self.queue.handlers)

    def _complaint(self, found: int, count: int | None, wanted: Wanted, puts: list[PutJob]) -> str:
        number = "no job was" if found == 0 else "1 job was" if found == 1 else f"{found} jobs were"
        lines = [f"{number} put with {wanted}" + ("" if count is None else f", and not {count}")]
        lines += ["what was put:" if puts else "nothing was put at all"]
        lines += [f"  {in_words(put)}" for put in puts[-_SHOWN:]]
        lines += [f"  and {len(puts) - _SHOWN} before"] if len(puts) > _SHOWN else []
        if self.failures:
            lines += ["what handlers raised:"]
            lines += [f"  {job.topic} {job.id}: {error!r:.200}" for job, error in self.failures[-_SHOWN:]]
        return "\n".join(lines)

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the queue. Idempotent."""
        self.queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
