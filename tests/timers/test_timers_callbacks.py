"""Callbacks: what they may do to their driver, to others and to themselves, and their context."""

import contextvars
import gc
import logging
import warnings

import pytest


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


# ---- failures, and what cannot be called -----------------------------------------------------------------------------


def test_an_error_goes_to_on_error_with_its_timer_and_the_others_fire(guarded, clock, errors):
    calls = []
    first = guarded.call_later(1, fail)
    guarded.call_later(1, calls.append, 1)
    second = guarded.call_later(1, fail, KeyError("second"))
    guarded.call_later(1, calls.append, 2)
    clock.jump(1)
    assert guarded.run_due() == 4
    assert calls == [1, 2]
    assert [(timer, type(error)) for timer, error in errors] == [(first, Failure), (second, KeyError)]
    assert not first.active()
    assert first.callback is None
    assert errors[0][1].__traceback__ is not None


def test_an_error_is_logged_unless_somebody_wants_it(timers, caplog):
    timers.call_later(0, fail)
    timers.run_due()
    [record] = caplog.records
    assert (record.name, record.levelno) == ("pywheel", logging.ERROR)
    assert record.exc_info[0] is Failure
    assert "fail" in record.getMessage()


def test_on_error_that_fails_is_logged_and_stops_nobody(pywheel, clock, caplog):
    calls = []
    timers = pywheel.Timers(clock, on_error=lambda timer, error: fail(ZeroDivisionError))
    timers.call_later(0, fail)
    timers.call_later(0, calls.append, 1)
    assert timers.run_due() == 2
    assert calls == [1]
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]


def test_on_error_can_be_changed_at_any_time(guarded, errors):
    seen = []
    guarded.call_later(0, fail)
    guarded.on_error = lambda timer, error: seen.append(type(error))
    guarded.run_due()
    assert (seen, errors) == ([Failure], [])


@pytest.mark.parametrize("error", [GeneratorExit, BaseException, StopIteration, MemoryError])
def test_every_other_exception_is_reported_too(guarded, errors, error):
    guarded.call_later(0, fail, error)
    guarded.call_every(1, fail, error, first=0)
    assert guarded.run_due() == 2
    assert [type(found) for _, found in errors] == [error, error]


@pytest.mark.parametrize("where", ["callback", "on_error"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_goes_through_and_the_rest_runs_the_next_time(pywheel, clock, error, where):
    calls = []
    timers = pywheel.Timers(clock, on_error=lambda timer, failure: fail(error))
    timers.call_later(1, calls.append, 1)
    interrupted = timers.call_later(1, fail, error if where == "callback" else Failure)
    periodic = timers.call_every(1, fail, error if where == "callback" else Failure)
    timers.call_later(1, calls.append, 2)
    timers.call_later(2, calls.append, 3)
    clock.jump(2)
    with pytest.raises(error):
        timers.run_due()
    assert calls == [1]
    assert len(timers) == 3
    assert (interrupted.active(), interrupted.callback, periodic.active()) == (False, None, True)
    with pytest.raises(error):
        timers.run_due()
    assert len(timers) == 3
    assert periodic.when() == 3
    assert timers.run_due() == 2
    assert calls == [1, 2, 3]
    assert len(timers) == 1


def test_the_first_wrong_argument_is_the_one_that_is_named(pywheel, timers):
    timers.stop()
    for match, call in [
        ("delay", lambda: timers.call_later("x", 1, context=1)),
        ("callback", lambda: timers.call_later(1, 1, context=1)),
        ("context", lambda: timers.call_later(1, int, context=1)),
        ("when", lambda: timers.call_at("x", 1, context=1)),
        ("callback", lambda: timers.call_at(1, 1, context=1)),
        ("interval", lambda: timers.call_every("x", 1, first="x", jitter="x", context=1)),
        ("callback", lambda: timers.call_every(1, 1, first="x", jitter="x", context=1)),
        ("first", lambda: timers.call_every(1, int, first="x", jitter="x", context=1)),
        ("jitter", lambda: timers.call_every(1, int, jitter="x", missed="x", context=1)),
        ("context", lambda: timers.call_every(1, int, context=1)),
        ("clock", lambda: pywheel.Timers(1, "x", on_error=1, max_pending="x")),
        ("tick", lambda: pywheel.Timers(None, "x", on_error=1, max_pending="x")),
        ("on_error", lambda: pywheel.Timers(on_error=1, max_pending="x")),
        ("max_pending", lambda: pywheel.Timers(max_pending="x")),
    ]:
        with pytest.raises(TypeError, match=f"^{match}"):
            call()
