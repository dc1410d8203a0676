"""AsyncTimers on the loops people use: when it wakes, how long its turns are, how it stops."""

import asyncio
import gc
import time
import weakref
from unittest import mock

import pytest

from tests.timers.loops import sleep
from tests.timers.queues import settle


async def test_a_sooner_timer_added_while_the_loop_sleeps_wakes_it(pywheel, foreign):
    async with pywheel.AsyncTimers() as timers:
        done = asyncio.Event()
        timers.call_later(40_000, print)
        await asyncio.sleep(0.001)
        foreign.call_later(0.001, timers.call_later, 0.001, done.set)  # added when nothing else is to be done
        await done.wait()
        done.clear()
        timer = timers.call_later(50_000, done.set)
        foreign.call_later(0.001, timer.reset, 0.001)
        await done.wait()


async def test_a_timer_never_fires_early(pywheel, foreign):
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


class Watched(asyncio.SelectorEventLoop):
    def __init__(self):
        super().__init__()
        self.handles = []

    def call_at(self, when, callback, *args, context=None):
        self.handles.append(super().call_at(when, callback, *args, context=context))
        return self.handles[-1]


class Hasty(Watched):
    """Wakes at once when it is first asked, as uvloop may a millisecond early."""

    def call_at(self, when, callback, *args, context=None):
        return super().call_at(when if self.handles else self.time(), callback, *args, context=context)


@pytest.mark.parametrize("foreign", [Hasty], indirect=True)
async def test_a_loop_that_wakes_it_early_is_asked_again(pywheel, foreign):
    async with pywheel.AsyncTimers() as timers:
        start, fired = time.monotonic(), []
        timers.call_later(0.05, lambda: fired.append(time.monotonic() - start))
        while not fired:
            await asyncio.sleep(0)
        assert fired[0] >= 0.05
    assert len(foreign.handles) > 1


async def test_the_loop_wakes_it_no_more_than_a_few_times_for_each_timer(pywheel, foreign):
    async with pywheel.AsyncTimers() as timers:
        timers._alarm._ring = ring = mock.Mock(wraps=timers._alarm._ring)
        for _ in range(30):
            await sleep(timers, 0.0033)
        assert 30 <= ring.call_count <= 30 * 3  # early once, and once on the wheel's way


@pytest.mark.parametrize("foreign", [Watched], indirect=True)
async def test_the_loop_has_one_timer_of_it_at_most_which_later_ones_do_not_touch(pywheel, foreign):
    handles = foreign.handles
    async with pywheel.AsyncTimers() as timers:
        for number in range(100):
            timers.call_later(1000 + (number * 7919) % 1000, print)
            assert sum(not handle.cancelled() for handle in handles) == 1
        first = timers.call_later(100, print)
        before = len(handles)
        for _ in range(100):
            timers.call_later(200, print).cancel()
            first.reset()
        assert len(handles) == before
    assert all(handle.cancelled() for handle in handles)


async def test_a_turn_of_slow_callbacks_ends_before_the_limit(pywheel, foreign):
    """Not on the twin, whose callbacks are all slow."""
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


@pytest.mark.parametrize("limit", [2**63, 2**64])
async def test_a_limit_beyond_every_count_is_none(pywheel, clock, foreign, limit):
    calls = []
    async with pywheel.AsyncTimers(clock=clock, limit=limit) as timers:
        timers.call_later(1, calls.append, 1)
        clock.advance(1)
        await settle()
    assert calls == [1]


async def test_a_zero_delay_timer_that_rearms_itself_does_not_starve_the_loop(pywheel, foreign):
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


async def test_leaving_the_block_stops_it(pywheel, foreign):
    async with pywheel.AsyncTimers() as timers:
        timer = timers.call_later(0, print)
    assert timers.stopped
    assert not timer.active()
    assert timers._alarm.handle() is None


async def test_one_dropped_with_timers_pending_still_fires_them(pywheel, foreign):
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


def test_a_driver_may_be_made_and_filled_before_its_loop_runs(pywheel, foreign):
    timers, calls = pywheel.AsyncTimers(foreign), []
    timers.call_later(0, calls.append, 1)
    timers.call_later(0.001, foreign.stop)
    foreign.run_forever()
    assert calls == [1]
