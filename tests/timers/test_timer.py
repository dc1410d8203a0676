"""What one timer promises: when it is called, in which order, and what its handle says."""

import copy
import gc
import pickle
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.timers.loops import nothing


class Call:
    """A callback without a name."""

    def __call__(self, *args):
        """Do nothing."""


# ---- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [(), (1,), (None,), ((),), ((1, 2),), (1, 2), tuple(range(30))], ids=repr)
def test_a_timer_fires_once_with_its_arguments(timers, clock, args):
    calls = []
    timer = timers.call_later(0.1, lambda *args: calls.append(args), *args)
    assert timer.args == args
    clock.advance(1)
    clock.advance(1)
    assert calls == [args]
    assert timers.run_due() == 0


def test_a_timer_fires_at_its_tick_and_not_one_before(timers, clock):
    calls = []
    for ms in [0, 1, 63, 64, 65, 255, 256, 257, 4095, 4096, 65_535, 65_536, 2**24 - 1, 2**24, 2**32, 2**40 + 1]:
        timers.call_at(ms / 1000, lambda ms=ms: calls.append((ms, clock.time_ns())))
    clock.advance(timedelta(days=40_000))
    assert calls == [(ms, ms * 1_000_000) for ms, _ in calls]
    assert len(calls) == 16


@pytest.mark.parametrize("delay", [0, -1, -0.0, -1e300, -(10**7), 0.0, timedelta(0), timedelta(days=-1)], ids=repr)
def test_a_delay_of_nothing_or_less_is_due_now(timers, delay):
    calls = []
    timers.call_later(delay, calls.append, 1)
    assert calls == []
    assert timers.run_due() == 1
    assert calls == [1]


def test_a_time_that_has_passed_is_due_now(timers, clock):
    calls = []
    clock.jump(100)
    for when in (50, -3, timedelta(seconds=-1), 100):
        timers.call_at(when, calls.append, when)
    assert timers.run_due() == 4
    assert calls == [-3, timedelta(seconds=-1), 50, 100]


def test_timers_of_one_tick_fire_in_the_order_of_their_last_schedule_or_reset(timers, clock):
    calls = []
    handles = [timers.call_later(5, calls.append, name) for name in "abcdef"]
    handles[1].reset()
    handles[4].reschedule(7)
    handles[0].reset(5)
    handles[4].reschedule(5)
    clock.advance(10)
    assert calls == list("cdfbae")


def test_order_on_a_tick_survives_cascades(timers, clock):
    calls = []
    for number in range(200):
        timers.call_at(70_000 if number % 3 else 69_999.9995, calls.append, number)
        clock.advance(number)
    clock.advance(70_000)
    assert calls == list(range(200))


# ---- the handle ----------------------------------------------------------------------------------------------------


def test_cancel_is_true_once(timers, clock):
    calls = []
    timer = timers.call_later(1, calls.append, 1)
    assert (timer.active(), timer.cancelled()) == (True, False)
    assert timer.cancel() is True
    assert (timer.active(), timer.cancelled()) == (False, True)
    assert timer.cancel() is False
    clock.advance(5)
    assert timer.cancelled() is True
    assert calls == []


def test_a_timer_that_has_fired_is_stale(timers, clock):
    timer = timers.call_later(1, nothing, 7)
    clock.advance(1)
    newer = timers.call_later(1, nothing)  # may have its place in memory
    assert [timer.cancel(), timer.reset(), timer.reset(3), timer.reschedule(9)] == [False] * 4
    assert (timer.active(), timer.cancelled(), timer.when(), timer.remaining()) == (False, False, None, None)
    assert (timer.callback, timer.args) == (None, ())
    assert newer.active()
    assert len(timers) == 1


def test_when_and_remaining_are_rounded_up_to_the_tick(timers, clock):
    clock.jump(10)
    timer = timers.call_later(1.2341, nothing)
    assert timer.when() == 11.235
    clock.jump(0.5)
    assert timer.remaining() == 0.735
    clock.jump(100)
    assert timer.when() == 11.235
    assert timer.remaining() == 0


def test_a_timer_held_back_by_a_limit_keeps_its_deadline_and_can_be_changed(timers, clock):
    calls = []
    handles = [timers.call_at(number, calls.append, number) for number in range(1, 6)]
    clock.jump(10)
    assert timers.run_due(1) == 1
    assert [timer.when() for timer in handles] == [None, 2, 3, 4, 5]
    assert handles[1].cancel() is True
    assert handles[2].reset(1) is True
    assert len(timers) == 3
    assert timers.pending() == [handles[3], handles[4], handles[2]]
    assert timers.run_due() == 2
    clock.advance(1)
    assert calls == [1, 4, 5, 3]


def test_reset_starts_anew_with_the_delay_it_was_made_with_unless_told(timers, clock):
    timer = timers.call_later(30, nothing)
    absolute = timers.call_at(20, nothing)
    clock.jump(10)
    assert timer.reset() is True
    assert timer.when() == 40
    assert timer.reset(5) is True
    assert timer.when() == 15
    assert timer.reset(timedelta(seconds=-5)) is True
    assert timer.when() == 10
    assert timer.reset() is True
    assert timer.when() == 40
    assert absolute.reset() is True
    assert absolute.when() == 30


def test_reschedule_moves_to_an_instant(timers, clock):
    calls = []
    timer = timers.call_later(30, calls.append, 1)
    assert timer.reschedule(3) is True
    clock.advance(4)
    assert calls == [1]
    late = timers.call_later(30, calls.append, 2)
    assert late.reschedule(-1) is True
    assert timers.run_due() == 1
    assert calls == [1, 2]


def test_repr_says_what_is_called_and_when(timers, clock):
    timer = timers.call_later(2.5, nothing)
    assert repr(timer) == "<Timer nothing, due in 2.500 s>"
    assert repr(timers.call_later(1, Call())) == "<Timer Call, due in 1.000 s>"
    timer.cancel()
    assert repr(timer) == "<Timer, cancelled>"
    clock.advance(0)
    fired = timers.call_later(0, lambda: seen.append(repr(fired)))
    seen = []
    clock.advance(0)
    assert "running" in seen[0]
    assert repr(fired) == "<Timer, has run>"


def test_only_a_driver_makes_timers(pywheel, timers):
    periodic = type(timers.call_every(1, nothing))
    for cls in (pywheel.Timer, periodic, type("Mine", (pywheel.Timer,), {})):
        with pytest.raises(TypeError):
            cls()
        with pytest.raises(TypeError):
            cls(1, nothing)


def test_a_timer_made_by_force_is_useless_and_harmless(pywheel, timers):
    methods = ["cancel", "reset", "when", "remaining", "active", "cancelled", "__repr__"]
    periodic = type(timers.call_every(1, nothing))
    for make in (pywheel.Timer.__new__, object.__new__):
        for cls in (pywheel.Timer, periodic, type("Mine", (pywheel.Timer,), {})):
            try:
                timer = make(cls)
            except TypeError:
                continue
            for method in methods:
                with suppress(pywheel.TimersStopped, AttributeError):
                    assert getattr(timer, method)() in (False, None) or method == "__repr__"
            gc.collect()
    assert len(timers) == 1


def test_init_on_a_live_timer_is_refused_and_changes_nothing(timers, clock):
    calls = []
    timer = timers.call_later(1, calls.append, 1)
    with pytest.raises(TypeError):
        timer.__init__()
    clock.advance(1)
    assert calls == [1]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda function: function.__name__)
def test_timers_and_drivers_are_neither_copied_nor_pickled(timers, duplicate):
    for thing in (timers.call_later(1, nothing), timers.call_every(1, nothing), timers):
        with pytest.raises(TypeError):
            duplicate(thing)
