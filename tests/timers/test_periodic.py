"""Periodic timers: their grid, missed calls, jitter, and changes from within."""

import random
from math import ceil

import pytest

from tests.implementations import CORES, load_package
from tests.timers.loops import nothing

MISSED = ["skip", "burst", "delay"]


@pytest.fixture
def seen():
    return []


@pytest.fixture
def note(clock, seen):
    """A callback that writes down the time."""
    return lambda *args: seen.append(clock.time())


def test_there_is_no_drift_over_a_million_intervals(timers, clock):
    """Of an interval that is no multiple of the tick, nor exact as a float."""
    timer = timers.call_every(0.0007, nothing)
    for part in range(1, 11):
        clock.jump(0.0007 * 100_000)
        assert timers.run_due() == 1
        assert timer.when() == ceil((part * 100_000 + 1) * 0.7 - 1e-6) / 1000


@pytest.mark.parametrize("missed", ["skip", "burst"])
def test_each_of_many_calls_comes_at_its_point_of_the_grid(timers, clock, note, seen, missed):
    timers.call_every(0.0303, note, first=0.5, missed=missed)
    clock.advance(60)
    assert seen == [ceil(500 + number * 30.3 - 1e-6) / 1000 for number in range(len(seen))]
    assert len(seen) == 1964


def test_skip_leaves_missed_calls_out_and_keeps_the_grid(timers, clock, note, seen):
    timers.call_every(10, note, missed="skip")
    clock.jump(35)
    assert timers.run_due() == 1
    clock.advance(10)
    assert seen == [35, 40]


@pytest.mark.parametrize("missed", MISSED)
@pytest.mark.parametrize("at", [1, 3])
def test_cancel_from_its_own_callback_ends_it_at_once(timers, clock, missed, at):
    calls = []

    def callback(item):
        calls.append(item)
        if len(calls) == at:
            assert timer.active()
            assert timer.cancel() is True
            assert timer.cancel() is False
            assert (timer.callback, timer.args) == (None, ())

    timer = timers.call_every(1, callback, "item", missed=missed)
    clock.advance(1)
    clock.jump(20)
    while timers.run_due():
        clock.jump(1)
    assert len(calls) == at
    assert timer.cancelled()
    assert len(timers) == 0


def test_reset_while_it_makes_up_forgets_the_missed_calls(timers, clock):
    calls = []
    timer = timers.call_every(1, lambda: calls.append(timer.reset()), missed="burst")
    clock.jump(10)
    assert timers.run_due() == 1
    assert timer.when() == 11


@pytest.mark.parametrize("missed", MISSED)
def test_reschedule_to_a_time_that_has_passed_is_one_call_now_and_a_grid_from_now(timers, clock, missed):
    calls = []
    timer = timers.call_every(1, calls.append, 1, missed=missed)
    clock.jump(1000)
    timer.reschedule(5)
    assert timers.run_due() == 1
    assert timer.when() == 1001


def test_jitter_makes_each_call_late_within_its_bound_and_does_not_add_up(timers, clock, note, seen):
    random.seed(7)
    timers.call_every(10, note, jitter=4)
    clock.advance(10_000)
    late = [time - 10 * number for number, time in enumerate(seen, 1)]
    assert len(late) in (999, 1000)
    assert all(0 <= seconds <= 4.001 for seconds in late)
    assert min(late) < 0.5
    assert max(late) > 3.5
    assert 1.5 < sum(late) / len(late) < 2.5


def test_jitter_applies_to_the_first_call_too(timers):
    random.seed(7)
    whens = {timers.call_every(10, nothing, first=0, jitter=1000).when() for _ in range(50)}
    assert len(whens) > 40
    assert 0 <= min(whens) <= max(whens) <= 1000


def test_jitter_longer_than_the_interval_skips_what_it_passes(timers, clock, note, seen):
    random.seed(7)
    timers.call_every(1, note, jitter=10)
    clock.advance(1000)
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)


def test_both_implementations_draw_the_same_jitter():
    """A seed repeats a run, whatever runs it."""
    drawn = []
    for package in map(load_package, CORES):
        random.seed(11)
        clock = package.ManualClock()
        timers, seen = package.Timers(clock), []
        timers.call_every(10, lambda clock=clock, seen=seen: seen.append(clock.time()), jitter=5)
        timers.call_every(7, seen.append, 0, first=3, jitter=2, missed="delay")
        clock.advance(100)
        drawn.append(seen)
    assert len(set(drawn[0])) > 8
    assert all(seen == drawn[0] for seen in drawn)


@pytest.mark.parametrize(
    "missed", ["", "Skip", "coalesce", None, 1, [], "x" * 10_000], ids=lambda value: repr(value)[:20]
)
def test_an_unknown_policy_is_refused_by_name(timers, missed):
    with pytest.raises(ValueError, match=r"^missed must be 'skip', 'burst' or 'delay', not .{0,60}$"):
        timers.call_every(1, nothing, missed=missed)
    assert len(timers) == 0


@pytest.mark.parametrize(
    ("missed", "now", "calls", "when"),
    [("skip", 35, 1, 40), ("skip", 20, 1, 30), ("burst", 35, 3, 40), ("delay", 35, 1, 45)],
)
def test_each_policy_has_its_calls_after_a_jump_and_its_next_time(timers, clock, missed, now, calls, when):
    timer = timers.call_every(10, nothing, missed=missed)
    clock.jump(now)
    assert timers.run_due() == calls
    assert timer.when() == when
