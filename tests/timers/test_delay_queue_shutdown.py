"""Threads that wait for room in a DelayQueue, for all tasks to be done, or for nothing any more."""

import queue
import sys
from collections import Counter

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
