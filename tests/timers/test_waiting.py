"""Waiting for a delay queue, by threads for the one and tasks for the other: who wakes, when, and with what."""

import asyncio
import queue
import sys
from collections import Counter

import pytest

from tests.timers.queues import Tasks, Threads


@pytest.fixture(params=["threads", "asyncio", "uvloop"])
def at(request, pywheel):
    """What makes queues, and has threads or tasks wait for them."""
    made = Threads(pywheel) if request.param == "threads" else Tasks(pywheel, request.param)
    yield made
    made.close()


@pytest.fixture
def q(at, clock):
    """A queue without a limit, on a clock that stands still."""
    return at.make(clock=clock)


def all_shut(at, results):
    return {type(result) for result in results} == {at.ShutDown}


# ---- when one that waits gets what -----------------------------------------------------------------------------------


def test_get_waits_until_the_item_is_due(at, q, clock):
    q.put_nowait("a", 10)
    group = at.start(q, 1, "get")
    for _ in range(4):
        clock.advance(2.49)
        group.reach(0)
    clock.advance(0.04)
    assert group.join() == ["a"]


@pytest.mark.parametrize("how", ["put", "reschedule"])
def test_an_item_for_sooner_wakes_who_waits_for_a_later_one(at, how):
    q = at.make()
    handle = at.do(q.put_nowait, "later", 3600)
    group = at.start(q, 1, "get")
    if how == "put":
        at.do(q.put_nowait, "sooner", 0.001)
    else:
        assert at.do(q.reschedule, handle, 0.001)
    assert group.join() == ["sooner" if how == "put" else "later"]


def test_a_far_deadline_does_not_overflow_the_sleep(at):
    q = at.make()
    at.do(q.put_nowait, "in 140 years", 140 * 365 * 86_400)
    group = at.start(q, 2, "get")
    for _ in range(2):
        at.do(q.put_nowait, "now")
    assert group.join() == ["now", "now"]


def test_an_item_wakes_one_that_waits(at, q):
    group = at.start(q, 5, "get")
    for number in range(5):
        q.put_nowait(number)
        assert sorted(group.reach(number + 1)) == list(range(number + 1))
    assert group.in_vain() == 0


def test_an_item_for_later_and_the_removal_of_one_wake_nobody(at):
    q = at.make()
    handle = at.do(q.put_nowait, "a", 1000)
    group = at.start(q, 3, "get")
    at.do(q.put_nowait, "b", 2000)
    assert at.do(q.remove, handle)
    group.reach(0)
    assert group.in_vain() == 0
    at.do(q.shutdown, True)
    assert all_shut(at, group.join())


def test_items_due_at_one_time_wake_one_each(at, q, clock):
    group = at.start(q, 5, "get")
    for number in range(3):
        q.put_nowait(number, 5)
    clock.advance(5)
    assert sorted(group.reach(3)) == [0, 1, 2]
    q.put_nowait(3)
    q.put_nowait(4)
    assert sorted(group.join()) == [0, 1, 2, 3, 4]


# ---- room, join, shutdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["get", "remove"])
def test_each_item_that_goes_lets_one_waiting_put_in(at, clock, how):
    q = at.make(2, clock)
    handles = [q.put_nowait(number) for number in range(2)]
    group = at.start(q, 3, "put", "more")
    for number in range(2):
        if how == "get":
            assert q.get_nowait() == number
        else:
            assert q.remove(handles[number])
        group.reach(number + 1)
        assert q.full()
    assert [at.call(q.get) for _ in range(3)] == ["more"] * 3
    group.join()


def test_a_delay_counts_from_when_the_item_got_in(at, clock):
    q = at.make(1, clock)
    q.put_nowait("a")
    group = at.start(q, 1, "put", "b", 5)
    clock.advance(100)
    assert q.get_nowait() == "a"
    group.join()
    clock.advance(4)
    assert q.ready() == 0
    clock.advance(1)
    assert q.get_nowait() == "b"


def test_join_waits_for_every_task(at, q):
    at.call(q.join)
    q.put_nowait("a")
    handle = q.put_nowait("b", 5)
    group = at.start(q, 2, "join")
    q.get_nowait()
    q.task_done()
    group.reach(0)
    q.remove(handle)
    group.join()
    q.put_nowait("a")
    group = at.start(q, 2, "join")
    q.get_nowait()
    q.task_done()
    group.join()


def test_an_immediate_shutdown_ends_join(at, q):
    q.put_nowait("a", 5)
    group = at.start(q, 2, "join")
    q.shutdown(immediate=True)
    group.join()


def test_shut_down_is_the_standard_librarys_where_it_has_one(pywheel):
    if sys.version_info >= (3, 13):
        assert (pywheel.ShutDown, pywheel.QueueShutDown) == (queue.ShutDown, asyncio.QueueShutDown)
    else:
        assert issubclass(pywheel.ShutDown, Exception)
        assert issubclass(pywheel.QueueShutDown, Exception)


@pytest.mark.parametrize("immediate", [False, True])
def test_shutting_down_wakes_all_who_wait(at, clock, immediate):
    empty, full = at.make(clock=clock), at.make(1, clock)
    full.put_nowait("a", 3600)
    groups = [at.start(empty, 3, "get"), at.start(full, 3, "put", "b")]
    for q, group in zip((empty, full), groups, strict=True):
        q.shutdown(immediate)
        assert all_shut(at, group.join())


def test_what_is_delayed_comes_out_after_a_shutdown_when_it_is_due_and_then_all_hear_of_it(at, q, clock):
    q.put_nowait("a", 5)
    q.put_nowait("b", 10)
    group = at.start(q, 5, "get")
    q.shutdown()
    group.reach(0)
    clock.advance(5)
    assert group.reach(1) == ["a"]
    clock.advance(5)
    assert Counter(map(type, group.join())) == {str: 2, at.ShutDown: 3}


@pytest.mark.parametrize("how", ["remove", "get"])
def test_when_the_last_item_goes_after_a_shutdown_all_wake(at, how):
    q = at.make()
    handle = at.do(q.put_nowait, "a", 3600)
    q.shutdown()
    group = at.start(q, 4, "get")

    def take():
        with q._lock:  # before any of them gets it
            q.reschedule(handle, 0)
            assert q.get_nowait() == "a"

    at.do(take) if how == "get" else at.do(q.remove, handle)
    assert all_shut(at, group.join())
