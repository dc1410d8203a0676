"""ThreadTimers on a clock that a test moves: it returns when the callbacks of that time have run."""

import threading
from queue import SimpleQueue

import pytest

from tests.jobs.waiting import LIMIT
from tests.timers.crowd import GUARD


@pytest.fixture
def timers(pywheel, clock):
    with pywheel.ThreadTimers(clock=clock) as driver:
        yield driver


@pytest.fixture
def autojump(pywheel):
    return pywheel.ManualClock(autojump=True)


def test_advance_runs_what_was_added_at_the_same_time(timers, clock):
    calls = []
    for number in range(200):  # each time the thread has just fallen asleep, or is about to
        timers.call_later(0, calls.append, number)
        clock.advance(0)
        assert calls == list(range(number + 1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_advance_goes_on_when_a_callback_ends_the_thread(timers, clock, monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    calls = []
    for number in range(5):
        timers.call_later(number, fail)
        timers.call_later(number, calls.append, number)
    clock.advance(10)
    assert calls == list(range(5))
    timers.call_later(1, fail)
    clock.advance(1)  # nothing is left, so no thread is
    assert timers._thread is None
    timers.call_later(1, calls.append, 5)
    clock.advance(1)
    assert calls == list(range(6))


def test_jump_makes_everything_late_at_once(timers, clock):
    times, done = [], threading.Event()
    for number in (3, 1, 2):
        timers.call_later(number, lambda number=number: times.append((number, clock.time())))
    timers.call_later(4, done.set)
    clock.jump(100)
    assert done.wait(LIMIT)
    assert times == [(1, 100), (2, 100), (3, 100)]


def test_a_callback_may_advance_the_clock(timers, clock):
    calls = []
    timers.call_later(1, lambda: clock.advance(3600 * 24))
    timers.call_later(1, calls.append, 1)
    timers.call_later(3600, calls.append, 2)
    clock.advance(1)
    assert clock.time() == 3600 * 24 + 1
    clock.advance(0)
    assert calls == [1, 2]


def test_a_callback_that_advances_has_another_driver_run_what_is_due_on_the_way(pywheel, timers, clock):
    times = []
    with pywheel.ThreadTimers(clock=clock) as others:
        others.call_later(3, lambda: times.append(clock.time()))
        timers.call_later(1, lambda: (clock.advance(5), times.append(clock.time())))
        clock.advance(1)
    assert times == [3, 6]


def test_callbacks_of_several_drivers_may_advance_one_clock(pywheel, clock):
    calls, drivers = [], [pywheel.ThreadTimers(clock=clock) for _ in range(3)]
    for number, driver in enumerate(drivers):
        driver.call_later(1, lambda number=number: (clock.advance(1), calls.append(number)))
    mover = threading.Thread(target=clock.advance, args=(10,), daemon=True)
    mover.start()
    mover.join(GUARD)
    assert not mover.is_alive()
    assert clock.time() == 10
    assert sorted(calls) == [0, 1, 2]
    for driver in drivers:
        driver.stop()


def test_a_callback_that_advances_does_not_go_tick_by_tick_past_what_is_due(pywheel):
    class Clock(pywheel.ManualClock):
        moves = 0

        def _move_to(self, now, run):
            self.moves += 1
            super()._move_to(now, run)

    clock = Clock()
    with pywheel.ThreadTimers(clock=clock) as timers:
        timers.call_later(1, lambda: clock.advance(3600))
        timers.call_later(1, int)
        clock.advance(1)
        assert clock.moves <= 10


def test_a_timer_that_rearms_itself_without_delay_does_not_stop_the_clock(timers, clock):
    calls, others = [], []

    def again():
        calls.append(clock.time())
        timers.call_later(0, again)

    timers.call_later(1, again)
    timers.call_later(1.003, others.append, "later")
    clock.advance(1.005)
    assert others == ["later"]
    assert {1.0, 1.001, 1.002, 1.003, 1.004, 1.005} == set(calls)


def test_a_stopped_driver_does_not_hold_up_the_clock(timers, clock):
    timers.call_later(1, timers.stop)
    timers.call_later(2, print)
    clock.advance(5)
    assert clock.time() == 5
    assert timers.stopped


def test_a_driver_without_timers_does_not_hold_up_the_clock(timers, clock):
    clock.advance(5)
    assert timers._thread is None
    timers.call_later(1, int).cancel()
    clock.advance(5)
    assert clock.time() == 10


def test_with_autojump_hours_take_no_time(pywheel, autojump):
    times, done = [], threading.Event()
    with pywheel.ThreadTimers(clock=autojump) as timers:
        entered = threading.Event()
        timers.call_later(0, entered.wait, LIMIT)
        for hours in (5, 1, 3):
            timers.call_later(3600 * hours, lambda: times.append(autojump.time() / 3600))
        timers.call_later(3600 * 1000, done.set)
        entered.set()
        assert done.wait(LIMIT)
    assert times == [1, 3, 5]


def test_with_autojump_the_clock_may_still_be_advanced(pywheel, autojump):
    calls = []
    with pywheel.ThreadTimers(clock=autojump) as timers:
        timers.call_every(1, calls.append, None)
        autojump.advance(10)
        assert len(calls) >= 10


def test_with_autojump_the_clock_stays_within_146_years(pywheel):
    class Watched(pywheel.ThreadTimers):
        def _rest(self, clock, asked, due):
            seconds = super()._rest(clock, asked, due)
            rests.put(seconds)
            return seconds

    clock, rests, done = pywheel.ManualClock(10, autojump=True), SimpleQueue(), threading.Event()
    with Watched(clock=clock) as timers:
        far = timers.call_later(2**62 // 10**9, print)
        while rests.get(timeout=LIMIT) is not None:  # the wheel has it stop on the way
            assert clock.time_ns() <= 2**62
        timers.call_later(1, done.set)
        assert done.wait(LIMIT)
        assert timers.stop() == [far]
