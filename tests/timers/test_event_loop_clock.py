"""EventLoop and clocks: never early on any of them, hours in no time on one that jumps."""

import asyncio
import math
import socket
import threading
import time

import pytest

from tests.often import often
from tests.timers.loops import Impatient, turn


@pytest.fixture
def jumping(pywheel):
    """A loop on a clock that jumps to the next deadline instead of letting the loop sleep."""
    loop = pywheel.EventLoop(clock=pywheel.ManualClock(autojump=True))
    yield loop
    loop.close()


def checked(loop, early):
    """Return a callback for a handle, which has to be told it, that notes if it runs early."""

    def callback(handle):
        if loop.time() < handle[0].when():
            early.append((loop.time(), handle[0].when()))
        handle.clear()

    return callback


# ---- never early ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    often([0.3, 86_400 * 104.25, 1e8, 0, 1, 1e3, 86_400 * 194, 2**24, 2**25 + 0.1], few=3),
    ids=lambda seconds: f"up for {seconds:g} s",
)
def test_no_callback_is_early_however_coarse_floats_have_become(pywheel, start):
    clock = pywheel.ManualClock(start)
    loop = pywheel.EventLoop(clock=clock, limit=50)
    early, pending = [], []
    check = checked(loop, early)
    for number in range(300):
        handle = []
        handle.append(loop.call_later(number * 1.7e-9 if number % 2 else number * 1e-5 / 3, check, handle))
        pending.append(handle)
        clock._move_to(clock.time_ns() + number % 7, False)
        turn(loop)
    while pending := [handle for handle in pending if handle]:
        now = loop.time()
        late = any(handle[0].when() <= now for handle in pending)
        turn(loop)
        if not late:
            clock._move_to(clock.time_ns() + 1 + 131 * (now == loop.time()), False)
    assert early == []
    loop.close()


async def test_no_callback_is_early_on_the_system_s_clock(ours):
    early = []
    check = checked(ours, early)

    for number in range(400):
        handle = []
        handle.append(ours.call_later(number % 97 * 0.000_037, check, handle))
        if number % 40 == 0:
            await asyncio.sleep(0.000_3)
    while ours._scheduled:
        before = ours.time()
        await asyncio.sleep(0.001)
        assert ours.time() >= before + 0.001
    assert early == []


def test_the_loop_sleeps_until_its_next_timer_and_wakes_but_once(pywheel):
    """Where deadlines are far away, the wheel knows only about when they are."""
    if pywheel.implementation == "pure":
        pytest.skip("the twin wakes once for each level of the wheel")

    class Selector(Impatient):
        def select(self, timeout=None):
            clock._move_to(math.ceil(clock.time_ns() + timeout * 1e9), False)
            return super().select(timeout)

    clock, selector = pywheel.ManualClock(1_000), Selector()
    loop = pywheel.EventLoop(selector, clock=clock)
    loop._selector = selector  # instead of one that sleeps by the clock
    for delay in (0.0005, 0.07, 20, 5_000, 80_000):
        selector.timeouts.clear()
        loop.run_until_complete(asyncio.sleep(delay))
        assert [wait for wait in selector.timeouts if wait] == [pytest.approx(delay)]
    loop.close()


# ---- a clock that others move ----------------------------------------------------------------------------------------


async def test_the_loop_sleeps_until_another_thread_moves_the_clock(loop, clock):
    def move():
        clock.advance(99)
        clock.jump(1)

    calls = []
    for when in (50, 100):
        loop.call_later(when, calls.append, when)
    thread = threading.Thread(target=move)
    loop.call_soon(thread.start)
    await asyncio.sleep(100)
    calls.append(loop.time())
    thread.join()
    assert calls == [50, 100, 100]


async def test_a_callback_may_move_the_clock_of_its_own_loop(loop, clock):
    task = asyncio.create_task(asyncio.sleep(3_600, "slept"))
    await asyncio.sleep(0)
    loop.call_soon(clock.advance, 3_600)
    assert await task == "slept"
    assert loop.time() == 3_600


def test_a_clock_moves_on_without_the_loops_that_are_closed_or_gone(pywheel, clock):
    loop = pywheel.EventLoop(clock=clock)
    loop.close()
    clock.advance(1)
    del loop
    clock.advance(1)
    assert clock.time() == 2


# ---- a clock that jumps ----------------------------------------------------------------------------------------------


async def test_with_autojump_sleeping_for_hours_takes_no_time(jumping):
    start, times = time.monotonic(), []
    jumping.call_later(math.inf, print)
    for seconds in (3_600, 0.1, 1e-9, 86_400 * 365, 0):
        await asyncio.sleep(seconds)
        times.append(jumping.time())
    assert times[:2] == [3_600, 3_600.1]
    assert times[3] == pytest.approx(86_400 * 365 + 3_600.1)
    assert time.monotonic() < start + 3_600


async def test_with_autojump_timeouts_and_sleeps_come_in_their_order(jumping):
    async def worker(name, pause):
        for _ in range(3):
            await asyncio.sleep(pause)
            log.append((jumping.time(), name))

    log = []
    workers = asyncio.gather(worker("a", 10), worker("b", 7))
    with pytest.raises(asyncio.TimeoutError):
        async with asyncio.timeout(8):
            await asyncio.Event().wait()
    log.append((jumping.time(), "timeout"))
    await workers
    async with asyncio.timeout(1):
        log.append((jumping.time(), "in time"))
    assert log[:4] == [(7, "b"), (8, "timeout"), (10, "a"), (14, "b")]
    assert log[4:] == [(20, "a"), (21, "b"), (30, "a"), (30, "in time")]


async def test_with_autojump_files_that_are_ready_come_before_a_jump(jumping):
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.send(b"line\n")
    async with asyncio.timeout(0.001):
        assert await reader.readline() == b"line\n"
    assert jumping.time() == 0
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(reader.readline(), 600)
    assert jumping.time() == 600
    writer.close()
    theirs.close()


async def test_with_autojump_a_loop_without_timers_waits_for_files_and_threads(jumping):
    await asyncio.to_thread(time.sleep, 0.005)
    assert jumping.time() == 0


def sleeps(loop, most=1_000):
    """Run a loop until it sleeps without an end; return how often it asked for files before, at most `most` times."""
    asked, selector = [], loop._selector._selector

    def select(timeout=None):
        asked.append(timeout)
        if timeout is None or len(asked) == most:
            loop.stop()
        return []

    selector.select = select
    try:
        loop.run_forever()
    finally:
        del selector.select
    return len(asked) - 1


@pytest.mark.parametrize("number", [1, 100])
def test_with_autojump_a_loop_with_infinite_timers_alone_sleeps_and_the_clock_stands(jumping, number):
    for _ in range(number):
        jumping.call_later(math.inf, print)
    jumping.call_later(10, int)
    assert sleeps(jumping) <= 3
    assert jumping.time() == 10


def test_with_autojump_the_clock_of_a_loop_stays_within_146_years(pywheel):
    clock, calls = pywheel.ManualClock(2**62 // 10**9 - 100, autojump=True), []
    loop = pywheel.EventLoop(clock=clock)
    start = clock.time()
    loop.call_later(50, lambda: calls.append(clock.time() - start))
    loop.call_later(150, calls.append, "never")
    assert sleeps(loop) <= 3
    assert calls == [50]
    assert clock.time() == start + 50
    loop.close()


async def test_with_autojump_the_drivers_on_the_same_loop_go_with_it(pywheel, jumping):
    calls = []
    async with pywheel.AsyncTimers() as timers:
        timers.call_every(60, lambda: calls.append(jumping.time()))
        await asyncio.sleep(3_600.5)
    assert len(calls) == 60
    assert all(time >= 60 * number for number, time in enumerate(calls, 1))
