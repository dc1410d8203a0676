"""What becomes of the failures of callbacks, and of what cannot be called."""

import logging

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


def test_on_error_sees_the_callback_that_failed(pywheel, clock):
    seen = []
    timers = pywheel.Timers(clock, on_error=lambda timer, error: seen.append((timer.callback, timer.args)))
    timers.call_later(0, fail, Failure)
    timers.run_due()
    assert seen == [(fail, (Failure,))]


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


def test_an_interrupt_while_making_up_for_missed_calls_leaves_the_rest(timers, clock):
    calls = []

    def callback():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    timers.call_every(1, callback, missed="burst")
    clock.jump(6)
    with pytest.raises(KeyboardInterrupt):
        timers.run_due()
    assert timers.run_due() == 3
    assert len(calls) == 6


@pytest.mark.parametrize("wrong", [None, 1, "name", [], Item()], ids=lambda value: type(value).__name__)
def test_a_callback_that_cannot_be_called_is_refused_at_once(timers, wrong):
    for schedule in (timers.call_later, timers.call_at, timers.call_every):
        with pytest.raises(TypeError, match=r"^callback must be callable, not"):
            schedule(1, wrong)
    assert len(timers) == 0


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
