"""Clocks: the sources of a driver's time, and how a ManualClock moves it."""

import copy
import pickle
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


def test_a_clock_without_time_ns_cannot_be_made(pywheel):
    with pytest.raises(TypeError, match="abstract"):
        pywheel.Clock()


@pytest.mark.parametrize("clock", [1, "clock", object(), time.monotonic])
def test_what_is_no_clock_is_refused(pywheel, clock):
    with pytest.raises(TypeError, match="clock must have a method time_ns"):
        pywheel.Timers(clock)


def test_a_clock_of_ones_own_serves(pywheel):
    class Frames(pywheel.Clock):
        frame = 0

        def time_ns(self):
            return self.frame * 10**9 // 60

    clock, calls = Frames(), []
    timers = pywheel.Timers(clock)
    timers.call_later(0.5, calls.append, 1)
    for clock.frame in range(40):
        timers.run_due()
        assert bool(calls) is (clock.time() >= 0.5)


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


def test_an_error_that_goes_through_stops_the_clock_where_it_happened(timers, clock):
    calls = []

    def interrupt():
        raise KeyboardInterrupt

    timers.call_later(2, interrupt)
    timers.call_later(2, calls.append, 1)
    timers.call_later(3, calls.append, 2)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(10)
    assert (clock.time(), calls) == (2, [])
    clock.advance(10)
    assert calls == [1, 2]


def test_several_drivers_on_one_clock_run_in_the_order_of_time_and_then_of_their_making(pywheel, clock):
    drivers = [pywheel.Timers(clock) for _ in range(20)]
    seen = []
    for number, timers in enumerate(drivers):
        timers.call_later(1, seen.append, number)
        timers.call_later(3 - number / 100, seen.append, 100 + number)
    clock.advance(5)
    assert seen == [*range(20), *range(119, 99, -1)]


def test_drivers_of_different_ticks_are_not_early(pywheel, clock):
    seen, keep = [], [pywheel.Timers(clock, tick) for tick in (0.001, 0.3, 1, 60)]
    for timers in keep:
        timers.call_later(0.5, lambda tick=timers.tick: seen.append((tick, clock.time())))
    clock.advance(100)
    assert seen == [(0.001, 0.5), (0.3, 0.6), (1, 1), (60, 60)]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda function: function.__name__)
def test_a_manual_clock_can_be_neither_copied_nor_pickled(pywheel, duplicate):
    with pytest.raises(TypeError, match="cannot copy or pickle a ManualClock"):
        duplicate(pywheel.ManualClock())
