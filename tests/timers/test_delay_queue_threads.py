"""Threads that wait for a DelayQueue: which one wakes, when, and with what; those that give up, or are interrupted."""

import queue
import random
import signal
import threading
import time
from collections import Counter
from functools import partial
from itertools import chain

import pytest

from tests.jobs.waiting import until
from tests.timers.crowd import Crowd, restless
from tests.timers.queues import waiting, watched


@pytest.fixture
def make(pywheel):
    """Makes queues that count their sleepers."""
    return lambda maxsize=0, clock=None: watched(pywheel)(maxsize, clock=clock)


@pytest.fixture
def q(make, clock):
    """One without a limit, on a clock that stands still."""
    return make(clock=clock)


def test_an_item_for_later_makes_one_thread_wait_for_it_and_a_sooner_one_wakes_that(q):
    crowd = waiting(q, 8, q.get)
    naps = q.naps
    for delay in (1000, 500, 100):
        q.put("later", delay)
        naps += 1
        until(lambda: q.naps == naps and q.sleepers() == 8)  # noqa: B023
    q.put("later still", 2000)
    assert len(q._leader._waiters) == 1  # it sleeps on
    q.put("now")
    until(lambda: crowd.done() == 1 and q.naps == naps + 1 and q.sleepers() == 7)  # another waits for 100
    q.shutdown(immediate=True)
    assert Counter(map(repr, crowd.join())) == {"'now'": 1, "ShutDown()": 7}


@pytest.mark.parametrize("maxsize", [0, 3])
def test_each_item_comes_out_once_and_not_early_however_many_threads_pull_at_it(pywheel, maxsize):
    q = pywheel.DelayQueue(maxsize)
    producers, items = 3, 400
    removed = [[] for _ in range(producers)]

    def produce(number):
        rng = random.Random(number)
        handles = []
        for name in range(items):
            delay = rng.choice([0, 0, 0.0001, 0.001, 0.003])
            due = time.monotonic_ns() + delay * 1e9
            handles.append((q.put(((number, name), due), delay), name))
            handle, name = rng.choice(handles[-5:])
            if rng.random() < 0.1 and q.remove(handle):
                removed[number].append((number, name))
            elif rng.random() < 0.2:
                q.reschedule(handle, 0.004)  # later than it was

    def consume(rng):
        got = []
        while True:
            try:
                name, due = q.get(rng.random() < 0.8, rng.choice([None, 0.0001, 0.001]))
            except queue.Empty:
                continue
            except pywheel.ShutDown:
                return got
            assert time.monotonic_ns() >= due
            got.append(name)
            q.task_done()

    consumers = Crowd()
    consumers.start()
    for number in range(4):
        consumers.add(consume, random.Random(number))
    with restless():
        Crowd().run(*(lambda number=number: produce(number) for number in range(producers)))
        q.join()
        q.shutdown()
        got = consumers.join()
    assert q.empty()
    q._wheel._check()
    went = Counter(chain(*got, *removed))
    assert went == dict.fromkeys(((number, name) for number in range(producers) for name in range(items)), 1)


def test_a_finaliser_may_put_while_its_thread_is_within_the_queue(pywheel):
    q = pywheel.DelayQueue()

    class Last:
        def __del__(self):
            q.put("from the finaliser")

    with q._lock:
        Last()
        assert q.get_nowait() == "from the finaliser"


@pytest.fixture(params=["get", "put"])
def vain(request, make, clock):
    """A queue of which one of its methods gets nothing, or cannot put, for now; that method, and what it raises."""
    q = make(1, clock)
    q.put("a", 11)
    return q, *((q.get, queue.Empty) if request.param == "get" else (partial(q.put, "b"), queue.Full))


def test_who_does_not_wait_gets_an_error_at_once(vain):
    q, call, error = vain
    nowait = q.get_nowait if error is queue.Empty else partial(q.put_nowait, "b")
    for at_once in (
        nowait,
        partial(call, block=False),
        partial(call, block=False, timeout=10),
        partial(call, timeout=0),
    ):
        with pytest.raises(error):
            at_once()
    assert q.naps == 0


def test_who_waits_gives_up_after_its_timeout(vain, clock):
    q, call, error = vain
    crowd = waiting(q, 2, lambda: call(timeout=10))
    clock.advance(10)
    assert [type(result) for result in crowd.join()] == [error] * 2
    assert q.qsize() == 1


def test_an_item_due_at_the_end_of_the_timeout_is_got(q, clock):
    q.put("a", 10)
    crowd = waiting(q, 1, lambda: q.get(timeout=10))
    clock.advance(10)
    assert crowd.join() == ["a"]


def test_when_the_thread_that_waits_for_the_next_deadline_gives_up_another_does_so(q, clock):
    q.put("a", 10)
    crowd = waiting(q, 3, lambda: q.get(timeout=5), q.get, q.get)
    naps = q.naps
    clock.advance(5)
    until(lambda: crowd.done() == 1 and q.naps >= naps + 2 and q.sleepers() == 2 and q._leads_until)
    assert clock.time_ns() < q._leads_until <= 10 * 10**9
    clock.advance(5)
    q.put("b")
    first, *rest = crowd.join()
    assert isinstance(first, queue.Empty)
    assert sorted(rest) == ["a", "b"]


class Alarm(Exception):
    """What the signal handler raises."""


@pytest.fixture
def alarm():
    """A function that runs another in a thread, and gives it a third that makes the main thread's wait raise Alarm."""
    if not hasattr(signal, "pthread_kill"):
        pytest.skip("there are no such signals here")

    def ring(signum, frame):
        raise Alarm

    def arrange(prepare):
        main = threading.get_ident()
        crowd = Crowd()
        crowd.start()
        crowd.add(lambda: prepare(lambda: signal.pthread_kill(main, signal.SIGUSR1)))
        return crowd

    before = signal.signal(signal.SIGUSR1, ring)
    yield arrange
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.stress
def test_when_the_thread_that_waits_for_the_next_deadline_is_interrupted_another_does_so(make, alarm):
    q = make()
    handle = q.put("a", 3600)
    crowd = Crowd()
    crowd.start()

    def interrupt(ring):
        until(lambda: q.sleepers() == 1)
        crowd.add(q.get)
        until(lambda: q.sleepers() == 2)
        ring()

    helper = alarm(interrupt)
    with pytest.raises(Alarm):
        q.get()
    helper.join()
    q.reschedule(handle, 0.001)
    assert crowd.join() == ["a"]


@pytest.mark.stress
def test_an_interrupted_put_leaves_its_room_to_the_next(make, alarm):
    q = make(1)
    q.put("a")
    crowd = Crowd()
    crowd.start()

    def interrupt(ring):
        until(lambda: q.sleepers() == 1)
        crowd.add(q.put, "c")
        until(lambda: q.sleepers() == 2)
        with q._lock:
            assert q.get_nowait() == "a"  # which wakes the first,
            ring()  # whom it does not help any more

    helper = alarm(interrupt)
    with pytest.raises(Alarm):
        q.put("b")
    helper.join()
    crowd.join()
    assert q.get_nowait() == "c"


@pytest.mark.parametrize(
    ("timeout", "error"),
    [*((timeout, ValueError) for timeout in (-1, -0.001, float("nan"), 1e12)), ("1", TypeError)],
)
def test_a_timeout_that_is_no_number_of_seconds_to_come_is_refused(make, timeout, error):
    q = make()
    for call in (q.get, partial(q.put, "a")):
        with pytest.raises(error, match="timeout"):
            call(timeout=timeout)
    assert q.empty()
    q.put("a", block=False, timeout=timeout)  # as queue.Queue does
