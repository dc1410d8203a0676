"""Clocks: the sources of a driver's time, and how a ManualClock moves it."""

import time
from datetime import timedelta

import pytest

from tests.timers.loops import nothing


def test_a_monotonic_clock_is_the_one_of_the_time_module(pywheel):
    clock = pywheel.MonotonicClock()
    before = time.monotonic_ns()
    shown = clock.time_ns()
    assert before <= shown <= time.monotonic_ns()
    assert before / 1e9 <= clock.time() <= time.monotonic()
    assert before / 1e9 <= pywheel.Timers().time() <= time.monotonic()


@pytest.mark.parametrize("start", [0, 5, 2.5, timedelta(seconds=2), 0.1])
def test_a_manual_clock_stands_where_it_was_started(pywheel, start):
    clock = pywheel.ManualClock(start)
    assert clock.time() == (start.total_seconds() if isinstance(start, timedelta) else start)
    assert clock.time_ns() == round(clock.time() * 1e9)
    assert repr(clock) == f"<ManualClock at {clock.time():.6f} s>"


@pytest.mark.parametrize("move", ["advance", "jump"])
@pytest.mark.parametrize("seconds", [-1, -0.001, timedelta(seconds=-1), -1e300], ids=repr)
def test_a_manual_clock_does_not_go_back(timers, clock, move, seconds):
    clock.jump(10)
    timers.call_later(0, nothing)
    with pytest.raises(ValueError, match="does not go back"):
        getattr(clock, move)(seconds)
    assert clock.time() == 10
    assert len(timers) == 1


@pytest.mark.parametrize("move", ["advance", "jump"])
def test_a_manual_clock_does_not_go_further_than_drivers_can_count(pywheel, timers, clock, move):
    clock.jump(4 * 10**9)
    timers.call_later(1, nothing)
    with pytest.raises(ValueError, match="146 years"):
        getattr(clock, move)(10**9)
    assert clock.time() == 4 * 10**9
    assert timers.time() == 4 * 10**9
    assert len(timers) == 1


def test_several_drivers_on_one_clock_run_in_the_order_of_time_and_then_of_their_making(pywheel, clock):
    drivers = [pywheel.Timers(clock) for _ in range(20)]
    seen = []
    for number, timers in enumerate(drivers):
        timers.call_later(1, seen.append, number)
        timers.call_later(3 - number / 100, seen.append, 100 + number)
    clock.advance(5)
    assert seen == [*range(20), *range(119, 99, -1)]


def test_an_error_that_goes_through_leaves_nobody_asleep(timers, clock):
    class Sleeper:
        """As a thread that waits by the clock."""

        def _next_ns(self):
            return None

        def _clock_moved(self, run):
            seen.append((clock.time(), run))

    def interrupt():
        raise KeyboardInterrupt

    seen, sleepers = [], [Sleeper(), Sleeper()]
    for sleeper in sleepers:
        clock.attach(sleeper)
    timers.call_later(2, interrupt)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(10)
    assert seen[-2:] == [(2, False)] * 2
