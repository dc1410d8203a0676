"""Threads that wait for a DelayQueue and give up, or are interrupted."""

import queue
import signal
import threading

import pytest

from tests.jobs.waiting import until
from tests.timers.crowd import Crowd
from tests.timers.queues import waiting, watched


@pytest.fixture
def make(pywheel):
    """Makes queues that count their sleepers."""
    return lambda maxsize=0, clock=None: watched(pywheel)(maxsize, clock=clock)


@pytest.fixture
def q(make, clock):
    """One without a limit, on a clock that stands still."""
    return make(clock=clock)


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
