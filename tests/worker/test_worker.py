"""Handlers at work, on the real clock."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from pywheel import BadOption, EventLoop, Fixed, Ladder, Worker
from pywheel.jobs import Counts, Outcome, State
from tests.jobs.waiting import finished, state, until, working

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_function_handles_what_is_put(live_queue):
    seen = []
    live_queue.handler("t")(seen.append)
    with working(live_queue):
        id = live_queue.put("t", {"n": 1}, delay=0.05, key="k", traceparent=TRACE)
        assert finished(live_queue, id).state is State.DONE
    [job] = seen
    assert (job.id, job.json(), job.key, job.traceparent, job.attempt) == (id, {"n": 1}, "k", TRACE, 1)


def test_a_coroutine_function_handles_what_is_put_many_at_once(live_queue):
    together, arrived = asyncio.Barrier(10), []

    @live_queue.handler("t", concurrency=10)
    async def handle(job):
        arrived.append(job.id)
        await together.wait()

    ids = live_queue.put_many(live_queue.job("t") for _ in range(10))
    with working(live_queue):
        assert {finished(live_queue, id).state for id in ids} == {State.DONE}
    assert sorted(arrived) == ids


def test_coroutines_run_on_the_loop_that_the_worker_was_told_to_make(live_queue):
    made, seen = [], []

    def factory():
        made.append(EventLoop())
        return made[-1]

    @live_queue.handler("t")
    async def handle(job):
        seen.append(asyncio.get_running_loop())

    with working(live_queue, loop_factory=factory):
        assert finished(live_queue, live_queue.put("t")).state is State.DONE
    assert seen == made
    until(made[0].is_closed)


def test_functions_run_as_many_at_once_as_asked_and_no_more(live_queue):
    gate = threading.Event()
    running, most = [], []
    live_queue.handler("u")(lambda job: None)

    @live_queue.handler("t", concurrency=3)
    def handle(job):
        running.append(job.id)
        most.append(len(running))
        if job.json() == "slow":
            gate.wait(60)
        running.remove(job.id)

    with working(live_queue):
        for id in live_queue.put_many(live_queue.job("t") for _ in range(100)):  # quick: so others wait in the pool
            finished(live_queue, id)
        ids = live_queue.put_many(live_queue.job("t", "slow") for _ in range(9))
        until(lambda: len(running) >= 3)
        finished(live_queue, live_queue.put("u"))  # by then one more would run, too
        gate.set()
        for id in ids:
            finished(live_queue, id)
    assert max(most) == 3


def test_a_failing_job_climbs_its_ladder_and_dies_with_its_last_error(live_queue, metrics):
    @live_queue.handler("t", retry=Ladder("1ms", "2ms"))
    def handle(job):
        raise ValueError(f"attempt {job.attempt}")

    with working(live_queue):
        job = finished(live_queue, live_queue.put("t"))
    assert (job.state, job.last_error) == (State.DEAD, "ValueError: attempt 3")
    history = live_queue.jobs.history(job)
    assert [attempt.error for attempt in history] == [f"ValueError: attempt {n}" for n in (1, 2, 3)]
    assert metrics.counters["retried", "t"] == 2
    assert metrics.counters["dead", "t"] == 1


@pytest.mark.parametrize("kind", ["plain", "coroutine", "task"])
def test_a_retry_function_decides_by_the_job_and_the_error(live_queue, kind):
    seen = []

    def retry(job, error):
        seen.append((job.attempt, type(error)))
        return None if isinstance(error, KeyError) else "1ms"

    def fail(job):
        raise ValueError if job.attempt < 3 else KeyError

    async def afail(job):
        fail(job)

    register = live_queue.task if kind == "task" else live_queue.handler
    register("t", retry=retry)(afail if kind == "coroutine" else fail)
    with working(live_queue):
        job = finished(live_queue, live_queue.put("t", {}))
    assert (job.state, job.attempt, job.last_error) == (State.DEAD, 3, "KeyError")
    assert seen == [(1, ValueError), (2, ValueError), (3, KeyError)]


@pytest.mark.parametrize(
    ("where", "loop_factory"),
    [
        ("handler", EventLoop),
        ("handler", asyncio.new_event_loop),
        ("within before", asyncio.new_event_loop),
        ("on_dead", asyncio.new_event_loop),
        ("task of its own", asyncio.new_event_loop),
    ],
)
def test_an_exit_on_the_loop_leaves_it_to_the_others(live_queue, where, loop_factory):
    """asyncio lets an exit of a task end the loop, on which all other coroutine handlers are."""

    async def leave(job):
        raise SystemExit(3)

    @live_queue.handler("t", retry=Fixed(0, attempts=1))
    def handle(job):
        if where == "on_dead":
            raise ValueError
        return leave(job)

    @live_queue.handler("coroutine")
    async def coroutine(job):
        if where == "task of its own":
            await asyncio.gather(asyncio.create_task(leave(job)), return_exceptions=True)

    if where == "on_dead":
        live_queue.on_dead(leave)
    if where == "within before":
        live_queue.before(lambda job: None)
    with working(live_queue, loop_factory=loop_factory):
        assert finished(live_queue, live_queue.put("t")).state is State.DEAD
        for _ in range(2):
            assert finished(live_queue, live_queue.put("coroutine")).state is State.DONE


def test_a_full_pool_leaves_jobs_in_the_store(live_queue):
    gate = threading.Event()
    live_queue.handler("t", concurrency=2)(lambda job: gate.wait(60))
    live_queue.put_many(live_queue.job("t") for _ in range(20))
    with working(live_queue):
        until(lambda: live_queue.topics.counts()["t"].running == 2)
        assert live_queue.topics.counts()["t"] == Counts(delayed=18, running=2)
        gate.set()
        until(lambda: live_queue.topics.counts()["t"].done == 20)


# ---- stopping -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gate():
    """Two events: the handler has begun, and it may end."""
    return SimpleNamespace(begun=threading.Event(), open=threading.Event())


@pytest.fixture
def handle(gate):
    def handle(job):
        gate.begun.set()
        gate.open.wait(60)

    return handle


def told_to_stop(queue, handle, gate, grace):
    """Return the ids of five jobs, and their worker, which is told to stop when the first one has begun."""
    queue.handler("t", concurrency=1)(handle)
    ids = queue.put_many(queue.job("t") for _ in range(5))
    worker = Worker(queue, grace=grace)
    worker.start()
    assert gate.begun.wait(60)
    worker.stop()
    return ids, worker


def test_a_drain_lets_handlers_finish_and_gives_back_what_was_not_started(live_queue, handle, gate):
    ids, worker = told_to_stop(live_queue, handle, gate, grace=60)
    gate.open.set()
    assert worker.join(60)
    jobs = [live_queue.get(id) for id in ids]
    assert sorted((job.state, job.attempt) for job in jobs) == [(State.DELAYED, 0)] * 4 + [(State.DONE, 1)]


def test_a_thread_that_runs_beyond_the_grace_keeps_its_job_and_settles_it_itself(live_queue, handle, gate):
    """Given back, it would run twice at once with a valid lease: nobody can stop a thread."""
    [id, *_], worker = told_to_stop(live_queue, handle, gate, grace=0)
    assert worker.join(60)
    assert state(live_queue, id) is State.RUNNING
    gate.open.set()
    assert finished(live_queue, id).state is State.DONE


def test_a_task_that_runs_beyond_the_grace_is_cancelled_and_its_job_goes_back_unspent(live_queue, gate):
    async def handle(job):
        gate.begun.set()
        await asyncio.sleep(3600)

    [id, *_], worker = told_to_stop(live_queue, handle, gate, grace=0)
    assert worker.join(60)
    job = live_queue.get(id)
    assert (job.state, job.attempt) == (State.DELAYED, 0)
    assert [attempt.outcome for attempt in live_queue.jobs.history(id)] == [Outcome.RELEASED]


# ---- what makes no sense --------------------------------------------------------------------------------------------


def test_a_topic_has_one_handler_and_a_worker_needs_one(live_queue):
    with pytest.raises(BadOption, match="no handlers"):
        Worker(live_queue)
    live_queue.handler("t")(print)
    with pytest.raises(BadOption, match="already"):
        live_queue.handler("t")(print)


def test_a_worker_works_once(live_queue):
    """A second thread of one worker would claim and settle beside the first, and `join` wait for the last."""
    live_queue.handler("t")(print)
    with working(live_queue) as worker:
        for begin in (worker.start, worker.run):
            with pytest.raises(RuntimeError, match="a Worker works once: make another one"):
                begin()
    with pytest.raises(RuntimeError, match="a Worker works once"):
        worker.start()
