"""AsyncTimers on the loops people use: when it wakes, how long its turns are, how it stops."""

import asyncio
import gc
import time
import weakref

from tests.timers.loops import sleep


class Wakes:
    """Counts how often the loop wakes a driver."""

    def __init__(self, driver):
        self.count, self._wake = 0, driver._wake
        driver._wake = self.wake

    def wake(self):
        self.count += 1
        self._wake()


def test_a_sooner_timer_added_while_the_loop_sleeps_wakes_it(pywheel, run):
    async def main():
        loop = asyncio.get_running_loop()
        async with pywheel.AsyncTimers() as timers:
            done = asyncio.Event()
            timers.call_later(40_000, print)
            await asyncio.sleep(0.001)
            loop.call_later(0.001, timers.call_later, 0.001, done.set)  # added when nothing else is to be done
            await done.wait()
            done.clear()
            timer = timers.call_later(50_000, done.set)
            loop.call_later(0.001, timer.reset, 0.001)
            await done.wait()

    run(main)


def test_a_timer_never_fires_early(pywheel, run):
    async def main():
        early, fired, total = [], asyncio.Semaphore(0), 600

        def check(due):
            if time.monotonic() < due:
                early.append(due)
            fired.release()

        async with pywheel.AsyncTimers(tick=0.0001) as timers:
            for number in range(total // 2):
                delay = (number % 50) * 0.00071
                timers.call_later(delay, check, time.monotonic() + delay)
                when = time.monotonic() + delay
                timers.call_at(when, check, when)
                if number % 50 == 0:
                    await asyncio.sleep(0.0003)
            for _ in range(total):
                await fired.acquire()
        assert early == []

    run(main)


def test_a_loop_that_wakes_it_early_is_asked_again(pywheel):
    class Hasty(asyncio.SelectorEventLoop):
        """Wakes at once when it is first asked, as uvloop may a millisecond early."""

        def call_at(self, when, callback, *args, context=None):
            asked.append(when)
            return super().call_at(when if asked[1:] else self.time(), callback, *args, context=context)

    async def main():
        async with pywheel.AsyncTimers() as timers:
            start = time.monotonic()
            fired = []
            timers.call_later(0.2, lambda: fired.append(time.monotonic() - start))
            while not fired:
                await asyncio.sleep(0)
            assert fired[0] >= 0.2

    asked = []
    with asyncio.Runner(loop_factory=Hasty) as runner:
        runner.run(main())
    assert len(asked) > 1


def test_the_loop_wakes_it_no_more_than_a_few_times_for_each_timer(pywheel, run):
    async def main():
        async with pywheel.AsyncTimers() as timers:
            wakes = Wakes(timers)
            for _ in range(30):
                await sleep(timers, 0.0033)
            assert wakes.count <= 30 * 3  # early once, and once on the wheel's way

    run(main)


def test_the_loop_has_one_timer_of_it_at_most_which_later_ones_do_not_touch(pywheel):
    class Loop(asyncio.SelectorEventLoop):
        def call_at(self, when, callback, *args, context=None):
            handle = super().call_at(when, callback, *args, context=context)
            handles.append(handle)
            return handle

    async def main():
        async with pywheel.AsyncTimers() as timers:
            for number in range(1000):
                timers.call_later(1000 + (number * 7919) % 1000, print)
                assert sum(not handle.cancelled() for handle in handles) == 1
            first = timers.call_later(100, print)
            before = len(handles)
            for _ in range(1000):
                timers.call_later(200, print).cancel()
                first.reset()
            assert len(handles) == before
        assert all(handle.cancelled() for handle in handles)

    handles = []
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_a_turn_of_slow_callbacks_ends_before_the_limit(pywheel, run):
    """Not on the twin, whose callbacks are all slow."""

    async def main():
        calls, steps = [], []
        async with pywheel.AsyncTimers() as timers:
            for number in range(40):
                timers.call_later(0, lambda number=number: (calls.append(number), time.sleep(0.001)))
            while len(calls) < 40:
                before = len(calls)
                await asyncio.sleep(0)
                steps.append(len(calls) - before)
        assert calls == list(range(40))
        assert max(steps) <= (8 if pywheel.implementation == "native" else 40)

    run(main)


def test_a_zero_delay_timer_that_rearms_itself_does_not_starve_the_loop(pywheel, run):
    async def main():
        calls, turns = 0, 0

        def again():
            nonlocal calls
            calls += 1
            timers.call_later(0, again)

        async with pywheel.AsyncTimers(tick=0.000001) as timers:
            again()
            while calls < 500:
                await asyncio.sleep(0)
                turns += 1
        assert turns >= 499  # one call in a turn, at most

    run(main)


def test_leaving_the_block_stops_it(pywheel, run):
    async def main():
        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_later(0, print)
        assert timers.stopped
        assert not timer.active()
        assert timers._alarm.handle() is None

    run(main)


def test_one_dropped_with_timers_pending_still_fires_them(pywheel, run):
    async def main():
        done = asyncio.Event()
        timers = pywheel.AsyncTimers()
        timers.call_later(0.005, done.set)
        gone = weakref.ref(timers)
        del timers
        gc.collect()
        await done.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None

    run(main)


def test_a_driver_may_be_made_and_filled_before_its_loop_runs(pywheel):
    loop = asyncio.new_event_loop()
    try:
        timers, calls = pywheel.AsyncTimers(loop), []
        timers.call_later(0, calls.append, 1)
        timers.call_later(0.001, loop.stop)
        loop.run_forever()
        assert calls == [1]
    finally:
        loop.close()
