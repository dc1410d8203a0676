"""Tasks that wait for an AsyncDelayQueue: who wakes, when, and with what."""

import asyncio
import threading
import time
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


# ---- when a waiting task gets what -----------------------------------------------------------------------------------


def test_get_waits_until_the_item_is_due(run, q, clock):
    async def main():
        q.put_nowait("a", 10)
        (task,) = await start(1, q.get)
        for _ in range(4):
            clock.advance(2.49)
            await settle()
        assert not task.done()
        clock.advance(0.04)
        assert await task == "a"

    run(main)


def test_get_goes_by_the_loops_clock_and_is_never_early(run, make):
    async def main():
        q = make()
        begin = time.monotonic_ns()
        for delay in (0.013, 0.0011, 0.006, 0.00005, 0):
            await q.put(delay, delay)
        due = [(await q.get(), time.monotonic_ns() - begin) for _ in range(5)]
        assert [delay for delay, _ in due] == [0, 0.00005, 0.0011, 0.006, 0.013]
        assert all(after >= delay * 1e9 for delay, after in due)

    run(main)


@pytest.mark.stress
def test_an_item_put_after_a_slow_callback_is_not_early(run, make):
    """A loop whose clock stands still for a turn would take its time from before the callback."""

    async def main():
        q = make()
        await asyncio.sleep(0)
        time.sleep(0.02)  # the slow callback
        begin = time.monotonic_ns()
        q.put_nowait("a", 0.01)
        await q.get()
        assert time.monotonic_ns() - begin >= 10_000_000

    run(main)


def test_a_loop_that_wakes_too_early_is_asked_again_and_nobody_spins(make):
    class Hasty(asyncio.SelectorEventLoop):
        asked = 0

        def call_later(self, delay, callback, *args, context=None):
            self.asked += 1
            return super().call_later(delay - 0.0017 if delay > 0.005 else delay, callback, *args, context=context)

    async def main():
        q = make()
        for _ in range(5):
            begin = time.monotonic_ns()
            q.put_nowait("a", 0.0109)
            assert await q.get() == "a"
            assert time.monotonic_ns() - begin >= 10_900_000
        assert asyncio.get_running_loop().asked < 5 * 10
        assert q.looks < 5 * 10

    with asyncio.Runner(loop_factory=Hasty) as runner:
        runner.run(main())


def test_a_loop_with_a_time_of_its_own_is_followed(pywheel):
    class Manual(asyncio.SelectorEventLoop):
        now = 5.0

        def time(self):
            return self.now

    async def main():
        loop = asyncio.get_running_loop()
        q = pywheel.AsyncDelayQueue()
        q.put_nowait("a", 7200)
        (task,) = await start(1, q.get)
        loop.now += 7199.9
        await settle()
        assert not task.done()
        loop.now += 0.1
        await settle()
        assert task.result() == "a"

    with asyncio.Runner(loop_factory=Manual) as runner:
        runner.run(main())


def test_an_item_put_for_sooner_wakes_who_waits_for_a_later_one(run, make):
    async def main():
        q = make()
        q.put_nowait("later", 3600)
        (task,) = await start(1, q.get)
        q.put_nowait("sooner", 0.001)
        assert await task == "sooner"

    run(main)


def test_an_item_rescheduled_for_sooner_wakes_who_waits_for_it(run, make):
    async def main():
        q = make()
        handle = q.put_nowait("a", 3600)
        (task,) = await start(1, q.get)
        assert q.reschedule(handle, 0.001)
        assert await task == "a"

    run(main)


def test_an_item_rescheduled_for_later_comes_later(run, make):
    async def main():
        q = make()
        handle = q.put_nowait("a", 3600)
        (task,) = await start(1, q.get)
        begin = time.monotonic_ns()
        assert q.reschedule(handle, 0.002)
        assert q.reschedule(handle, 0.01)
        assert await task == "a"
        assert time.monotonic_ns() - begin >= 10_000_000

    run(main)


def test_a_far_deadline_does_not_overflow_the_loops_timer(run, make):
    async def main():
        q = make()
        q.put_nowait("in 140 years", 140 * 365 * 86_400)
        (task,) = await start(1, q.get)
        wait = q._alarm.when() - asyncio.get_running_loop().time()
        assert round(wait, 3) <= 86_400  # uvloop counts milliseconds, and a difference of floats is not exact
        q.put_nowait("now")
        assert await task == "now"

    run(main)


@pytest.mark.stress
def test_a_clock_moved_by_another_thread_wakes_who_waits(run, q, clock):
    async def main():
        q.put_nowait("a", 10)
        (task,) = await start(1, q.get)

        def advance():
            time.sleep(0.02)  # so that the loop sleeps
            clock.advance(10)

        thread = threading.Thread(target=advance)
        thread.start()
        assert await task == "a"
        thread.join()

    run(main)


def test_a_clock_may_move_after_the_loop_was_closed(run, q, clock):
    async def main():
        q.put_nowait("a", 10)
        (task,) = await start(1, q.get)
        task.cancel()

    run(main)
    clock.advance(20)
    assert q.get_nowait() == "a"


# ---- how many wake ---------------------------------------------------------------------------------------------------


def test_an_item_wakes_one_task_and_the_one_that_waits_longest(run, q):
    async def main():
        tasks = await start(5, q.get)
        looks = q.looks
        for number in range(5):
            q.put_nowait(number)
            await settle()
            assert done(tasks) == list(range(number + 1))
        assert q.looks == looks + 5

    run(main)


def test_items_put_at_once_wake_a_task_each_in_order(run, q, clock):
    async def main():
        tasks = await start(5, q.get)
        looks = q.looks
        for number in range(3):
            q.put_nowait(number, 5)
        clock.advance(5)
        await settle()
        assert done(tasks) == [0, 1, 2]
        assert q.looks == looks + 3
        q.put_nowait(3)
        q.put_nowait(4)
        await settle()
        assert done(tasks) == [0, 1, 2, 3, 4]

    run(main)


def test_an_item_for_later_wakes_nobody(run, q):
    async def main():
        tasks = await start(3, q.get)
        looks = q.looks
        q.put_nowait("a", 1000)
        handle = q.put_nowait("b", 500)
        await settle()
        q.remove(handle)
        await settle()
        assert q.looks == looks
        q.shutdown(immediate=True)
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_the_loop_has_one_timer_for_a_queue_and_none_when_nobody_waits(run, make):
    async def main():
        q = make()
        for number in range(100):
            q.put_nowait(number, 1000 + number)
        assert q._alarm is None
        tasks = await start(3, q.get)
        alarm = q._alarm
        q.put_nowait("later", 5000)
        assert q._alarm is alarm
        assert not alarm.cancelled()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert alarm.cancelled()
        assert q._alarm is None
        assert not q._getters

    run(main)
