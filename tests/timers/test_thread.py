"""ThreadTimers: when its thread begins, sleeps, wakes and ends."""

import gc
import threading
import time
import weakref
from contextlib import suppress

import pytest

from tests.interrupts import at_each_place, interrupt, traced
from tests.jobs.waiting import until
from tests.timers.crowd import GUARD, Hold, flush


@pytest.fixture
def timers(pywheel):
    with pywheel.ThreadTimers() as driver:
        yield driver


class Sleeps:
    """Counts how often a driver's thread falls asleep, and for how long it means to."""

    def __init__(self, driver):
        self.lengths = []
        self.changed = threading.Condition()
        self._sleep = driver._bell.sleep
        driver._bell.sleep = self.sleep

    def sleep(self, seconds):
        with self.changed:
            self.lengths.append(seconds)
            self.changed.notify_all()
        self._sleep(seconds)

    def wait_for(self, number):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.lengths) >= number, GUARD)


def wait_for_the_end(thread, gone=lambda: None):
    """Wait until a thread has ended and its driver is gone. Not by `join`.

    Without a GIL, what this thread made and another let go of last goes when this one runs again.
    """
    until(lambda: not thread.is_alive() and gone() is None)


def test_a_timer_fires_once_in_the_drivers_own_thread_with_its_arguments(timers):
    calls, done = [], threading.Event()
    timers.call_later(0.001, lambda *args: calls.append((threading.current_thread(), args)), 1, 2)
    timers.call_later(0.002, done.set)
    assert done.wait(GUARD)
    [(thread, args)] = calls
    assert args == (1, 2)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_no_thread_is_started_before_the_first_timer(pywheel):
    before = set(threading.enumerate())
    with pywheel.ThreadTimers(name="idle") as timers:
        assert timers.pending() == []
        assert timers.next_deadline() is None
        assert set(threading.enumerate()) - before == set()
        timers.call_later(100, print)
        [thread] = set(threading.enumerate()) - before
        timers.call_later(50, print)
        assert set(threading.enumerate()) - before == {thread}
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["call_later", "reset", "reschedule"])
def test_a_sooner_timer_added_while_it_sleeps_wakes_it(timers, how):
    sleeps, done = Sleeps(timers), threading.Event()
    timer = timers.call_later(40_000, done.set)
    sleeps.wait_for(1)
    if how == "reschedule":
        assert timer.reschedule(timers.time())
    else:
        assert timers.call_later(0.001, done.set) if how == "call_later" else timer.reset(0.001)
    assert done.wait(GUARD)


def test_a_later_timer_added_while_it_sleeps_does_not_wake_it(timers):
    sleeps = Sleeps(timers)
    timers.call_later(20_000, print)
    sleeps.wait_for(1)
    for _ in range(100):
        timers.call_later(30_000, print).cancel()
    flush(timers)  # wakes it twice; and a few may have come just before it slept
    sleeps.wait_for(2)
    assert len(sleeps.lengths) <= 20


def test_it_sleeps_until_the_next_deadline_and_does_not_poll(timers):
    sleeps, done = Sleeps(timers), threading.Event()
    for number in range(1, 11):
        timers.call_later(0.01 * number, done.set if number == 10 else int)
    assert done.wait(GUARD)
    # two for each timer, as the wheel may have it wake once on the way, and those for the ring of each sooner one
    assert len(sleeps.lengths) <= 30


def test_a_timer_never_fires_early(timers):
    early, done = [], threading.Semaphore(0)

    def check(due):
        if time.monotonic() < due:
            early.append(due)
        done.release()

    for number in range(500):
        delay = (number % 50) * 0.0007
        timers.call_later(delay, check, time.monotonic() + delay)
        when = time.monotonic() + delay
        timers.call_at(when, check, when)
    for _ in range(1000):
        assert done.acquire(timeout=GUARD)
    assert early == []


def test_a_zero_delay_timer_that_rearms_itself_lets_others_fire_and_the_driver_stop(pywheel):
    calls, others = [], []
    timers = pywheel.ThreadTimers()
    done = threading.Event()

    def again():
        calls.append(1)
        timers.call_later(0, again)

    timers.call_later(0, again)
    for number in range(10):
        timers.call_later(0.002 * number, others.append, number)
    timers.call_later(0.03, done.set)
    assert done.wait(GUARD)
    assert others == list(range(10))
    [left] = timers.stop(GUARD)
    assert left.callback is again
    assert len(calls) > 1


def test_a_hundred_thousand_due_at_once_do_not_keep_it_from_being_stopped(pywheel):
    timers, calls = pywheel.ThreadTimers(), []
    hold = Hold(timers)
    for number in range(10_000):
        timers.call_later(0, calls.append, number)
    timers.call_later(0, calls.append, "last")
    stopper = threading.Thread(target=lambda: calls.append(timers.stop(GUARD)))
    stopper.start()
    until(lambda: timers.stopped)
    hold.leave.set()
    stopper.join(GUARD)
    [left] = calls  # none of them ran
    assert len(left) == 10_001
    assert len(timers) == 0


def test_one_dropped_with_nothing_pending_lets_its_thread_end(pywheel):
    timers = pywheel.ThreadTimers()
    timers.call_later(0, int)
    flush(timers)
    thread, gone = timers._thread, weakref.ref(timers)
    del timers
    wait_for_the_end(thread, gone)


def test_one_dropped_when_its_timers_are_cancelled_lets_its_thread_end_soon(pywheel, monkeypatch):
    monkeypatch.setitem(pywheel.ThreadTimers._work.__globals__, "LONGEST_SLEEP", 0.01)
    timers = pywheel.ThreadTimers()
    timers.call_later(40_000, int).cancel()
    thread = timers._thread
    del timers
    wait_for_the_end(thread)


def test_one_dropped_with_timers_pending_still_fires_them(pywheel):
    calls, done = [], threading.Event()
    timers = pywheel.ThreadTimers()
    timers.call_later(0.05, calls.append, 1)
    timers.call_later(0.06, done.set)
    gone = weakref.ref(timers)
    del timers
    gc.collect()
    assert done.wait(GUARD)
    assert calls == [1]
    until(lambda: gc.collect() >= 0 and gone() is None)


def test_one_dropped_before_its_thread_has_looked_at_it_still_fires(pywheel, monkeypatch):
    run, go, done = threading.Thread.run, threading.Event(), threading.Event()

    def late(thread):
        assert go.wait(GUARD)
        run(thread)

    timers = pywheel.ThreadTimers()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "run", late)
        timers.call_later(0, done.set)
        thread, gone = timers._thread, weakref.ref(timers)
        del timers
        gc.collect()
        go.set()
        assert done.wait(GUARD)
        wait_for_the_end(thread, gone)


def test_one_whose_timers_are_cancelled_as_it_falls_asleep_fires_later_ones_when_it_is_dropped(pywheel):
    asleep, done = threading.Event(), threading.Event()

    class Cancelled(pywheel.ThreadTimers):
        def _work(self):
            seconds = super()._work()
            for timer in self.pending():
                if timer.callback is print:
                    timer.cancel()
                    asleep.set()
            return seconds

    timers = Cancelled()
    timers.call_later(0.2, print)
    assert asleep.wait(GUARD)
    timers.call_later(0.3, done.set)  # the thread wakes before: nobody rings
    thread, gone = timers._thread, weakref.ref(timers)
    del timers
    gc.collect()
    assert done.wait(GUARD)
    wait_for_the_end(thread, gone)


def test_a_thread_that_cannot_be_started_is_an_error_and_the_next_timer_tries_again(timers, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            timers.call_later(0, int)
        assert len(timers) == 0
    flush(timers)


@pytest.mark.stress
def test_a_thread_whose_start_was_interrupted_is_not_relied_upon(timers, monkeypatch):
    begin, done = threading.Thread.start, threading.Event()

    def interrupted(thread):
        begin(thread)
        time.sleep(0.02)  # in which it may look at the timers
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            timers.call_later(0.2, int)
    assert len(timers) == 0
    timers.call_later(0.3, done.set)
    assert done.wait(GUARD)


def test_a_timer_scheduled_while_the_thread_fails_to_start_does_not_wait_for_ever(timers, monkeypatch):
    begin, done = threading.Thread.start, threading.Event()
    second = threading.Thread(target=lambda: timers.call_later(0, done.set))

    def refuse(_):
        monkeypatch.setattr(threading.Thread, "start", begin)
        second.start()
        until(lambda: len(timers) == 2)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="start new thread"):
        timers.call_later(0, int)
    second.join(GUARD)
    assert done.wait(GUARD)


def test_a_clock_that_breaks_is_logged_and_tried_again(pywheel, monkeypatch, caplog):
    monkeypatch.setitem(pywheel.ThreadTimers._work.__globals__, "PAUSE", 0.001)

    class Clock(pywheel.Clock):
        broken = False

        def time_ns(self):
            if self.broken and threading.current_thread().name == "pywheel-timers":
                raise OSError("no clock")
            return time.monotonic_ns()

    clock, done = Clock(), threading.Event()
    with pywheel.ThreadTimers(clock=clock) as timers:
        clock.broken = True
        timers.call_later(0, done.set)
        thread = timers._thread
        until(lambda: "no clock" in caplog.text)
        clock.broken = False
        assert done.wait(GUARD)
        assert timers._thread is thread
    assert not thread.is_alive()


def test_an_interrupt_at_any_place_of_the_start_leaves_a_driver_that_the_next_timer_starts(pywheel):
    for intrusion in at_each_place("timers/_thread.py", interrupt):
        timers, done = pywheel.ThreadTimers(), threading.Event()
        with suppress(KeyboardInterrupt), traced(intrusion):
            timers.call_later(0.001, int)
        timers.call_later(0.002, done.set)
        assert done.wait(GUARD), f"interrupted: {intrusion}"
        timers.stop(GUARD)
