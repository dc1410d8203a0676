"""Middleware of a program around its handlers and tasks."""

import asyncio
import contextvars

import pytest

from pywheel import Fixed, GiveUp, NotNow, RetryLater
from pywheel.jobs import State
from pywheel.jobs.managed import ManagedHandler
from pywheel.testing import run_due
from tests.jobs.waiting import finished, working

who = contextvars.ContextVar("who", default="nobody")


@pytest.fixture
def seen():
    return []


def handled(queue, topic="t"):
    id = queue.put(topic)
    run_due(queue)
    return queue.get(id)


def errors(caplog):
    """Return what was logged with a traceback."""
    return [str(record.exc_info[1]) for record in caplog.records if record.exc_info]


def test_they_stand_around_a_handler_in_order(queue, seen):
    for name in "ab":
        queue.before(lambda job, name=name: seen.append(f"before {name}"))
        queue.after(lambda job, error, name=name: seen.append(f"after {name}"))
    queue.handler("t")(lambda job: seen.append("handle"))
    assert handled(queue).state is State.DONE
    assert seen == ["before a", "before b", "handle", "after b", "after a"]


@pytest.mark.parametrize("kind", ["function", "coroutine", "returned"])
def test_context_variables_reach_every_kind_of_handler_and_no_other_job(queue, seen, kind):
    @queue.before
    def enter(job):
        seen.append(who.get())
        who.set("main")

    @queue.after
    def leave(job, error):
        seen.append(who.get())

    async def later(job):
        await asyncio.sleep(0)
        seen.append(who.get())

    queue.handler("t")(
        {"function": lambda job: seen.append(who.get()), "coroutine": later, "returned": lambda job: later(job)}[kind]
    )
    for _ in range(2):
        seen.clear()
        assert handled(queue).state is State.DONE
        assert seen == ["nobody", "main", "main"]


@pytest.mark.parametrize(
    ("error", "state", "attempt"),
    [
        (ValueError("no"), State.DELAYED, 1),
        (GiveUp("no"), State.DEAD, 1),
        (RetryLater("1h"), State.DELAYED, 1),
        (NotNow("1h"), State.DELAYED, 0),
    ],
)
def test_what_before_raises_is_what_the_handler_would_have_raised(queue, seen, error, state, attempt):
    @queue.before
    def refuse(job):
        raise error

    queue.before(seen.append)
    queue.after(lambda job, raised: seen.append(raised))
    queue.handler("t")(seen.append)
    job = handled(queue)
    assert (job.state, job.attempt) == (state, attempt)
    assert seen == [error]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_what_after_and_on_dead_raise_is_logged_and_changes_nothing(queue, seen, caplog, kind):
    queue.after(lambda job, error: seen.append(error))

    @queue.after
    def fail(job, error):
        raise kind("after all")

    @queue.on_dead
    def fail_again(job):
        raise kind("after its death")

    queue.on_dead(seen.append)
    error = GiveUp("no")

    @queue.handler("t")
    def give_up(job):
        raise error

    job = handled(queue)
    assert job.state is State.DEAD
    assert seen == [error, job]
    assert errors(caplog) == ["after all", "after its death"]


@pytest.mark.parametrize("is_async", [False, True])
def test_on_dead_gets_the_job_as_it_is_then(queue, seen, is_async):
    async def bury(job):
        await asyncio.sleep(0)
        seen.append(job)

    queue.on_dead(bury if is_async else seen.append)

    @queue.handler("t", retry=Fixed(0, attempts=2))
    def fail(job):
        raise ValueError(job.attempt)

    job = handled(queue)
    assert seen == [job]
    assert (job.state, job.last_error) == (State.DEAD, "ValueError: 2")


@pytest.mark.parametrize("around", ["before", "after", "on_dead"])
def test_what_cannot_stand_around_a_handler_is_refused(queue, around):
    async def coroutine(job): ...
    def generator(job):
        yield

    for function in (generator, None, lambda: None, *([] if around == "on_dead" else [coroutine])):
        with pytest.raises(TypeError, match=around):
            getattr(queue, around)(function)


class Outlet(ManagedHandler):
    """A handler that is an object, which is told where it is and when to let go."""

    def __init__(self, seen):
        self.seen = seen

    async def __call__(self, job):
        self.seen.append("handle")

    def attach(self, topic, notes, concurrency):
        self.seen.append(f"attach {topic}")

    async def aclose(self):
        self.seen.append("close")


@pytest.mark.parametrize("run", ["run_due", "worker"])
def test_they_stand_around_outlets_which_are_attached_as_ever(live_queue, seen, run):
    live_queue.before(lambda job: seen.append("before"))
    live_queue.after(lambda job, error: seen.append("after"))
    live_queue.handler("t")(Outlet(seen))
    id = live_queue.put("t")
    if run == "run_due":
        run_due(live_queue)
    else:
        with working(live_queue):
            finished(live_queue, id)
    assert seen == ["attach t", "before", "handle", "after", "close"]


@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_an_after_in_which_something_was_cancelled_repeats_no_job_that_is_done(live_queue, seen, kind):
    """As of a function that runs a loop of its own, or waits for a future."""

    async def on_loop(job):
        seen.append(job.attempt)

    @live_queue.after
    def after(job, error):
        raise asyncio.CancelledError

    live_queue.after(lambda job, error: seen.append("after"))
    live_queue.handler("t", retry=Fixed(0, attempts=3))(
        on_loop if kind != "function" else lambda job: seen.append(job.attempt)
    )
    id = live_queue.put("t")
    with working(live_queue):
        assert finished(live_queue, id).state is State.DONE
    assert seen == [1, "after"]
