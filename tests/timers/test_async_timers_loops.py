"""AsyncTimers where the loop, or its time, is not what one expects."""

import asyncio
import threading
import time

import pytest

from tests.jobs.waiting import LIMIT


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


def test_a_loop_with_its_own_time_is_the_clock(pywheel):
    async def main():
        loop = asyncio.get_running_loop()
        times, done = [], asyncio.Event()
        async with pywheel.AsyncTimers() as timers:
            assert timers.time() == loop.time() == 5
            timers.call_later(1000, lambda: times.append(loop.time()))
            timers.call_at(3605.5, lambda: times.append(loop.time()))
            timers.call_later(5000, done.set)
            await done.wait()
        assert times == [1005, 3605.5]

    with asyncio.Runner(loop_factory=Warped) as runner:
        runner.run(main())


def test_a_timer_never_fires_early_on_a_loop_with_its_own_time(pywheel):
    class Steps(Warped):
        """Up for years, so that floats have steps of 15 ns; and it wakes a microsecond early."""

        now = 2.0**27 / 1.7

        def __init__(self):
            super().__init__()
            self._clock_resolution = 1e-6

    async def main():
        loop = asyncio.get_running_loop()
        early, left = [], 0

        def check(due):
            nonlocal left
            left -= 1
            if loop.time() < due:
                early.append(due)

        async with pywheel.AsyncTimers(tick=0.000001) as timers:
            for number in range(300):
                due = loop.time() + number * 0.0000173
                timers.call_at(due, check, due)
                left += 1
            while left:
                await asyncio.sleep(0.00001)
        assert early == []

    with asyncio.Runner(loop_factory=Steps) as runner:
        runner.run(main())


def test_debug_mode_refuses_another_thread_and_nothing_is_scheduled(pywheel):
    async def main():
        errors = []
        async with pywheel.AsyncTimers() as timers:

            def schedule():
                try:
                    timers.call_later(0, print)
                except RuntimeError as error:
                    errors.append(error)

            thread = threading.Thread(target=schedule)
            thread.start()
            thread.join(LIMIT)
            assert len(timers) == 0
        assert "thread" in str(errors[0])

    asyncio.run(main(), debug=True)


def test_debug_mode_warns_of_slow_turns_with_the_driver_in_the_message(pywheel, caplog):
    async def main():
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.slow_callback_duration = 0
        async with pywheel.AsyncTimers() as timers:
            timers.call_later(0, done.set)
            await done.wait()
            await asyncio.sleep(0)

    asyncio.run(main(), debug=True)
    assert "pywheel/timers/" in caplog.text


def test_a_deadline_a_century_away_is_no_trouble_for_the_loop(pywheel):
    async def main():
        async with pywheel.AsyncTimers() as timers:
            timer = timers.call_later(3600 * 24 * 365 * 100, print)
            await asyncio.sleep(0.001)
            assert timer.active()

    asyncio.run(main())


# ---- a clock that is moved by hand ---------------------------------------------------------------------------------


def test_with_a_manual_clock_timers_run_when_the_loop_gets_its_turn(pywheel, clock):
    async def main():
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

    asyncio.run(main())


def test_a_manual_clock_may_be_moved_by_another_thread(pywheel, clock):
    async def main():
        done = asyncio.Event()
        async with pywheel.AsyncTimers(clock=clock) as timers:
            timers.call_later(60, done.set)
            thread = threading.Thread(target=clock.advance, args=(60,))
            thread.start()
            await asyncio.wait_for(done.wait(), LIMIT)
            thread.join(LIMIT)

    asyncio.run(main())


def test_autojump_is_refused_and_the_error_says_what_takes_it(pywheel):
    async def main():
        with pytest.raises(ValueError, match="EventLoop"):
            pywheel.AsyncTimers(clock=pywheel.ManualClock(autojump=True))

    asyncio.run(main())


@pytest.mark.parametrize(("limit", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("10", TypeError)])
def test_a_limit_is_an_int_from_1_on(pywheel, limit, error):
    with pytest.raises(error):
        pywheel.AsyncTimers(asyncio.AbstractEventLoop(), limit=limit)


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_closed_loop_is_an_error_and_nothing_more_is_scheduled(pywheel, clock, kind):
    loop = pytest.importorskip("uvloop").new_event_loop() if kind == "uvloop" else asyncio.new_event_loop()
    timers, empty, by_hand = (
        pywheel.AsyncTimers(loop),
        pywheel.AsyncTimers(loop),
        pywheel.AsyncTimers(loop, clock=clock),
    )
    batch = [timers.call_later(number, print) for number in range(3)]
    by_hand.call_later(1, print)
    loop.close()
    clock.advance(1)  # it outlives the loop
    for delay in (0, 1, 2):
        with pytest.raises(RuntimeError, match="closed"):
            empty.call_later(delay, print)
    assert len(empty) == 0
    assert timers.pending() == batch
    assert batch[1].cancel()
    assert timers.stop() == [batch[0], batch[2]]


def test_a_time_of_ones_own_is_the_clock_and_that_of_a_turn_is_not(pywheel):
    loop = asyncio.new_event_loop()
    loop.time = lambda: 77.0
    assert pywheel.AsyncTimers(loop).time() == 77
    loop.close()
    uvloop = pytest.importorskip("uvloop")
    loop = type("Loop", (uvloop.Loop,), {})()
    timers, before = pywheel.AsyncTimers(loop), time.monotonic()
    assert before <= timers.time() <= time.monotonic()
    loop.close()
