"""Running due jobs in a test, without a worker."""

import asyncio
import subprocess
import sys
import threading

import pytest

from pywheel import JobQueue, Ladder, ManualClock, NotNow, Tally
from pywheel.jobs import State
from pywheel.testing import run_due


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def tally():
    return Tally()


@pytest.fixture
def queue(clock, tally):
    with JobQueue("memory:", clock=clock, listeners=[tally]) as queue:
        yield queue


def test_it_handles_what_is_due_now_by_due_time_in_this_thread(queue, clock):
    seen = []

    @queue.handler("a")
    def handle(job):
        seen.append((job.json(), threading.current_thread()))

    queue.handler("b")(handle)
    for topic, n in (("b", 3), ("a", 1), ("b", 2), ("a", 60)):
        queue.put(topic, n, delay=n)
    queue.put("nobody's", delay=0)
    assert run_due(queue) == 0
    clock.advance(5)
    assert run_due(queue) == 3
    assert seen == [(n, threading.current_thread()) for n in (1, 2, 3)]
    assert run_due(queue) == 0


def test_what_was_not_for_now_comes_later_with_all_its_attempts(queue, clock, tally):
    @queue.handler("t")
    def handle(job):
        if job.claims == 1:
            raise NotNow("5s")

    id = queue.put("t", max_attempts=1)
    assert run_due(queue) == 1
    assert (queue.get(id).state, tally.total("released")) == (State.DELAYED, 1)
    clock.advance(4)
    assert run_due(queue) == 0
    clock.advance(1)
    assert run_due(queue) == 1
    assert (queue.get(id).state, queue.get(id).attempt) == (State.DONE, 1)


def test_a_limit_holds(queue):
    queue.handler("t")(lambda job: None)
    queue.put_many([queue.job("t") for _ in range(5)])
    assert [run_due(queue, 0), run_due(queue, 2), run_due(queue, 9)] == [0, 2, 3]


def test_what_became_of_attempts_is_counted(queue, clock, tally):
    @queue.handler("t", retry=Ladder("5s", "1m"))
    def handle(job):
        raise ValueError

    queue.put("t")
    for seconds in (5, 60, 0):
        assert run_due(queue) == 1
        clock.advance(seconds)
    assert {name: count for (name, _), count in tally.counters.items()} == {"put": 1, "retried": 2, "dead": 1}
    assert tally.count("run_time") == 3


@pytest.fixture
def successive(queue):
    """A coroutine that puts its successor; its job."""

    @queue.handler("t")
    async def handle(job):
        await asyncio.sleep(0)
        await queue.aio.put("t", key="k", delay="1d")

    return queue.put("t", key="k")


def test_a_coroutine_may_put_its_successor(queue, successive):
    assert run_due(queue) == 1
    assert queue.get(successive).state is State.DONE
    assert queue.get(("t", "k")).state is State.DELAYED


def test_what_is_meant_for_the_test_itself_gets_through(queue):
    @queue.handler("t")
    def handle(job):
        pytest.fail("seen")

    id = queue.put("t")
    with pytest.raises(pytest.fail.Exception, match="seen"):
        run_due(queue)
    assert queue.get(id).state is State.DELAYED


def test_a_coroutine_is_told_to_use_a_thread(queue, successive):
    async def program():
        with pytest.raises(RuntimeError, match=r"runs it: await asyncio\.to_thread\(run_due, queue\); of a"):
            run_due(queue)
        return await asyncio.to_thread(run_due, queue)

    assert asyncio.run(program()) == 1


@pytest.mark.stress
def test_run_due_is_the_function_whatever_was_imported_before():
    program = "from pywheel.testing import Failure, QueueTester, run_due; assert callable(run_due)"
    subprocess.run([sys.executable, "-c", program], check=True)
