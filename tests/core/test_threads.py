"""Several threads on one wheel: each timer comes out once, from any thread."""

import gc
import sys
import threading
from collections import Counter
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from pywheel import WheelFull
from tests.timers.crowd import Crowd

THREADS = 4
TIMERS = 1500


class Ledger:
    """What became of each timer. A list per thread: appending needs no lock."""

    def __init__(self, wheel):
        self.wheel = wheel
        self.scheduled, self.cancelled, self.expired = Counter(), Counter(), Counter()
        self.schedulers = THREADS
        self.lock = threading.Lock()

    def record(self, counter, names):
        with self.lock:
            counter.update(names)

    def run_scheduler(self, scheduler, thread):
        try:
            scheduler(self, thread)
        finally:
            with self.lock:
                self.schedulers -= 1

    def assert_each_once(self):
        self.wheel._check()
        assert len(self.wheel) == 0
        assert set(self.scheduled.values()) == {1}
        assert self.cancelled + self.expired == self.scheduled


def scheduler(ledger, thread):
    """Schedules; moves and cancels some on the way."""
    wheel, cancelled = ledger.wheel, []
    mine = []
    for number in range(TIMERS):
        name = thread * TIMERS + number
        handle = wheel.schedule(wheel.now + number % 400, name)
        mine.append((handle, name))
        if number % 3 == 0:
            handle, name = mine[number // 2]
            wheel.reschedule(handle, wheel.now + number % 700)
        if number % 5 == 0:
            handle, name = mine[number // 3]
            if wheel.cancel(handle):
                cancelled.append(name)
        if number % 100 == 0:
            for handle in wheel:
                wheel.get(handle)
                wheel.deadline(handle)
                break
            wheel.next_deadline()
    ledger.record(ledger.scheduled, [name for _, name in mine])
    ledger.record(ledger.cancelled, cancelled)


def bulk_scheduler(ledger, thread):
    wheel = ledger.wheel
    names = np.arange(thread * TIMERS, (thread + 1) * TIMERS)
    for batch in np.split(names, 15):
        handles = wheel.schedule_many(wheel.now + batch % 400, batch)
        wheel.reschedule_many(handles[::3], wheel.now + batch[::3] % 700)
        found = wheel.cancel_many(handles[::2])
        ledger.record(ledger.scheduled, batch.tolist())
        ledger.record(ledger.cancelled, batch[::2][found].tolist())
        one = wheel.schedule(wheel.now + 3, -int(batch[0]) % 2**64)
        ledger.record(ledger.scheduled, [-int(batch[0]) % 2**64])
        if wheel.cancel(one):
            ledger.record(ledger.cancelled, [-int(batch[0]) % 2**64])


def advancer(ledger, limit, *, many=False):
    wheel, expired, rounds = ledger.wheel, [], 10**5  # far more than it takes once all are scheduled
    while rounds and (ledger.schedulers or len(wheel)):
        if not ledger.schedulers:
            rounds -= 1
        try:
            if many:
                expired += wheel.advance_many(wheel.now + 1, limit).tolist()
            else:
                expired += wheel.advance(wheel.now + 1, limit)
        except ValueError:
            pass  # the other advancer was faster
    ledger.record(ledger.expired, expired)


@pytest.mark.usefixtures("restless")
def test_each_timer_expires_or_is_cancelled_once_with_many_threads_on_one_wheel(any_wheel_class):
    ledger = Ledger(any_wheel_class())
    schedulers = [partial(ledger.run_scheduler, scheduler, thread) for thread in range(THREADS)]
    advancers = [partial(advancer, ledger, None), partial(advancer, ledger, 7)]
    if hasattr(any_wheel_class, "advance_many"):
        ledger.schedulers += THREADS - 1
        schedulers += [partial(ledger.run_scheduler, bulk_scheduler, THREADS + thread) for thread in range(1, THREADS)]
        advancers += [partial(advancer, ledger, None, many=True), partial(advancer, ledger, 50, many=True)]
    Crowd().run(*schedulers, *advancers)
    ledger.assert_each_once()


@pytest.mark.usefixtures("restless")
def test_one_timer_cancelled_by_many_threads_is_cancelled_once(any_wheel_class):
    wheel = any_wheel_class()
    handles = [wheel.schedule(10 + number, number) for number in range(500)]
    won = [0] * THREADS

    def cancel_all(thread):
        won[thread] = sum(wheel.cancel(handle) for handle in handles)

    Crowd().run(*(lambda thread=thread: cancel_all(thread) for thread in range(THREADS)))
    assert sum(won) == 500
    assert len(wheel) == 0
    wheel._check()


@pytest.mark.usefixtures("restless")
def test_looking_at_a_wheel_while_others_change_it_is_safe(any_core):
    wheel = any_core.KeyWheel()
    done = threading.Event()

    def change():
        for number in range(300):
            wheel.schedule_many([wheel.now + 5] * 20, range(20))
            wheel.advance_many(wheel.now + number % 9)
            if number % 50 == 0:
                wheel.clear()
            if number % 70 == 0:
                wheel.__init__(number)
        done.set()

    def look():
        while not done.is_set():
            for handle in wheel:
                assert wheel.get(handle, 0) in range(20)
            assert len(wheel) >= 0
            bound = wheel.next_deadline()
            assert bound is None or bound >= 0
            assert sys.getsizeof(wheel) > 0
            wheel._check()

    Crowd().run(change, look, look)
    wheel._check()


@pytest.mark.usefixtures("restless")
def test_items_that_several_threads_release_are_released_once(any_core):
    wheel, released = any_core.TimingWheel(), []

    class Counted:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            released.append(self.name)
            wheel.schedule(wheel.now + 1, None)

    handles = [wheel.schedule(10, Counted(name)) for name in range(600)]
    expired = []
    Crowd().run(
        lambda: [wheel.cancel(handle) for handle in handles[::2]],
        lambda: [wheel.cancel(handle) for handle in handles[::3]],
        lambda: expired.extend(item for _ in range(200) for item in wheel.advance(10, 3)),
    )
    expired.clear()
    assert len(released) == len(set(released))
    wheel.clear()
    gc.collect()  # without a GIL, the thread that made an item is the one that frees it
    assert sorted(released) == list(range(600))
    wheel.clear()
    wheel._check()


def test_a_wheel_that_others_fill_and_empty_meanwhile_is_full_and_never_out_of_memory(wheel_class):
    for _ in range(10):
        wheel = wheel_class(max_pending=1)

        def work(wheel=wheel):
            for number in range(2 * TIMERS):
                with suppress(WheelFull):
                    assert wheel.cancel(wheel.schedule(5, number)) is True

        Crowd().run(*[work] * THREADS)
        assert len(wheel) == 0
