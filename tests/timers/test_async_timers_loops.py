"""AsyncTimers where the loop, or its time, is not what one expects."""

import asyncio
import time

import pytest


class Warped(asyncio.SelectorEventLoop):
    """A loop with a time of its own: it begins at 5, and nobody waits, as tests of programs have it."""

    now = 5.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


def test_without_a_running_loop_it_is_an_error_that_says_so(pywheel):
    with pytest.raises(RuntimeError, match="no running event loop"):
        pywheel.AsyncTimers()


@pytest.mark.parametrize("foreign", [Warped], indirect=True)
async def test_a_loop_with_its_own_time_is_the_clock(pywheel, foreign):
    times, done = [], asyncio.Event()
    async with pywheel.AsyncTimers() as timers:
        assert timers.time() == foreign.time() == 5
        timers.call_later(1000, lambda: times.append(foreign.time()))
        timers.call_at(3605.5, lambda: times.append(foreign.time()))
        timers.call_later(5000, done.set)
        await done.wait()
    assert times == [1005, 3605.5]


class Steps(Warped):
    """Up for years, so that floats have steps of 15 ns; and it wakes a microsecond early."""

    now = 2.0**27 / 1.7

    def __init__(self):
        super().__init__()
        self._clock_resolution = 1e-6


@pytest.mark.parametrize("foreign", [Steps], indirect=True)
async def test_a_timer_never_fires_early_on_a_loop_with_its_own_time(pywheel, foreign):
    early, called = [], []

    def check(due):
        called.append(due)
        if foreign.time() < due:
            early.append(due)

    async with pywheel.AsyncTimers(tick=0.000001) as timers:
        for number in range(300):
            due = foreign.time() + number * 0.0000173
            timers.call_at(due, check, due)
        while len(called) < 300:
            await asyncio.sleep(0.00001)
    assert early == []


async def test_debug_mode_refuses_another_thread_and_nothing_is_scheduled(pywheel, foreign):
    foreign.set_debug(True)
    async with pywheel.AsyncTimers() as timers:
        with pytest.raises(RuntimeError, match="thread"):
            await asyncio.to_thread(timers.call_later, 0, print)
        assert len(timers) == 0


@pytest.mark.parametrize("foreign", ["asyncio"], indirect=True)
async def test_debug_mode_warns_of_slow_turns_with_the_driver_in_the_message(pywheel, foreign, caplog):
    foreign.set_debug(True)
    foreign.slow_callback_duration, done = 0, asyncio.Event()
    async with pywheel.AsyncTimers() as timers:
        timers.call_later(0, done.set)
        await done.wait()
        await asyncio.sleep(0)
    assert "pywheel/timers/" in caplog.text


async def test_a_deadline_a_century_away_is_no_trouble_for_the_loop(pywheel, foreign):
    async with pywheel.AsyncTimers() as timers:
        timer = timers.call_later(3600 * 24 * 365 * 100, print)
        await asyncio.sleep(0.001)
        assert timer.active()


# ---- a clock that is moved by hand ---------------------------------------------------------------------------------


async def test_with_a_manual_clock_timers_run_when_the_loop_gets_its_turn(pywheel, clock, foreign):
    times = []
    async with pywheel.AsyncTimers(clock=clock) as timers:
        for seconds in (3, 1, 2):
            timers.call_later(seconds, lambda seconds=seconds: times.append((seconds, clock.time())))
        await asyncio.sleep(0.003)
        assert times == []
        clock.advance(2)
        await asyncio.sleep(0)
        assert times == [(1, 2), (2, 2)]
        clock.jump(10)
        await asyncio.sleep(0)
        assert times == [(1, 2), (2, 2), (3, 12)]


async def test_a_manual_clock_may_be_moved_by_another_thread(pywheel, clock, foreign):
    done = asyncio.Event()
    async with pywheel.AsyncTimers(clock=clock) as timers:
        timers.call_later(60, done.set)
        await asyncio.to_thread(clock.advance, 60)
        await done.wait()


async def test_autojump_is_refused_and_the_error_says_what_takes_it(pywheel, foreign):
    with pytest.raises(ValueError, match="EventLoop"):
        pywheel.AsyncTimers(clock=pywheel.ManualClock(autojump=True))


def test_a_closed_loop_is_an_error_and_nothing_more_is_scheduled(pywheel, clock, each_loop):
    timers, empty = pywheel.AsyncTimers(each_loop), pywheel.AsyncTimers(each_loop)
    by_hand = pywheel.AsyncTimers(each_loop, clock=clock)
    batch = [timers.call_later(number, print) for number in range(3)]
    by_hand.call_later(1, print)
    each_loop.close()
    clock.advance(1)  # it outlives the loop
    for delay in (0, 1, 2):
        with pytest.raises(RuntimeError, match="closed"):
            empty.call_later(delay, print)
    assert len(empty) == 0
    assert timers.pending() == batch
    assert batch[1].cancel()
    assert timers.stop() == [batch[0], batch[2]]


def test_a_time_of_ones_own_is_the_clock_and_that_of_a_turn_is_not(pywheel, each_loop):
    timers, before = pywheel.AsyncTimers(each_loop), time.monotonic()
    assert before <= timers.time() <= time.monotonic()
    each_loop.time = lambda: 77.0
    assert pywheel.AsyncTimers(each_loop).time() == 77
