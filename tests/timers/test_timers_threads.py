"""Several threads on one driver: each timer is called once, or cancelled once, whoever touched it last."""

import contextlib
import threading
from collections import Counter

import pytest

from tests.timers.crowd import Crowd

pytestmark = pytest.mark.usefixtures("restless")
THREADS = 4
TIMERS = 400


class Bench:
    """Threads that work on timers, and one that runs them until the others are done."""

    def __init__(self, pywheel, workers, **options):
        self.clock = pywheel.ManualClock()
        self.errors = []
        self.timers = pywheel.Timers(self.clock, on_error=lambda timer, error: self.errors.append(error), **options)
        self.left = workers
        self.lock = threading.Lock()

    def work(self, function):
        def run():
            try:
                function()
            finally:
                with self.lock:
                    self.left -= 1

        return run

    def drive(self):
        while self.left:
            self.clock.jump(0.001)
            self.timers.run_due(50)

    def run(self, *functions):
        Crowd().run(self.drive, *map(self.work, functions))
        self.clock.advance(1)
        assert self.errors == []


def test_each_timer_is_called_or_cancelled_once(pywheel):
    bench, called, cancelled, moved = Bench(pywheel, THREADS), [], [], set()
    made = [[] for _ in range(THREADS)]

    def worker(thread):
        def run():
            timers, mine = bench.timers, made[thread]
            for number in range(TIMERS):
                name = thread, number
                mine.append((name, timers.call_later(number % 50 / 1000, called.append, name)))
                for others in made:
                    if number % 3 == 0 and others:
                        found, timer = others[number // 2 % len(others)]
                        moved.add(found)
                        timer.reset(number % 7 / 1000)  # if its callback is running, it is called once more
                    if number % 5 == 0 and others:
                        found, timer = others[number // 3 % len(others)]
                        if timer.cancel():
                            cancelled.append(found)
                if number % 50 == 0:
                    timers.pending(), len(timers), timers.next_deadline(), repr(mine[-1][1])

        return run

    bench.run(*map(worker, range(THREADS)))
    assert len(bench.timers) == 0
    outcomes = Counter(called + cancelled)
    assert set(outcomes) == {(thread, number) for thread in range(THREADS) for number in range(TIMERS)}
    assert all(count == 1 for name, count in outcomes.items() if name not in moved)
    assert max(Counter(cancelled).values()) == 1


def test_a_timer_that_several_threads_reset_while_its_callback_runs_is_in_the_wheel_once(pywheel):
    bench, lengths, called = Bench(pywheel, THREADS), [], threading.Event()

    def callback():
        lengths.append(len(bench.timers))
        called.set()
        timer.reset(0)

    timer = bench.timers.call_later(0, callback)

    def reset():
        assert called.wait(60)  # or all of it might be over before the driver's first turn
        for number in range(TIMERS):
            timer.reset(number % 3 / 1000)
            timer.when(), timer.active(), timer.callback, timer.args

    Crowd().run(bench.drive, *[bench.work(reset)] * THREADS)
    assert max(lengths) <= 1
    assert len(bench.timers) <= 1
    assert bench.errors == []


def test_one_thread_at_a_time_may_run_a_driver(pywheel):
    bench, refused = Bench(pywheel, 1), []
    inside, leave = threading.Event(), threading.Event()

    def hold():
        inside.set()
        leave.wait(60)

    bench.timers.call_later(0, hold)

    def other():
        inside.wait(60)
        try:
            bench.timers.run_due()
        except RuntimeError as error:
            refused.append(str(error))
        leave.set()

    Crowd().run(bench.timers.run_due, other)
    assert len(refused) == 1
    assert "running" in refused[0]


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
