"""ThreadTimers: the actions that callbacks may take, and their effects."""

import math
import threading
from datetime import timedelta
from queue import SimpleQueue

import pytest

from tests.jobs.waiting import LIMIT
from tests.timers.crowd import Hold, flush


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


def fail(error):
    raise error


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


@pytest.mark.parametrize("timeout", [math.inf, math.nan, 10**12, "1"])
def test_a_timeout_that_stop_refuses_stops_nothing(timers, timeout):
    timer = timers.call_later(1000, fail)
    with pytest.raises((TypeError, ValueError), match="timeout"):
        timers.stop(timeout)
    assert not timers.stopped
    assert timers.stop(timedelta(days=50_000)) == [timer]  # longer than some systems can wait


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


def test_another_drivers_callback_may_stop_a_driver(pywheel):
    results, done = [], threading.Event()
    with pywheel.ThreadTimers() as one, pywheel.ThreadTimers() as other:
        left = one.call_later(1000, fail)
        other.call_later(0, lambda: (results.append(one.stop()), done.set()))
        assert done.wait(LIMIT)
    assert results == [[left]]
