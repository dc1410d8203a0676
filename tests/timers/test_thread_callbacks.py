"""ThreadTimers: the actions that callbacks may take, and their effects."""

import threading
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


def test_another_drivers_callback_may_stop_a_driver(pywheel):
    results, done = [], threading.Event()
    with pywheel.ThreadTimers() as one, pywheel.ThreadTimers() as other:
        left = one.call_later(1000, fail)
        other.call_later(0, lambda: (results.append(one.stop()), done.set()))
        assert done.wait(LIMIT)
    assert results == [[left]]
