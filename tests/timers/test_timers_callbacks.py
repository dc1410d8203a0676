"""What callbacks may do to their driver, to others and to themselves, and in which context they run."""

import contextvars
import gc
import warnings

import pytest

from tests.core.items import Item


class Failure(Exception):
    """What a callback raises here."""


def fail(error=Failure):
    raise error


@pytest.fixture
def errors():
    return []


@pytest.fixture
def guarded(pywheel, clock, errors):
    """Timers that write down what was reported."""
    return pywheel.Timers(clock, on_error=lambda timer, error: errors.append((timer, error)))


# ---- what a callback does to others --------------------------------------------------------------------------------


def test_a_callback_may_cancel_a_sibling_of_its_batch(timers, clock):
    calls, lengths = [], []

    def first():
        lengths.append(len(timers))
        assert second.cancel() is True
        assert second.cancel() is False
        lengths.append(len(timers))

    timers.call_later(1, first)
    second = timers.call_later(1, calls.append, "second")
    timers.call_later(1, calls.append, "third")
    clock.jump(1)
    assert timers.run_due() == 2
    assert calls == ["third"]
    assert lengths == [2, 1]
    assert len(timers) == 0


def test_a_callback_may_move_a_sibling_of_its_batch(timers, clock):
    calls = []

    def first():
        assert second.reset(5) is True
        assert third.reschedule(0) is True

    timers.call_later(1, first)
    second = timers.call_later(1, calls.append, "second")
    third = timers.call_later(1, calls.append, "third")
    clock.jump(1)
    assert timers.run_due() == 1
    assert timers.run_due() == 1
    assert calls == ["third"]
    assert second.when() == 6
    clock.advance(5)
    assert calls == ["third", "second"]


def test_a_sibling_moved_while_it_was_held_back_is_called_once(timers, clock):
    calls = []
    first = timers.call_later(1, calls.append, 1)
    second = timers.call_later(1, calls.append, 2)
    clock.jump(1)
    assert timers.run_due(0) == 0
    first.reset(0)
    second.reset(0)
    first.reset(0)
    assert timers.run_due(1) == 1
    assert timers.run_due() == 1
    assert timers.run_due() == 0
    assert calls == [2, 1]


def test_what_a_callback_schedules_comes_in_a_later_turn_even_if_it_is_due(timers, clock):
    calls = []

    def again():
        calls.append(len(timers))
        timers.call_later(0, again)
        timers.call_at(0, again)

    timers.call_later(0, again)
    assert [timers.run_due() for _ in range(4)] == [1, 2, 4, 8]
    assert len(timers) == 16


def test_a_zero_delay_timer_that_rearms_itself_runs_once_a_tick_while_time_passes(pywheel, clock):
    timers = pywheel.Timers(clock, 0.25)
    seen = []

    def again():
        seen.append(clock.time())
        timers.call_later(0, again)

    timers.call_later(0, again)
    clock.advance(1)
    assert seen == [0, 0.25, 0.5, 0.75, 1]
    assert len(timers) == 1


def test_a_zero_delay_timer_that_resets_itself_does_not_spin_in_a_turn(timers):
    calls = []

    def again():
        calls.append(timer.reset())

    timer = timers.call_later(0, again)
    assert [timers.run_due() for _ in range(3)] == [1, 1, 1]
    assert calls == [True] * 3


def test_a_timer_that_burst_brings_on_does_not_let_others_spin(timers, clock):
    """Making up for missed calls is one turn: what callbacks schedule waits for the next."""
    calls = []

    def spin():
        calls.append("spin")
        timers.call_later(0, spin)

    timers.call_every(1, calls.append, "burst", missed="burst")
    timers.call_later(0, spin)
    clock.jump(5)
    assert timers.run_due() == 6
    assert calls.count("spin") == 1


# ---- what a callback does to itself --------------------------------------------------------------------------------


def test_a_callback_cannot_cancel_its_own_call(timers, clock):
    seen = []

    def callback(*args):
        seen.append((timer.active(), timer.cancel(), timer.cancelled(), timer.when(), timer.args))

    timer = timers.call_later(1, callback, 7, 8)
    clock.advance(1)
    assert seen == [(False, False, False, None, (7, 8))]
    assert (timer.callback, timer.args, len(timers)) == (None, (), 0)


@pytest.mark.parametrize("way", ["reset", "reschedule"])
def test_a_callback_may_set_its_timer_once_more(timers, clock, way):
    calls = []

    def callback(item):
        calls.append(clock.time())
        if len(calls) < 3:
            assert (timer.reset() if way == "reset" else timer.reschedule(clock.time() + 1)) is True
            assert timer.active()

    timer = timers.call_later(1, callback, 7)
    clock.advance(1)
    assert timer.args == (7,)
    assert timer.when() == 2
    clock.advance(1)
    assert len(calls) == 2
    clock.advance(1)
    assert len(calls) == 3
    assert not timer.active()


def test_a_callback_that_resets_and_then_cancels_its_timer_leaves_it_cancelled(timers, clock):
    seen = []
    timer = timers.call_later(1, lambda: seen.extend([timer.reset(), timer.reset(), timer.cancel(), timer.reset()]))
    clock.advance(5)
    assert seen == [True, True, True, False]
    assert timer.cancelled()
    assert len(timers) == 0


def test_a_callback_that_sets_its_timer_and_then_fails_is_called_again(guarded, clock, errors):
    def callback():
        timer.reset()
        fail()

    timer = guarded.call_later(1, callback)
    clock.advance(3)
    assert [found for found, _ in errors] == [timer] * 3
    assert timer.when() == 4


def test_running_the_driver_from_a_callback_is_refused(guarded, clock, errors):
    calls = []
    guarded.call_later(0, guarded.run_due)
    guarded.call_later(0, guarded.run_due, 3)
    guarded.call_later(0, calls.append, 1)
    assert guarded.run_due() == 3
    assert [type(error) for _, error in errors] == [RuntimeError] * 2
    assert calls == [1]
    assert guarded.run_due() == 0


def test_a_callback_may_move_the_clock(timers, clock):
    calls = []

    def first():
        clock.advance(10)
        calls.append(("first", clock.time()))

    timers.call_later(1, first)
    timers.call_later(5, lambda: calls.append(("second", clock.time())))
    clock.advance(2)
    assert calls[0] == ("first", 11)
    clock.advance(0)
    assert calls == [("first", 11), ("second", 11)]


# ---- contexts and coroutines ---------------------------------------------------------------------------------------


def test_a_callback_runs_in_the_context_it_was_given(timers, clock):
    name = contextvars.ContextVar("name", default="outer")
    context = contextvars.copy_context()
    context.run(name.set, "inner")
    seen = []

    def callback(*args):
        seen.append((args, name.get()))
        name.set(f"after {len(seen)}")

    timers.call_later(1, callback, context=context)
    timers.call_at(2, callback, 1, context=context)
    timers.call_every(3, callback, 1, 2, context=context)
    timers.call_later(4, callback)
    clock.advance(4)
    assert seen == [((), "inner"), ((1,), "after 1"), ((1, 2), "after 2"), ((), "outer")]
    name.set("outer")


def test_a_failing_callback_leaves_its_context(guarded, errors):
    context = contextvars.copy_context()
    guarded.call_later(0, fail, context=context)
    guarded.call_later(0, fail, KeyboardInterrupt, context=context)
    with pytest.raises(KeyboardInterrupt):
        guarded.run_due()
    assert context.run(int) == 0
    assert len(errors) == 1


def test_a_context_that_is_entered_already_is_an_error_of_the_callback(guarded, errors):
    context = contextvars.copy_context()
    guarded.call_later(0, int, context=context)
    assert context.run(guarded.run_due) == 1
    assert [type(error) for _, error in errors] == [RuntimeError]


def test_cancel_releases_the_context(timers):
    variable, item = contextvars.ContextVar("variable"), Item()
    item.context = context = contextvars.copy_context()
    context.run(variable.set, item)
    timer = timers.call_later(1, int, context=context)
    referrers = len(gc.get_referrers(context))
    timer.cancel()
    assert len(gc.get_referrers(context)) < referrers


def test_a_coroutine_function_as_callback_is_an_error_without_a_warning(guarded, errors):
    async def coroutine():
        """Never begun."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timer = guarded.call_later(0, coroutine)
        assert guarded.run_due() == 1
        gc.collect()
    [(found, error)] = errors
    assert found is timer
    assert isinstance(error, TypeError)
    assert "AsyncTimers" in str(error)


@pytest.mark.parametrize("value", [1, "text", True, object()], ids=["1", "text", "True", "object"])
def test_what_a_callback_returns_does_not_matter(guarded, errors, value):
    guarded.call_later(0, lambda: value)
    assert guarded.run_due() == 1
    assert errors == []
