"""ThreadTimers against many threads: each timer fires or is cancelled, once."""

import threading
from collections import Counter
from contextlib import suppress

import pytest

from tests.jobs.waiting import LIMIT
from tests.timers.crowd import Crowd, Hold

pytestmark = pytest.mark.usefixtures("restless")
THREADS = 4


@pytest.fixture
def timers(pywheel):
    with pywheel.ThreadTimers() as driver:
        yield driver


def drain(driver):
    """Return when nothing is pending, and no callback is running."""
    idle = False
    while not idle:
        done, idle = threading.Event(), not len(driver)  # the last callback may run yet: the next one comes after it
        driver.call_later(0.001, done.set)
        assert done.wait(LIMIT)


def test_first_timers_from_many_threads_start_one_thread(pywheel):
    fired = []
    for _ in range(30):
        fired.clear()
        before = set(threading.enumerate())
        with pywheel.ThreadTimers(name="only one") as timers:
            Crowd().run(*[lambda: timers.call_later(0, lambda: fired.append(threading.get_ident()))] * 8)
            drain(timers)
            mine = [thread for thread in set(threading.enumerate()) - before if thread.name == "only one"]
            assert len(mine) == 1
        assert len(fired) == 8
        assert len(set(fired)) == 1


def test_each_timer_fires_once_or_is_cancelled_while_threads_schedule_reset_and_cancel(timers):
    fired = Counter()  # the driver's thread alone writes to it
    cancelled, moved = [[Counter() for _ in range(THREADS)] for _ in range(2)]

    def callback(name):
        fired[name] += 1

    def work(thread):
        mine = []
        for number in range(1000):
            name = thread * 1000 + number
            mine.append((timers.call_later(number % 7 * 0.0005, callback, name), name))
            timer, name = mine[number // 2]
            if number % 3 == 0:
                moved[thread][name] += timer.reset(number % 5 * 0.0005)
            if number % 11 == 0:
                moved[thread][name] += timer.reschedule(timers.time())
            if number % 5 == 0:
                timer, name = mine[number - number % 17 % (number + 1)]
                cancelled[thread][name] += timer.cancel()
            if number % 100 == 0:
                timers.pending()

    Crowd().run(*(lambda thread=thread: work(thread) for thread in range(THREADS)))
    drain(timers)
    ends, moves = sum(cancelled, Counter()) + fired, sum(moved, Counter())
    assert set(ends) == set(range(1000 * THREADS))
    again = {name for name, times in ends.items() if times > 1}
    assert all(ends[name] <= 1 + moves[name] for name in again)  # those that were moved while their callback ran
    assert len(timers) == 0


def test_a_cancel_from_another_thread_while_the_batch_runs_wins_or_loses(timers):
    fired = []
    for _ in range(10):
        fired.clear()
        hold = Hold(timers)
        batch = [timers.call_later(0, fired.append, number) for number in range(1000)]
        assert len(timers) == 1000
        hold.leave.set()
        won = [number for number in reversed(range(1000)) if batch[number].cancel()]
        drain(timers)
        assert sorted(fired + won) == list(range(1000))
        assert [timer.cancelled() for timer in batch] == [number in set(won) for number in range(1000)]
        assert len(timers) == 0


def test_a_driver_stopped_while_threads_schedule_gives_back_what_did_not_fire(pywheel):
    for _ in range(10):
        timers, fired, accepted, left = pywheel.ThreadTimers(), [], [[] for _ in range(THREADS)], []
        early = threading.Semaphore(0)

        def work(mine, timers=timers, fired=fired, early=early):
            try:
                for number in range(10**6):
                    mine.append(timers.call_later(number % 3 * 0.001, fired.append, None))
                    if number == 20:
                        early.release()
            except pywheel.TimersStopped:
                pass

        def stop(timers=timers, left=left, early=early):
            for _ in range(THREADS):
                assert early.acquire(timeout=LIMIT)
            left.extend(timers.stop(LIMIT))

        Crowd().run(stop, *(lambda mine=mine, work=work: work(mine) for mine in accepted))
        everything = [timer for mine in accepted for timer in mine]
        assert len(fired) + len(left) == len(everything)
        assert set(left) <= set(everything)
        assert len(timers) == 0
        assert not any(timer.active() for timer in everything)


def test_stop_while_the_thread_is_being_started_is_no_error(pywheel):
    for _ in range(200):
        timers = pywheel.ThreadTimers()

        def schedule(timers=timers):
            with suppress(pywheel.TimersStopped):
                timers.call_later(0, int)

        Crowd().run(schedule, timers.stop)
        thread = timers._thread
        assert thread is None or not thread.is_alive()
