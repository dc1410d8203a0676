"""Tasks that wait for an AsyncDelayQueue: which one wakes, when, and with what, and the effect of cancelling one."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress

import pytest

from tests.timers.queues import done, settle, start, watched_by_tasks


@pytest.fixture
def make(pywheel):
    """Makes queues that count how often a task looked for an item."""
    return lambda maxsize=0, clock=None: watched_by_tasks(pywheel)(maxsize, clock=clock)


@pytest.fixture
def q(make, clock):
    """One without a limit, on a clock that stands still."""
    return make(clock=clock)


class Hasty(asyncio.SelectorEventLoop):
    asked = 0

    def call_later(self, delay, callback, *args, context=None):
        self.asked += 1
        return super().call_later(delay - 0.0017 if delay > 0.005 else delay, callback, *args, context=context)


@pytest.mark.parametrize("foreign", [Hasty], indirect=True)
async def test_a_loop_that_wakes_too_early_is_asked_again_and_nobody_spins(foreign, make):
    q = make()
    for _ in range(5):
        begin = time.monotonic_ns()
        q.put_nowait("a", 0.0109)
        assert await q.get() == "a"
        assert time.monotonic_ns() - begin >= 10_900_000
    assert foreign.asked < 5 * 10
    assert q.looks < 5 * 10


class Manual(asyncio.SelectorEventLoop):
    now = 5.0

    def time(self):
        return self.now


@pytest.mark.parametrize("foreign", [Manual], indirect=True)
async def test_a_loop_with_a_time_of_its_own_is_followed(pywheel, foreign):
    q = pywheel.AsyncDelayQueue()
    q.put_nowait("a", 7200)
    (task,) = await start(1, q.get)
    foreign.now += 7199.9
    await settle()
    assert not task.done()
    foreign.now += 0.1
    await settle()
    assert task.result() == "a"


@pytest.mark.parametrize("foreign", [Manual], indirect=True)
def test_what_is_put_or_moved_while_the_loop_stands_still_wakes_the_task_that_waits(pywheel, foreign):
    q = pywheel.AsyncDelayQueue()
    (task,) = foreign.run_until_complete(start(1, q.get))
    handle = q.put_nowait("a", 7200)
    assert q.reschedule(handle, 3600)
    foreign.now += 3600
    assert foreign.run_until_complete(task) == "a"


async def test_a_far_deadline_does_not_overflow_the_loops_timer(foreign, make):
    q = make()
    q.put_nowait("in 140 years", 140 * 365 * 86_400)
    (task,) = await start(1, q.get)
    wait = q._alarm.handle().when() - foreign.time()
    assert round(wait, 3) <= 86_400  # uvloop counts milliseconds, and a difference of floats is not exact
    q.put_nowait("now")
    assert await task == "now"


def test_a_clock_may_move_after_the_loop_was_closed(q, clock):
    q.put_nowait("a", 10)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(q.get(), 0))
    clock.advance(20)
    assert q.get_nowait() == "a"


async def test_the_loop_has_one_timer_for_a_queue_and_none_when_nobody_waits(foreign, make):
    q = make()
    for number in range(100):
        q.put_nowait(number, 1000 + number)
    assert q._alarm.handle() is None
    tasks = await start(3, q.get)
    alarm = q._alarm.handle()
    q.put_nowait("later", 5000)
    assert q._alarm.handle() is alarm
    assert not alarm.cancelled()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert alarm.cancelled()
    assert q._alarm.handle() is None
    assert not q._getters


def test_without_a_clock_nothing_can_be_put_before_a_loop_runs(pywheel):
    q = pywheel.AsyncDelayQueue()
    with pytest.raises(RuntimeError, match="no running event loop"):
        q.put_nowait("a")
    assert q.empty()


def test_a_queue_belongs_to_one_loop(q):
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(q.get(), 0.001))
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(q.get())


async def test_cancelling_a_get_that_was_not_woken_wakes_nobody(foreign, q):
    first, second, third = await start(3, q.get)
    looks = q.looks
    second.cancel()
    q.put_nowait("a")
    await settle()
    assert done([first]) == ["a"]
    assert second.cancelled()
    assert q.looks == looks + 1
    q.put_nowait("b")
    assert await third == "b"


async def test_a_get_that_times_out_leaves_the_line(foreign, q):
    (first,) = await start(1, q.get)
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await q.get()
    assert len(q._getters) == 1
    q.put_nowait("a")
    assert await first == "a"


async def test_who_was_woken_for_an_item_that_somebody_else_took_is_still_the_first(foreign, q):
    tasks = await start(3, q.get)
    q.put_nowait("a")
    assert q.get_nowait() == "a"
    await settle()
    assert done(tasks) == []
    for number in range(3):
        q.put_nowait(number)
    await settle()
    assert done(tasks) == [0, 1, 2]


async def test_who_is_woken_on_the_way_to_a_far_deadline_is_still_the_first(foreign, q, clock):
    tasks = await start(3, q.get)
    q.put_nowait("a", 1000)
    looks = q.looks
    clock.advance(999)
    await settle()
    assert q.looks == looks + 1  # in vain
    clock.advance(1)
    await settle()
    assert done(tasks) == ["a"]
    assert tasks[0].done()
    q.shutdown()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_cancelling_a_put_leaves_its_room_to_the_next(foreign, make, clock):
    q = make(1, clock)
    q.put_nowait("a")
    first, second, third = await start(3, q.put, "more")
    q.get_nowait()  # which wakes the first,
    first.cancel()  # too late
    third.cancel()
    await settle()
    assert (first.cancelled(), second.done(), third.cancelled()) == (True, True, True)
    assert q.qsize() == 1
    assert not q._putters


class Market:
    """Tasks that put, get, remove, reschedule, and now and then give up, and a list of what came of it."""

    def __init__(self, q):
        self.q = q
        self.rng = random.Random(5)
        self.put, self.got, self.removed = [], [], []

    def patience(self, *seconds):
        return asyncio.timeout(self.rng.choice(seconds))

    async def produce(self, number):
        for count in range(150):
            name, delay = (number, count), self.rng.choice([0, 0, 0.0001, 0.001, 0.003])
            with suppress(TimeoutError):
                async with self.patience(None, None, 0.0005):
                    handle = await self.q.put((name, time.monotonic_ns() + delay * 1e9), delay)
                self.put.append(name)
                self.meddle(handle, name)
            if self.rng.random() < 0.1:
                await asyncio.sleep(0.001)

    def meddle(self, handle, name):
        if self.rng.random() < 0.1 and self.q.remove(handle):
            self.removed.append(name)
        elif self.rng.random() < 0.2:
            self.q.reschedule(handle, 0.004)  # later than it was

    async def consume(self):
        while True:
            with suppress(TimeoutError):
                async with self.patience(None, 0, 0.0001, 0.001):
                    try:
                        name, due = await self.q.get()
                    except self.q._ShutDown:
                        return
                assert time.monotonic_ns() >= due
                self.got.append(name)
                self.q.task_done()


@pytest.mark.parametrize("maxsize", [0, 3])
async def test_each_item_comes_out_once_and_not_early_whoever_is_cancelled(foreign, make, maxsize):
    q = make(maxsize)
    market = Market(q)
    consumers = [asyncio.create_task(market.consume()) for _ in range(4)]
    await asyncio.gather(*map(market.produce, range(3)))
    await q.join()
    q.shutdown()
    await asyncio.gather(*consumers)
    assert q.empty()
    assert len(set(market.put)) == len(market.put)
    assert Counter(market.got + market.removed) == Counter(market.put)
    assert (q._alarm.handle(), q._woken, len(q._getters), len(q._putters)) == (None, None, 0, 0)
