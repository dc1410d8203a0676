"""Tasks that wait for room in an AsyncDelayQueue, for all tasks to be done, or for nothing any more; and its loop."""

import asyncio
import sys
from collections import Counter
from importlib.util import find_spec

import pytest

from tests.timers.queues import done, runner, settle, start

NO_UVLOOP = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")


@pytest.fixture(params=["asyncio", pytest.param("uvloop", marks=NO_UVLOOP)])
def run(request):
    """Runs a coroutine function on a new loop."""
    return runner(request.param)


@pytest.fixture
def make(pywheel):
    """Makes queues that count how often a task looked for an item."""

    class Watched(pywheel.AsyncDelayQueue):
        looks = 0

        def _take(self):
            self.looks += 1
            return super()._take()

    def make(maxsize=0, clock=None):
        return Watched(maxsize, clock=clock)

    return make


@pytest.fixture
def q(make, clock):
    """One without a limit, on a clock that stands still."""
    return make(clock=clock)


# ---- room, join, shutdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["get", "remove"])
def test_each_item_that_goes_lets_one_waiting_put_in_and_in_order(run, make, clock, how):
    async def main():
        q = make(2, clock)
        handles = [await q.put(number) for number in range(2)]
        tasks = [asyncio.create_task(q.put(name)) for name in "abc"]
        await settle()
        for number in range(2):
            if how == "get":
                assert await q.get() == number
            else:
                assert q.remove(handles[number])
            await settle()
            assert len(done(tasks)) == number + 1
            assert q.full()
        assert [await q.get() for _ in range(3)] == ["a", "b", "c"]

    run(main)


def test_a_delay_counts_from_when_the_item_got_in(run, make, clock):
    async def main():
        q = make(1, clock)
        q.put_nowait("a")
        (task,) = await start(1, q.put, "b", 5)
        clock.advance(100)
        assert await q.get() == "a"
        handle = await task
        clock.advance(4)
        assert q.ready() == 0
        clock.advance(1)
        assert q.ready() == 1
        assert q.remove(handle)

    run(main)


def test_join_waits_for_every_task(run, q):
    async def main():
        await q.join()
        q.put_nowait("a")
        handle = q.put_nowait("b", 5)
        tasks = await start(2, q.join)
        await q.get()
        q.task_done()
        await settle()
        assert done(tasks) == []
        q.remove(handle)
        await asyncio.gather(*tasks)

    run(main)


def test_an_immediate_shutdown_ends_join(run, q):
    async def main():
        q.put_nowait("a", 5)
        tasks = await start(2, q.join)
        q.shutdown(immediate=True)
        await asyncio.gather(*tasks)

    run(main)


def test_shut_down_is_asyncios_where_it_has_one(pywheel):
    if sys.version_info >= (3, 13):
        assert pywheel.QueueShutDown is asyncio.QueueShutDown
    else:
        assert issubclass(pywheel.QueueShutDown, Exception)


@pytest.mark.parametrize("immediate", [False, True])
def test_shutting_down_wakes_all_who_wait(run, pywheel, make, clock, immediate):
    async def main():
        empty, full = make(clock=clock), make(1, clock)
        full.put_nowait("a")
        tasks = await start(3, empty.get) + await start(3, full.put, "b")
        empty.shutdown(immediate)
        full.shutdown(immediate)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {pywheel.QueueShutDown}

    run(main)


def test_what_is_delayed_comes_out_after_a_shutdown_when_it_is_due_and_then_all_hear_of_it(run, pywheel, q, clock):
    async def main():
        q.put_nowait("a", 5)
        q.put_nowait("b", 10)
        tasks = await start(4, q.get)
        q.shutdown()
        await settle()
        clock.advance(5)
        await settle()
        assert done(tasks) == ["a"]
        clock.advance(5)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert Counter(map(type, results)) == {str: 2, pywheel.QueueShutDown: 2}

    run(main)


def test_removing_the_last_item_after_a_shutdown_wakes_all(run, pywheel, make):
    async def main():
        q = make()
        handle = q.put_nowait("a", 3600)
        q.shutdown()
        tasks = await start(3, q.get)
        q.remove(handle)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {pywheel.QueueShutDown}
        assert q._alarm is None

    run(main)


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_without_a_clock_nothing_can_be_put_before_a_loop_runs(pywheel):
    q = pywheel.AsyncDelayQueue()
    with pytest.raises(RuntimeError, match="no running event loop"):
        q.put_nowait("a")
    assert q.empty()


def test_with_a_clock_items_can_be_put_before_a_loop_runs(run, q):
    q.put_nowait("a")
    assert run(q.get) == "a"


def test_a_queue_belongs_to_one_loop(run, q):
    run(q.put, "a")

    async def wait():
        await q.get()

    async def main():
        (task,) = await start(1, q.get)
        task.cancel()

    q.get_nowait()
    run(main)
    with pytest.raises(RuntimeError, match="another event loop"):
        run(wait)
