"""Several threads on one driver that is run by hand; test_thread_races has more of them on one with a thread."""

import contextlib
import threading

import pytest

from tests.timers.crowd import Crowd

pytestmark = pytest.mark.usefixtures("restless")
THREADS = 4
TIMERS = 400


def test_a_timer_that_several_threads_reset_while_its_callback_runs_is_in_the_wheel_once(timers, clock):
    lengths, called, finished = [], threading.Event(), []

    def callback():
        lengths.append(len(timers))
        called.set()
        timer.reset(0)

    timer = timers.call_later(0, callback)

    def reset():
        assert called.wait(60)  # or all of it might be over before the driver's first turn
        for number in range(TIMERS):
            timer.reset(number % 3 / 1000)
            timer.when(), timer.active(), timer.callback, timer.args
        finished.append(True)

    def drive():
        while len(finished) < THREADS:
            clock.jump(0.001)
            timers.run_due(50)

    Crowd().run(drive, *[reset] * THREADS)
    assert max(lengths) <= 1
    assert len(timers) <= 1


def test_one_thread_at_a_time_may_run_a_driver(timers):
    inside, leave = threading.Event(), threading.Event()
    timers.call_later(0, lambda: (inside.set(), leave.wait(60)))

    def other():
        inside.wait(60)
        with pytest.raises(RuntimeError, match="running"):
            timers.run_due()
        leave.set()

    Crowd().run(timers.run_due, other)


def test_a_clock_moves_on_if_another_thread_begins_to_run_the_driver_in_that_moment(pywheel, clock):
    free, inside, leave = threading.Event(), threading.Event(), threading.Event()

    class Overtaken(pywheel.Timers):
        def _run_for_clock(self):
            free.set()
            assert inside.wait(60)
            return super()._run_for_clock()

    def other():
        assert free.wait(60)
        timers.run_due()

    def move():
        try:
            clock.advance(0)
        finally:
            leave.set()

    timers = Overtaken(clock)
    timers.call_later(1, lambda: (inside.set(), leave.wait(60)))
    clock.jump(1)
    assert Crowd().run(move, other) == [None, None]
    assert len(timers) == 0


def test_threads_that_run_a_driver_at_once_never_leave_it_running(pywheel):
    timers, together = pywheel.Timers(), threading.Barrier(THREADS)

    def drive():
        together.wait(60)
        for _ in range(200 * TIMERS):
            with contextlib.suppress(RuntimeError):
                timers.run_due()

    Crowd().run(*[drive] * THREADS)
    timers.call_at(0, int)
    assert timers.run_due() == 1


def test_what_stop_returns_was_not_called_and_will_not_be(pywheel):
    for _ in range(30):
        clock, called, left = pywheel.ManualClock(), set(), []
        timers = pywheel.Timers(clock)

        def callback(number, called=called):
            for _ in range(100):  # so that the turn takes longer than the stop
                called.add(number)

        made = {timers.call_later(0.001, callback, number): number for number in range(5 * TIMERS)}
        clock.jump(1)

        def stop(timers=timers, called=called, left=left):
            while not called:
                pass
            left.extend(timers.stop())

        Crowd().run(timers.run_due, stop)
        assert not called & {made[timer] for timer in left}
        assert len(called) + len(left) == len(made)
