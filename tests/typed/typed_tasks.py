"""A program as type checkers see it: each line that is wrong says so, and each other one is right.

Both checkers complain of a complaint that they are told to ignore and do not have.
"""

from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import datetime, timedelta
from typing import Any, assert_type

from pywheel import AsyncJobQueue, Change, Job, JobQueue, Ladder, NotNow, RetryLater, RetryPolicy, Task, provided
from pywheel.jobs import AnyRetry, Duration
from pywheel.tasks.task import AnyTask

queue = JobQueue("memory:")


class Session: ...


@queue.provide
def session(job: Job) -> Iterator[Session]:
    yield Session()


@queue.provide
async def asession() -> AsyncIterator[Session]:
    yield Session()


@queue.before
def before(job: Job) -> None: ...


@queue.after
def after(job: Job, error: BaseException | None) -> None: ...


@queue.on_dead
async def dead(job: Job) -> None: ...


@queue.task(key=lambda order_id: f"order-{order_id}", delay="30m", retry=Ladder("5s"), concurrency=2, max_attempts=3)
def close_order(order_id: int, note: str = "", *, session: Session = provided) -> float:
    return order_id / 2


def key_of(order_id: int) -> str:
    return str(order_id)


@queue.task("orders.notify", key=key_of)
async def notify(job: Job, order_id: int, at: datetime | None = None) -> bool:
    return True


@queue.task()
def tick() -> None: ...


def by_error(job: Job, error: BaseException | None) -> Duration | None:
    return None if isinstance(error, KeyError) else "30s"


async def slow_retry(job: Job, error: BaseException | None) -> str:
    return "30s"


class Nightly(RetryPolicy):
    """A policy of its own, as the reference describes it. Pyright lets nothing but a property replace a property."""

    max_attempts = 30  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
    delays = (86_400_000,)

    def delay(self, attempt: int) -> int:
        return self.delays[0]


retry: AnyRetry = by_error
retry = Ladder("5s")
queue.handler("own", retry=Nightly())
queue.handler("policy", retry=Ladder("5s", "1m"))
queue.handler("function", retry=by_error)
queue.handler("lambda", retry=lambda job, error: None if isinstance(error, KeyError) else 30 * job.attempt)
queue.handler("delta", retry=lambda job, error: timedelta(minutes=1))
queue.task(retry=by_error)
queue.task(retry=lambda job, error: f"{job.attempt}m")
queue.aio.task(retry=by_error)
queue.reserve("t", retry=by_error)
queue.handler("t", retry=slow_retry)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.handler("t", retry="5s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.handler("t", retry=lambda job: "5s")  # type: ignore[misc, arg-type]  # pyright: ignore[reportArgumentType]
queue.handler("t", retry=lambda job, error: b"5s")  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
queue.reserve("t", retry=30)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.task(retry=slow_retry)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

queue.task(delay="1m", concurrency="8")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.task(dely="1m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# A schedule takes the options of a handler, and runs what needs no arguments but the job.
queue.every("1m", jiter="1s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
queue.every("1m", delay="1s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
queue.cron("0 3 * * *", timezone="UTC")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
queue.cron("0 3 * * *", concurrency="8")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@queue.every("15m", jitter="10s", name="sweeping", retry=Ladder("5s"), results=True, limit=None)
def sweep() -> None: ...


@queue.cron("0 3 * * *", tz="Europe/Berlin", overlap="queue", keep_lease=True)
async def nightly(job: Job) -> None: ...


@queue.every("1d")
@queue.task("report")
def report(days: int = 1) -> None: ...


assert_type(report.put(days=2), int)
queue.every("1d")(close_order)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]

# What is provided is what a generator function yields; it takes nothing, or the job.
queue.provide(by_error)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
queue.provide(key_of)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]

# A delay is a duration.
RetryLater(timedelta(minutes=5), "busy", least=True)
NotNow("2s")
RetryLater(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
NotNow(b"2s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# A put is checked against the function.
assert_type(close_order.put(7), int)
close_order.put(order_id=7, note="late")
close_order.put("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
close_order.put()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
close_order.put(7, notes="late")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
close_order.put(7, delay="30m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
tick.put()
tick.put(7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# The job is not put.
notify.put(7, at=datetime.now())
notify.put(order_id=7)
notify.put(order_id="7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Options stand before the arguments.
assert_type(close_order.options(delay="30m").put(order_id=7), int)
close_order.options(delay=timedelta(minutes=5), headers={"a": "b"}, priority=5).put(7)
close_order.options(delay="30m").put(order_id="7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
close_order.options(dealy="30m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
close_order.options(delay=b"30m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Many.
assert_type(close_order.put_many([close_order.job(7), close_order.options(delay=1).job(8)]), list[int])
close_order.put_many([("7",)])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
close_order.job("9")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# By key: the function's own arguments, whatever the key is made by.
assert_type(close_order.cancel(order_id=7), Change)
close_order.cancel("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(notify.key(7), str)
notify.cancel("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
notify.cancel(order=7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
assert_type(notify.options(delay="1h").reschedule(7), Change)
notify.reschedule(order_id="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
tick.cancel(7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# A plain call is the function's.
assert_type(close_order(7), float)
close_order("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# The queue itself.
assert_type(queue.put("t", {"order": 7}, delay="30m", key="order-7"), int)
queue.put("t", delay=b"30m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.put("t", dealy="30m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
queue.jobs.list("t", limit="7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
queue.schedules.set("s", "t", every=60, catchup="one")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

awaited = AsyncJobQueue("memory:")


@awaited.task(key=lambda order_id: f"order-{order_id}")
async def refund(job: Job, order_id: int) -> bool:
    return True


async def program(job: Job) -> None:
    """Use what is awaited."""
    assert_type(await notify(job, 7), bool)
    assert_type(await refund.put(7), int)
    assert_type(await refund.options(delay="1h").put(7), int)
    assert_type(await refund.put_many([refund.job(7)]), list[int])
    assert_type(await refund.cancel(7), Change)
    await refund.put("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await refund.cancel("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(await close_order.aio.put(7), int)
    assert_type(refund.sync.put(7), int)
    assert_type(await awaited.put("t", delay="1h"), int)
    assert_type(await awaited.topics.pause("t"), bool)
    assert_type(awaited.sync, JobQueue)
    assert_type(close_order.arguments(job), dict[str, Any])


def any_task(task: AnyTask[..., ..., Any]) -> str:
    """Take any task."""
    return task.topic


def coroutine_task(task: Task[[int], ..., Coroutine[Any, Any, object]]) -> int:
    """Take one that is put with an int."""
    return task.put(7)


any_task(close_order)
any_task(notify)
any_task(refund)
