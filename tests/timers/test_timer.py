"""The promises of one timer: the time and order of its call, and its handle."""

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.timers.loops import nothing


class Call:
    """A callback without a name."""

    def __call__(self, *args):
        """Do nothing."""


# ---- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["function", "method", "builtin", "class"])
def test_a_timer_calls_anything_once_with_its_arguments(timers, clock, kind):
    calls = []

    class Kept:
        def __init__(self, *args):
            calls.append(args)

        act = __init__

    kinds = {"function": lambda *args: calls.append(args), "class": Kept, "method": Kept().act, "builtin": calls.append}
    for args in [(), (None,), ((),), ((1, 2),), *(tuple(range(count)) for count in (1, 2, 3, 4, 8, 30))]:
        calls.clear()
        given = (args,) if kind == "builtin" else args
        timer = timers.call_later(0.1, kinds[kind], *given)
        assert (timer.callback, timer.args) == (kinds[kind], given)
        clock.advance(1)
        clock.advance(1)
        assert calls == [args]


def test_a_timer_fires_at_its_tick_and_not_one_before(timers, clock):
    calls = []
    for ms in [0, 1, 63, 64, 65, 255, 256, 257, 4095, 4096, 65_535, 65_536, 2**24 - 1, 2**24, 2**32, 2**40 + 1]:
        timers.call_at(ms / 1000, lambda ms=ms: calls.append((ms, clock.time_ns())))
    clock.advance(timedelta(days=40_000))
    assert calls == [(ms, ms * 1_000_000) for ms, _ in calls]
    assert len(calls) == 16


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


@pytest.mark.parametrize("name", ["Timers", "ThreadTimers", "AsyncTimers"])
def test_the_repr_of_a_driver_says_how_many_timers_it_has(pywheel, clock, name):
    loop = asyncio.new_event_loop()
    timers = getattr(pywheel, name)(clock=clock, **({"loop": loop} if name == "AsyncTimers" else {}))
    for delay in (1, 2):
        timers.call_later(delay, nothing)
    assert repr(timers) == f"<{name} of 2 timers>"
    timers.stop()
    assert repr(timers) == f"<{name} of 0 timers, stopped>"
    loop.close()


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
