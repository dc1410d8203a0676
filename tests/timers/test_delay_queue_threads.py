"""Threads that wait for a DelayQueue: who wakes, when, and with what; who gives up, or is interrupted."""

import queue
import random
import signal
import sys
import threading
import time
from collections import Counter
from itertools import chain

import pytest

from tests.isolated.child import run_well
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


# ---- when a waiting thread gets what ---------------------------------------------------------------------------------


def test_get_waits_until_the_item_is_due(q, clock):
    q.put("a", 10)
    crowd = waiting(q, 1, q.get)
    for _ in range(4):
        naps = q.naps
        clock.advance(2.49)
        until(lambda: q.naps == naps + 1 and q.sleepers() == 1)  # noqa: B023
    assert crowd.done() == 0
    clock.advance(0.04)
    assert crowd.join() == ["a"]


def test_get_waits_for_the_system_clock_and_is_never_early(make):
    q = make()
    put = {}
    for delay in (0.003, 0.0011, 0.002, 0.00005, 0):
        put[delay] = time.monotonic_ns()
        q.put(delay, delay)
    got = {q.get(): time.monotonic_ns() for _ in range(5)}
    assert got.keys() == put.keys()
    assert all(got[delay] - put[delay] >= delay * 1e9 for delay in put)


def test_an_item_put_for_sooner_wakes_who_waits_for_a_later_one(make):
    q = make()
    q.put("later", 3600)
    crowd = waiting(q, 1, q.get)
    q.put("sooner", 0.001)
    assert crowd.join() == ["sooner"]


def test_an_item_rescheduled_for_sooner_wakes_who_waits_for_it(make):
    q = make()
    handle = q.put("a", 3600)
    crowd = waiting(q, 1, q.get)
    assert q.reschedule(handle, 0.001)
    assert crowd.join() == ["a"]


def test_a_far_deadline_does_not_overflow_the_sleep(make):
    q = make()
    q.put("in 140 years", 140 * 365 * 86_400)
    crowd = waiting(q, 2, lambda: q.get(timeout=140 * 365 * 86_400 - 1), q.get)
    q.put("now")
    q.put("now")
    assert crowd.join() == ["now", "now"]


def test_a_thread_that_waits_on_an_empty_queue_gets_the_first_item_put(make):
    q = make()
    crowd = waiting(q, 1, q.get)
    q.put("a")
    assert crowd.join() == ["a"]


# ---- how many wake ---------------------------------------------------------------------------------------------------


def test_an_item_wakes_one_thread(make):
    q = make()
    crowd = waiting(q, 8, q.get)
    naps = q.naps
    for number in range(1, 9):
        q.put(number)
        until(lambda: crowd.done() == number and q.sleepers() == 8 - number)  # noqa: B023
    assert q.naps == naps
    assert sorted(crowd.join()) == list(range(1, 9))


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


def test_items_due_at_one_time_wake_a_thread_each(make, clock):
    q = make()
    crowd = waiting(q, 8, q.get)
    with q._lock:  # so that nobody looks before they are all there
        for number in range(8):
            q.put(number)
    assert sorted(crowd.join()) == list(range(8))


def test_removing_an_item_wakes_nobody_who_waits_for_it(make):
    q = make()
    handle = q.put("a", 1000)
    q.put("b", 1001)
    crowd = waiting(q, 3, q.get)
    naps = q.naps
    assert q.remove(handle)
    assert q.reschedule(handle, 1) is False
    assert (q.naps, q.sleepers()) == (naps, 3)
    q.shutdown(immediate=True)
    crowd.join()


@pytest.mark.stress
def test_nobody_looks_at_the_queue_while_there_is_nothing_to_do(make):
    q = make()
    q.put("a", 3600)
    crowd = waiting(q, 4, q.get, lambda: q.get(timeout=3600))
    naps = q.naps
    time.sleep(0.05)
    assert q.naps == naps
    q.shutdown(immediate=True)
    crowd.join()


# ---- many at once ----------------------------------------------------------------------------------------------------


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


FORK = """
import faulthandler, os, threading, time, warnings
from pywheel import DelayQueue
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forking with threads

q = DelayQueue()
q.put("a")
q.put("b", 3600)
held = threading.Event()

def hold():
    with q._lock:
        held.set()
        time.sleep(3600)

for wait in (lambda: DelayQueue.get(q), lambda: DelayQueue.get(q)):
    if q.ready():
        q.get()
    threading.Thread(target=wait, daemon=True).start()
while q._leads_until is None or not q._followers._waiters:
    time.sleep(0.001)
threading.Thread(target=hold, daemon=True).start()
held.wait()
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(20, exit=True)  # a child that hangs says where
    assert q.qsize() == 1
    q.put("c", 0.001)
    assert q.get() == "c"
    threading.Thread(target=q.put, args=("d", 0.001)).start()
    assert q.get() == "d"
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed or hung"
"""


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="there is no fork here")
def test_a_forked_child_has_a_copy_for_which_nobody_waits(pywheel):
    run_well("-c", FORK, PYWHEEL_PURE="1" if pywheel.implementation == "pure" else None)


# ---- room ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["get", "remove"])
def test_each_item_that_goes_lets_one_waiting_put_in(make, how):
    q = make(2)
    handles = [q.put(number) for number in range(2)]
    crowd = waiting(q, 3, lambda: q.put("more", 0))
    for number in range(2):
        if how == "get":
            assert q.get() == number
        else:
            assert q.remove(handles[number])
        until(lambda: crowd.done() == number + 1 and q.sleepers() == 2 - number)  # noqa: B023
        assert q.full()
    assert q.get() == q.get() == q.get() == "more"
    crowd.join()


def test_a_delay_counts_from_when_the_item_got_in(make, clock):
    q = make(1, clock)
    q.put("a")
    crowd = waiting(q, 1, lambda: q.put("b", 5))
    clock.advance(100)
    assert q.get() == "a"
    crowd.join()
    clock.advance(4)
    assert q.ready() == 0
    clock.advance(1)
    assert q.get_nowait() == "b"


# ---- join and shutdown -----------------------------------------------------------------------------------------------


def joining(q):
    """Return a crowd of one that waits in join."""
    crowd = Crowd()
    crowd.start()
    crowd.add(q.join)
    until(lambda: len(q._joiners._waiters) == 1)
    return crowd


def test_join_waits_for_every_task(q):
    q.join()
    q.put("a")
    q.put("b", 5)
    crowd = joining(q)
    q.get()
    q.task_done()
    assert crowd.done() == 0
    q.task_done()
    crowd.join()


def test_removing_the_last_unfinished_item_ends_join(q):
    handle = q.put("a", 5)
    crowd = joining(q)
    q.remove(handle)
    crowd.join()


def test_an_immediate_shutdown_ends_join(q):
    q.put("a", 5)
    crowd = joining(q)
    q.shutdown(immediate=True)
    crowd.join()


def test_shut_down_is_the_standard_librarys_where_it_has_one(pywheel):
    if sys.version_info >= (3, 13):
        assert pywheel.ShutDown is queue.ShutDown
    else:
        assert issubclass(pywheel.ShutDown, Exception)


@pytest.mark.parametrize("immediate", [False, True])
def test_shutting_down_an_empty_queue_wakes_all_who_wait_for_an_item(pywheel, q, immediate):
    crowd = waiting(q, 5, q.get, lambda: q.get(timeout=5))
    q.shutdown(immediate)
    assert {type(result) for result in crowd.join()} == {pywheel.ShutDown}


def test_what_is_delayed_comes_out_after_a_shutdown_when_it_is_due_and_then_all_hear_of_it(pywheel, q, clock):
    q.put("a", 5)
    q.put("b", 10)
    crowd = waiting(q, 5, q.get)
    naps = q.naps
    q.shutdown()
    until(lambda: q.naps == naps + 5 and q.sleepers() == 5)
    clock.advance(5)
    until(lambda: crowd.done() == 1)
    assert list(crowd.results.values()) == ["a"]
    clock.advance(5)
    assert Counter(map(type, crowd.join())) == {str: 2, pywheel.ShutDown: 3}


def test_removing_the_last_item_after_a_shutdown_wakes_all(pywheel, make):
    q = make()
    handle = q.put("a", 3600)
    q.shutdown()
    crowd = waiting(q, 4, q.get)
    q.remove(handle)
    assert {type(result) for result in crowd.join()} == {pywheel.ShutDown}


def test_getting_the_last_item_after_a_shutdown_wakes_all(pywheel, make):
    q = make()
    handle = q.put("a", 3600)
    q.shutdown()
    crowd = waiting(q, 4, q.get)
    with q._lock:
        q.reschedule(handle, 0)
        assert q.get_nowait() == "a"
    assert {type(result) for result in crowd.join()} == {pywheel.ShutDown}


@pytest.mark.parametrize("immediate", [False, True])
def test_a_shutdown_wakes_all_who_wait_for_room(pywheel, make, immediate):
    q = make(1)
    q.put("a", 3600)
    crowd = waiting(q, 3, lambda: q.put("b"))
    q.shutdown(immediate)
    assert {type(result) for result in crowd.join()} == {pywheel.ShutDown}


# ---- threads that give up, or are interrupted ------------------------------------------------------------------------


def test_get_without_waiting_raises_empty(q):
    q.put("a", 5)
    for get in (q.get_nowait, lambda: q.get(block=False), lambda: q.get(False, 10), lambda: q.get(timeout=0)):
        with pytest.raises(queue.Empty):
            get()
    assert q.naps == 0


def test_put_without_waiting_raises_full(make, clock):
    q = make(1, clock)
    q.put("a")
    for put in (q.put_nowait, lambda item: q.put(item, 0, False), lambda item: q.put(item, timeout=0)):
        with pytest.raises(queue.Full):
            put("b")
    assert q.naps == 0


def test_get_gives_up_after_its_timeout(make, q, clock):
    with pytest.raises(queue.Empty):
        make().get(timeout=0.001)
    q.put("a", 11)
    crowd = waiting(q, 2, lambda: q.get(timeout=10))
    clock.advance(10)
    assert [type(result) for result in crowd.join()] == [queue.Empty] * 2
    assert q.qsize() == 1


def test_an_item_due_at_the_end_of_the_timeout_is_got(q, clock):
    q.put("a", 10)
    crowd = waiting(q, 1, lambda: q.get(timeout=10))
    clock.advance(10)
    assert crowd.join() == ["a"]


def test_put_gives_up_after_its_timeout(make, clock):
    q = make(1, clock)
    q.put("a")
    crowd = waiting(q, 2, lambda: q.put("b", timeout=10))
    clock.advance(10)
    assert [type(result) for result in crowd.join()] == [queue.Full] * 2
    assert q.qsize() == 1


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


def test_an_interrupted_reschedule_wakes_whoever_waits_for_the_item(make):
    class Interrupted(type(make()._wheel)):
        """Each reschedule is followed by an interrupt."""

        def reschedule(self, handle, tick):
            super().reschedule(handle, tick)
            raise KeyboardInterrupt

    q = make()
    q._wheel = Interrupted()
    handle = q.put("a", 3600)
    crowd = Crowd()
    crowd.start()
    crowd.add(q.get)
    until(lambda: q.sleepers() == 1)
    with pytest.raises(KeyboardInterrupt):
        q.reschedule(handle, 0)
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


@pytest.mark.parametrize("timeout", [-1, -0.001])
def test_a_negative_timeout_is_a_value_error(make, timeout):
    q = make(1)
    with pytest.raises(ValueError, match="timeout"):
        q.get(timeout=timeout)
    with pytest.raises(ValueError, match="timeout"):
        q.put("a", timeout=timeout)
    assert q.empty()
    q.put("a", block=False, timeout=timeout)  # as queue.Queue does


@pytest.mark.parametrize(("timeout", "error"), [("1", TypeError), (float("nan"), ValueError), (1e12, ValueError)])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(make, timeout, error):
    q = make()
    with pytest.raises(error, match="timeout"):
        q.get(timeout=timeout)
    with pytest.raises(error, match="timeout"):
        q.put("a", timeout=timeout)
    assert q.empty()
