"""Handlers at work, on the real clock."""

import asyncio
import threading

import pytest

from pywheel import BadOption, EventLoop, Fixed, Ladder, NotNow, Supervisor, Worker
from pywheel.jobs import Counts, Outcome, State
from tests.jobs.waiting import finished, state, until, working
from tests.worker.held import Held


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
    held = Held(live_queue, "t", concurrency=2)
    live_queue.put_many(live_queue.job("t") for _ in range(20))
    with working(live_queue):
        until(lambda: live_queue.topics.counts()["t"].running == 2)
        assert live_queue.topics.counts()["t"] == Counts(delayed=18, running=2)
        held.let_go()
        until(lambda: live_queue.topics.counts()["t"].done == 20)


# ---- not now ---------------------------------------------------------------------------------------------------------

REFUSED = 3


def refuse(job, seen):
    """Refuse each job three times."""
    seen[job.id] = seen.get(job.id, 0) + 1
    if seen[job.id] <= REFUSED:
        raise NotNow(0.05, "no room")


def plain(seen):
    return lambda job: refuse(job, seen)


def coroutine(seen):
    async def handle(job):
        refuse(job, seen)

    return handle


@pytest.mark.parametrize("kind", [plain, coroutine])
def test_a_job_that_is_not_for_now_comes_again_with_all_its_attempts(live_queue, metrics, kind):
    seen = {}
    live_queue.handler("t")(kind(seen))
    id = live_queue.put("t", max_attempts=1)
    with working(live_queue):
        job = finished(live_queue, id)
    assert (job.state, job.attempt, seen[id]) == (State.DONE, 1, REFUSED + 1)
    outcomes = [attempt.outcome for attempt in live_queue.jobs.history(id)]
    assert outcomes == [Outcome.RELEASED] * REFUSED + [Outcome.DONE]
    assert metrics.total("released") == REFUSED


# ---- stopping -------------------------------------------------------------------------------------------------------


def told_to_stop(queue, begun, grace):
    """Return the ids of five jobs, and their worker, which is told to stop when the first one has begun."""
    ids = queue.put_many(queue.job("t") for _ in range(5))
    worker = Worker(queue, grace=grace)
    worker.start()
    until(lambda: begun)
    worker.stop()
    return ids, worker


def test_a_drain_lets_handlers_finish_and_gives_back_what_was_not_started(live_queue):
    held = Held(live_queue, "t", concurrency=1)
    ids, worker = told_to_stop(live_queue, held.begun, grace=60)
    held.let_go()
    assert worker.join(60)
    jobs = [live_queue.get(id) for id in ids]
    assert sorted((job.state, job.attempt) for job in jobs) == [(State.DELAYED, 0)] * 4 + [(State.DONE, 1)]


def test_a_thread_that_runs_beyond_the_grace_keeps_its_job_and_settles_it_itself(live_queue):
    """Given back, it would run twice at once with a valid lease: nobody can stop a thread."""
    held = Held(live_queue, "t", concurrency=1)
    [id, *_], worker = told_to_stop(live_queue, held.begun, grace=0)
    assert worker.join(60)
    assert state(live_queue, id) is State.RUNNING
    held.let_go()
    assert finished(live_queue, id).state is State.DONE


def test_a_task_that_runs_beyond_the_grace_is_cancelled_and_its_job_goes_back_unspent(live_queue):
    begun = []

    @live_queue.handler("t", concurrency=1)
    async def handle(job):
        begun.append(job)
        await asyncio.sleep(3600)

    [id, *_], worker = told_to_stop(live_queue, begun, grace=0)
    assert worker.join(60)
    job = live_queue.get(id)
    assert (job.state, job.attempt) == (State.DELAYED, 0)
    assert [attempt.outcome for attempt in live_queue.jobs.history(id)] == [Outcome.RELEASED]


def test_a_worker_works_once(live_queue):
    """A second thread of one worker would claim and settle beside the first, and `join` wait for the last."""
    live_queue.handler("t")(print)
    with working(live_queue) as worker:
        for begin in (worker.start, worker.run):
            with pytest.raises(RuntimeError, match="a Worker works once: make another one"):
                begin()
    with pytest.raises(RuntimeError, match="a Worker works once"):
        worker.start()


@pytest.mark.parametrize(
    "options",
    [{"processes": 0}, {"processes": True}, {"processes": "2"}, {"stall": -1}, {"grace": "x"}, {"name": b"x"}],
)
def test_options_of_a_supervisor_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        Supervisor("shop:queue", **options)
