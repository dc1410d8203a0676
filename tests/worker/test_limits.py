"""Priorities and limits, at work."""

import itertools
import os
import threading
import time

import pytest

from pywheel import BadJob, BadOption, JobQueue, Limit, Worker
from pywheel.jobs.commands import ClaimPolicy, Expire, Reserve
from pywheel.stores.memory import MemoryStore
from tests.jobs.waiting import finished, until, working
from tests.worker.held import Held
from tests.worker.limited import most_at_once

STEP = 128  # jobs that a worker claims at once beside other topics, such as that of schedules


def done(queue, topic="t"):
    return queue.topics.counts()[topic].done


# ---- priorities -----------------------------------------------------------------------------------------------------


def test_a_job_of_higher_priority_overtakes_a_backlog(live_queue):
    held = Held(live_queue, "t", concurrency=2)
    live_queue.put_many(live_queue.job("t") for _ in range(3_000))
    with working(live_queue) as worker:
        until(lambda: held.running == 2)
        low = live_queue.put("t", priority=1)
        high = live_queue.put("t", priority=9)
        held.let_go()
        until(lambda: low in held.ids())
        worker.stop()
    order = held.ids()
    # Earlier claims may come first: no more than run at once, and as many again.
    assert order.index(high) < order.index(low) <= 2 + 2 + 1_000


@pytest.mark.parametrize("priority", [10, -10, 1.5, True, "1", None])
def test_a_priority_is_a_whole_number_from_minus_9_to_9(queue, priority):
    with pytest.raises(BadJob, match="priority must be a whole number from -9 to 9"):
        queue.put("t", priority=priority)


# ---- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [60, 0.01])
def test_behind_a_group_that_is_larger_than_a_page_others_begin_and_it_keeps_its_order(live_queue, seconds):
    gate, order = threading.Event(), []

    def handle(job):
        order.append((job.key, job.claims))
        if job.key.startswith("a:"):
            gate.wait(seconds)

    live_queue.handler("t", concurrency=4, limit=Limit(1, per=":"))(handle)
    live_queue.put_many(live_queue.job("t", key=f"a:{n:05}") for n in range(3_000))
    others = live_queue.put_many(live_queue.job("t", key=f"b{n}:") for n in range(5))
    with working(live_queue) as worker:
        for id in others:
            finished(live_queue, id)
        gate.set()
        until(lambda: len(order) > 300)
        worker.stop()
    begun = sorted({key for key, _ in order if key.startswith("a:")})
    passed = sorted({f"a:{n:05}" for n in range(int(begun[-1][2:]))} - {*begun})
    assert all(live_queue.get(("t", key)).claims for key in passed), "not only what a busy machine gave back"
    at_first = [key for key, claims in order if key.startswith("a:") and claims == 1]  # a busy machine gives some back
    assert at_first == sorted(at_first)


def test_jobs_of_a_full_group_begin_though_all_behind_them_have_begun(live_queue):
    order = []
    live_queue.handler("t", concurrency=8, limit=Limit(1, per=":"))(lambda job: order.append(job.key))
    live_queue.put("t", key="a:before")
    [[before]] = live_queue.store.apply([Reserve("t", 1, ClaimPolicy(10**7, 3), "another worker")])
    live_queue.put_many(live_queue.job("t", key=f"a:{n}") for n in range(STEP))
    live_queue.put("t", key="b:0", delay=0.001)
    with working(live_queue) as worker:
        until(lambda: order == ["b:0"])
        live_queue.ack(before)
        until(lambda: len(order) > 1)
        worker.stop()


def test_jobs_that_may_have_killed_their_process_make_none_behind_them_wait(live_queue):
    gate, order = threading.Event(), []

    def handle(job):
        order.append(job.body)
        if job.body == b"suspect":
            gate.wait(60)

    live_queue.handler("t", concurrency=2, limit=4, ttr=60)(handle)
    live_queue.put_many(live_queue.job("t", b"suspect") for _ in range(2))
    for _ in range(5):  # with each attempt it is on trial for longer
        live_queue.store.apply([Reserve("t", 2, ClaimPolicy(1, 9), "dead")])
        until(lambda: live_queue.store.apply([Expire(9)])[0].next_lease is None)
    live_queue.put_many(live_queue.job("t", b"other", delay=0.001) for _ in range(5))
    with working(live_queue):
        until(lambda: order.count(b"other") == 5)
        assert order.count(b"suspect") == 1
        gate.set()
        until(lambda: done(live_queue) == 7)


@pytest.mark.parametrize("limit", [1, Limit(1, per=":")])
def test_what_comes_first_with_another_worker_is_next_though_this_one_has_all_places(live_queue, limit):
    numbers = itertools.count()

    def job(priority):
        return live_queue.job("t", key=f"group:{next(numbers)}", priority=priority)

    @live_queue.handler("t", limit=limit, concurrency=4)
    def handle(job_):
        time.sleep(0.005)
        if job_.priority == 0:  # a backlog that has no end
            live_queue.put_many([job(0), job(0), job(0)])

    live_queue.put_many([job(0) for _ in range(50)])
    with working(live_queue), working(live_queue):
        until(lambda: live_queue.topics.counts()["t"].done > 20)
        for id in live_queue.put_many([job(9) for _ in range(16)]):  # some of them are the other one's
            finished(live_queue, id)


def test_several_stores_refuse_a_limit_when_the_worker_is_made():
    class Several(MemoryStore):
        keeps_limits = False

    with JobQueue(Several()) as queue:
        queue.handler("t", limit=1)(print)
        with pytest.raises(BadOption, match="limit= and rate= of 't' want one store"):
            Worker(queue)


@pytest.mark.stress
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_workers_that_are_killed_never_run_more_than_the_limit(tmp_path):
    assert most_at_once(f"sqlite:///{tmp_path}/jobs.db", tmp_path, 2) <= 2
