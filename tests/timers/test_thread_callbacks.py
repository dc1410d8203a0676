"""ThreadTimers: what callbacks may do, and what comes of it."""

import logging
import threading
from contextvars import ContextVar, copy_context
from queue import SimpleQueue

import pytest

from tests.jobs.waiting import LIMIT


@pytest.fixture
def timers(pywheel):
    with pywheel.ThreadTimers() as driver:
        yield driver


@pytest.fixture
def quiet(monkeypatch):
    """Let threads end with an error; return a queue of what they were."""
    errors = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.put(args.exc_type))
    return errors


def flush(driver):
    """Return when the driver has run all that was due before."""
    done = threading.Event()
    driver.call_later(0, done.set)
    assert done.wait(LIMIT)


def fail(error):
    raise error


class Hold:
    """A callback that lets the driver's thread go on when the test says so."""

    def __init__(self, driver):
        self.entered, self.leave = threading.Event(), threading.Event()
        driver.call_later(0, self)
        assert self.entered.wait(LIMIT)

    def __call__(self):
        self.entered.set()
        assert self.leave.wait(LIMIT)


def test_a_callback_that_blocks_delays_the_others_and_nobody_who_schedules(timers):
    calls, hold = [], Hold(timers)
    for number in range(100):
        timers.call_later(0, calls.append, number)
    assert len(timers) == 100
    assert calls == []
    hold.leave.set()
    flush(timers)
    assert calls == list(range(100))


def test_an_error_goes_to_the_log_and_the_others_fire(timers, caplog):
    calls = []
    timers.call_later(0, fail, ValueError("broken"))
    timers.call_later(0, calls.append, 1)
    flush(timers)
    assert calls == [1]
    [record] = caplog.records
    assert (record.name, record.levelno) == ("pywheel", logging.ERROR)
    assert "broken" in caplog.text


def test_an_error_goes_to_on_error_with_its_timer(pywheel):
    errors = []
    with pywheel.ThreadTimers(on_error=lambda *args: errors.append(args)) as timers:
        error = ValueError("broken")
        timer = timers.call_later(0, fail, error)
        flush(timers)
    assert errors == [(timer, error)]


def test_an_on_error_that_raises_is_logged_and_the_others_fire(pywheel, caplog):
    calls = []
    with pywheel.ThreadTimers(on_error=lambda timer, error: fail(OSError("handler"))) as timers:
        timers.call_later(0, fail, ValueError())
        timers.call_later(0, calls.append, 1)
        flush(timers)
    assert calls == [1]
    assert "handler" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_thread_and_another_goes_on_with_the_rest(timers, quiet, kind):
    calls, hold = [], Hold(timers)
    first = timers._thread
    timers.call_later(0, fail, kind())
    for number in range(10):
        timers.call_later(0.002 * number, calls.append, number)
    hold.leave.set()
    first.join(LIMIT)
    done = threading.Event()
    timers.call_later(0.03, done.set)
    assert done.wait(LIMIT)
    assert calls == list(range(10))
    assert quiet.get(timeout=LIMIT) is kind
    assert timers._thread is not first
    assert len(timers) == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_last_timer_leaves_a_driver_that_starts_again(timers, quiet, kind):
    hold = Hold(timers)
    thread = timers._thread
    timers.call_later(0, fail, kind())
    hold.leave.set()
    thread.join(LIMIT)
    assert quiet.get(timeout=LIMIT) is kind
    assert timers._thread is None
    flush(timers)


def test_each_of_many_interrupts_is_survived(timers, quiet):
    calls = []
    for number in range(20):
        timers.call_later(0, fail, KeyboardInterrupt())
        timers.call_later(0, calls.append, number)
    done = threading.Event()
    timers.call_later(0.01, done.set)
    assert done.wait(LIMIT)
    assert calls == list(range(20))
    assert [quiet.get(timeout=LIMIT) for _ in calls] == [KeyboardInterrupt] * 20


def test_a_callback_may_cancel_siblings_that_are_due_with_it(timers):
    calls, hold = [], Hold(timers)
    results = []
    timers.call_later(0, lambda: results.extend(sibling.cancel() for sibling in siblings))
    siblings = [timers.call_later(0, calls.append, number) for number in range(10)]
    timers.call_later(0, lambda: results.append(len(timers)))
    hold.leave.set()
    flush(timers)
    assert calls == []
    assert results[:10] == [True] * 10
    assert results[10] <= 1  # no more than the one of flush
    assert all(sibling.cancelled() for sibling in siblings)


def test_a_callback_may_reset_its_own_timer(timers):
    calls, done = [], threading.Event()

    def again():
        calls.append(timer.active())
        if len(calls) < 5:
            assert timer.reset(0.001)
        else:
            done.set()

    hold = Hold(timers)
    timer = timers.call_later(0, again)
    hold.leave.set()
    assert done.wait(LIMIT)
    flush(timers)
    assert calls == [False] * 5
    assert not timer.reset()


def test_a_periodic_timer_runs_until_its_callback_cancels_it(timers):
    calls, done = [], threading.Event()

    def tick():
        calls.append(1)
        if len(calls) == 5:
            assert timer.cancel()
            done.set()

    hold = Hold(timers)
    timer = timers.call_every(0.001, tick)
    hold.leave.set()
    assert done.wait(LIMIT)
    flush(timers)
    assert len(calls) == 5
    assert len(timers) == 0


def test_a_callback_that_drives_its_driver_gets_an_error(pywheel):
    errors = []
    with pywheel.ThreadTimers(on_error=lambda _, error: errors.append(error)) as timers:
        timers.call_later(0, timers._run)
        flush(timers)
    [error] = errors
    assert isinstance(error, RuntimeError)


def test_a_coroutine_function_as_callback_is_an_error_that_says_who_takes_it(pywheel):
    async def callback():
        raise AssertionError

    errors = []
    with pywheel.ThreadTimers(on_error=lambda _, error: errors.append(error)) as timers:
        timers.call_later(0, callback)
        flush(timers)
    [error] = errors
    assert isinstance(error, TypeError)
    assert "AsyncTimers" in str(error)


def test_stop_returns_the_timers_that_did_not_fire_by_deadline(timers):
    far, near = timers.call_later(2000, fail, 2), timers.call_later(1000, fail, 1)
    gone = timers.call_later(1500, fail)
    gone.cancel()
    assert timers.stop() == [near, far]
    assert (near.callback, near.args) == (fail, (1,))
    assert not near.active()
    assert len(timers) == 0


def test_stop_waits_for_the_callback_that_is_running(timers):
    order, hold = [], Hold(timers)
    stopper = threading.Thread(target=lambda: order.append(("stopped", timers.stop())))
    stopper.start()
    assert order == []
    thread = timers._thread
    order.append("leave")
    hold.leave.set()
    stopper.join(LIMIT)
    assert order == ["leave", ("stopped", [])]
    assert not thread.is_alive()


def test_stop_waits_no_longer_than_its_timeout(timers):
    hold = Hold(timers)
    left = timers.call_later(0, fail)
    assert timers.stop(0.001) == [left]
    assert not hold.leave.is_set()
    hold.leave.set()
    assert timers.stop() == []


def test_a_callback_may_stop_its_driver(pywheel):
    timers, results = pywheel.ThreadTimers(), []
    hold = Hold(timers)
    thread = timers._thread
    timers.call_later(0, lambda: results.append(timers.stop()))
    sibling = timers.call_later(0, fail, AssertionError())
    later = timers.call_later(1000, fail)
    hold.leave.set()
    thread.join(LIMIT)
    assert results == [[sibling, later]]
    assert timers.stopped


def test_stop_may_be_called_twice_and_before_the_first_timer(pywheel):
    timers = pywheel.ThreadTimers()
    assert timers.stop() == []
    assert timers.stop() == []
    assert timers._thread is None


def test_a_stopped_driver_refuses_timers(pywheel, timers):
    timer = timers.call_later(1000, fail)
    timers.stop()
    for schedule in (timers.call_later, timers.call_at, timers.call_every):
        with pytest.raises(pywheel.TimersStopped):
            schedule(1, fail)
    with pytest.raises(pywheel.TimersStopped):
        timer.reset()
    with pytest.raises(pywheel.TimersStopped):
        timer.reschedule(0)
    assert not timer.cancel()
    assert len(timers) == 0


def test_a_running_callback_cannot_reset_its_timer_when_the_driver_was_stopped(pywheel):
    errors = []
    timers = pywheel.ThreadTimers(on_error=lambda _, error: errors.append(type(error)))
    entered, leave = threading.Event(), threading.Event()

    def callback():
        entered.set()
        leave.wait(LIMIT)
        timer.reset()

    hold = Hold(timers)
    timer = timers.call_later(0, callback)
    hold.leave.set()
    assert entered.wait(LIMIT)
    assert timers.stop(0) == []
    leave.set()
    timers._thread.join(LIMIT)
    assert errors == [pywheel.TimersStopped]


def test_leaving_a_with_block_stops_the_driver(pywheel):
    with pywheel.ThreadTimers() as timers:
        timer = timers.call_later(1000, fail)
    assert timers.stopped
    assert not timer.active()
    assert not timers._thread.is_alive()


def test_another_drivers_callback_may_stop_a_driver(pywheel):
    results, done = [], threading.Event()
    with pywheel.ThreadTimers() as one, pywheel.ThreadTimers() as other:
        left = one.call_later(1000, fail)
        other.call_later(0, lambda: (results.append(one.stop()), done.set()))
        assert done.wait(LIMIT)
    assert results == [[left]]


def test_a_callback_runs_in_the_context_it_was_given(timers):
    variable, seen = ContextVar("variable"), []
    context = copy_context()
    context.run(variable.set, "its own")
    timers.call_later(0, lambda: seen.append(variable.get()), context=context)
    flush(timers)
    assert seen == ["its own"]
