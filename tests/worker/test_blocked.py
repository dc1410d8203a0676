"""A worker that has room but cannot start anything: its loop is blocked, or the system gives it no thread.

The jobs that it claimed meanwhile are unspent, and go to a worker that can start them.
"""

import asyncio
import contextlib
import threading

import pytest

from pywheel import AsyncWorker, Fixed, JobQueue
from pywheel.jobs import Outcome, State
from pywheel.stores import open
from pywheel.worker.executors.coroutines import AdoptedLoop
from tests.jobs.waiting import finished, until, working

NUMBER = 20
BLOCKED = "blocked"  # the name of that worker


@pytest.fixture
def store(url):
    with open(url) as store:
        yield store


async def swift(job):
    await asyncio.sleep(0)


def plain(job):
    pass


@contextlib.contextmanager
def on_a_loop(queue, **options):
    """Let the worker of a program with a loop work."""
    worker = AsyncWorker(queue.aio, **options)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()


@contextlib.contextmanager
def loop_blocked(store, policy, work=working):
    """Let a worker work whose loop is blocked by a handler, and that handles "t" as well; give what frees it."""
    gate, blocking = threading.Event(), threading.Event()

    async def block(job):
        blocking.set()
        gate.wait(60)

    queue = JobQueue(store)
    queue.handler("block", ttr=60)(block)
    queue.handler("t", retry=Fixed(0), **policy)(swift)
    with work(queue, name=BLOCKED):
        queue.put("block")
        assert blocking.wait(60)
        try:
            yield gate.set
        finally:
            gate.set()


def programs_loop_blocked(store, policy):
    return loop_blocked(store, policy, on_a_loop)


@contextlib.contextmanager
def threads_refused(store, policy):
    """The same with a worker that gets no thread."""
    queue = JobQueue(store)
    queue.handler("t", retry=Fixed(0), **policy)(plain)
    with working(queue, name=BLOCKED) as worker:
        most, worker._threads._most = worker._threads._most, 0

        def free():
            worker._threads._most = most

        try:
            yield free
        finally:
            free()


def outcomes(queue, ids):
    """Return how claims of the blocked worker ended."""
    attempts = [attempt for id in ids for attempt in queue.jobs.history(id)]
    return {attempt.outcome for attempt in attempts if attempt.worker.partition("@")[0] == BLOCKED}


BLOCKED_WITH = pytest.mark.parametrize(
    ("blocked", "policy"),
    [
        (loop_blocked, {"ttr": 0.2}),
        (loop_blocked, {"ttr": 0.2, "keep_lease": True}),
        (loop_blocked, {"ttr": 60}),
        (programs_loop_blocked, {"ttr": 60}),
        (threads_refused, {"ttr": 0.2}),
        (threads_refused, {"ttr": 60}),
    ],
)


@BLOCKED_WITH
def test_who_can_start_jobs_gets_them_from_who_cannot(store, blocked, policy):
    queue, other = JobQueue(store), JobQueue(store)
    other.handler("t", retry=Fixed(0), **policy)(plain)
    with blocked(store, policy), working(other):
        ids = queue.put_many(queue.job("t") for _ in range(NUMBER))
        for id in ids:
            assert finished(queue, id).state is State.DONE, "while the first one is still blocked"
        short = {Outcome.LOST} if policy["ttr"] < 1 else set()  # a busy machine may cost it such a lease
        assert outcomes(queue, ids) <= {Outcome.RELEASED, *short}


@BLOCKED_WITH
def test_jobs_that_could_not_start_spend_no_attempt(store, blocked, policy):
    queue = JobQueue(store)
    with blocked(store, policy) as free:
        ids = queue.put_many(queue.job("t") for _ in range(NUMBER))
        until(lambda: Outcome.RELEASED in outcomes(queue, ids))
        free()
        for id in ids:
            assert finished(queue, id).state is State.DONE
            *before, last = queue.jobs.history(id)
            lost = sum(one.outcome is Outcome.LOST for one in before)  # a busy machine may cost it a lease
            assert last.attempt <= 1 + lost


def test_a_loop_that_did_not_start_a_job_counts_as_blocked_until_it_runs_again():
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        runner = AdoptedLoop(loop, None)
        runner.block()
        assert runner.blocked
        loop.run_until_complete(asyncio.sleep(0))
        assert not runner.blocked
        runner.block()
        assert runner.blocked, "once more"


def first_five(tries):
    return len(tries) < 5


def test_a_worker_without_threads_says_so_once(store, refuse_threads, caplog):
    tries = refuse_threads("pywheel-handlers", first_five)
    queue = JobQueue(store)
    queue.handler("t", ttr=1)(plain)
    with working(queue):
        assert finished(queue, queue.put("t")).state is State.DONE
    assert len(tries) == 5
    assert sum("no thread" in record.getMessage() for record in caplog.records) == 1


def test_a_loop_that_gets_no_thread_begins_when_it_gets_one(store, refuse_threads):
    tries = refuse_threads("pywheel-loop", first_five)
    queue = JobQueue(store)
    queue.handler("t", ttr=1, retry=Fixed(0, attempts=1))(swift)
    with working(queue):
        assert finished(queue, queue.put("t")).state is State.DONE
    assert len(tries) == 5


def test_a_worker_whose_jobs_began_just_as_it_found_them_stuck_goes_on(store):
    """Nothing ends any more that would say that it can start jobs."""
    queue = JobQueue(store)
    queue.handler("t")(plain)
    with working(queue) as worker:
        finished(queue, queue.put("t"))
        leases, topic = worker.dispatcher._leases, worker.dispatcher.topics["t"]
        found, stuck = threading.Event(), leases.stuck

        def too_late(now):
            leases.stuck = stuck
            found.set()
            return {topic: True}

        leases.stuck = too_late
        assert found.wait(60)
        assert finished(queue, queue.put("t")).state is State.DONE
