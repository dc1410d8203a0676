"""A worker with a bound on its running jobs, of any topics, and topics beside each other."""

import asyncio
import threading

import pytest

from pywheel import BadOption, Limit, Tally, Worker
from pywheel.jobs import State
from tests.jobs.waiting import finished, until, working
from tests.worker.held import Held


def test_no_more_coroutines_and_threads_together_run_than_the_worker_may(live_queue):
    held = Held(live_queue, "thread")
    running, most, gate = set(), [], threading.Event()

    @live_queue.handler("coroutine")
    async def coroutine(job):
        running.add(job.id)
        while not gate.is_set():
            most.append(len(running) + held.running)
            await asyncio.sleep(0.001)
        running.discard(job.id)

    ids = [live_queue.put(topic) for _ in range(10) for topic in ("thread", "coroutine")]
    with working(live_queue, concurrency=3):
        until(lambda: len(running) + held.running == 3)
        gate.set()
        held.let_go()
        for id in ids:
            finished(live_queue, id)
    assert max(most) <= 3


@pytest.mark.usefixtures("patient")
def test_a_full_worker_claims_nothing_that_cannot_begin(live_queue):
    held = Held(live_queue, "a", "b")
    quick = live_queue.put_many(live_queue.job("a") for _ in range(200))
    held.let_go("a", jobs=200)
    with working(live_queue, concurrency=2):
        for id in quick:  # a topic whose jobs are quick: its pool may hold many, if the worker is not told how many run
            finished(live_queue, id)
        ids = live_queue.put_many(live_queue.job(topic) for _ in range(50) for topic in "ab")
        until(lambda: held.running == 2)
        for _ in range(50):
            counts = live_queue.topics.counts()
            assert counts["a"].running + counts["b"].running == 2
        held.let_go()
        until(lambda: live_queue.topics.counts()["a"].done == 250 and live_queue.topics.counts()["b"].done == 50)
    assert {live_queue.get(id).claims for id in ids} == {1}, "some were claimed, and given back"


def test_what_is_due_longest_has_the_next_place(live_queue):
    held = Held(live_queue, "a", "b", "c", "d")
    with working(live_queue, concurrency=1):
        live_queue.put("a")
        until(lambda: held.running == 1)
        jobs = [live_queue.put(topic, delay=(n + 1) / 100) for n, topic in enumerate("dbca")]
        until(lambda: live_queue.store.clock.wall() > live_queue.get(jobs[-1]).due)
        held.let_go()
        until(lambda: len(held.begun) == 5)
    assert [job.topic for job in held.begun] == list("adbca")


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_backlog_of_one_topic_starves_no_other(live_queue, concurrency):
    held = Held(live_queue, "backlog", "b", "c")
    live_queue.put_many(live_queue.job("backlog") for _ in range(150))
    with working(live_queue, concurrency=concurrency):
        until(lambda: held.running == concurrency)
        others = [live_queue.put(topic) for topic in "bcbc"]
        held.let_go()
        for id in others:
            finished(live_queue, id)
        until(lambda: live_queue.topics.counts()["backlog"].done == 150)
    last = max(place for place, job in enumerate(held.begun) if job.topic != "backlog")
    assert last < 30, "they waited for the backlog"


def test_within_a_topic_the_highest_priority_has_the_next_place(live_queue):
    held, seen = Held(live_queue, "first"), []
    live_queue.handler("t")(lambda job: seen.append(job.priority))
    with working(live_queue, concurrency=1):
        live_queue.put("first")
        until(lambda: held.running == 1)
        for priority in (0, -1, 5, 3):
            live_queue.put("t", priority=priority)
        held.let_go()
        until(lambda: len(seen) == 4)
    assert seen == [5, 3, 0, -1]


@pytest.mark.parametrize(("most", "ttr"), [(1, "1h"), (2, 0.2)])
def test_a_hung_topic_takes_no_more_places_than_its_own_concurrency_and_none_beyond_its_ttr(live_queue, most, ttr):
    held = Held(live_queue, "hung", concurrency=most, ttr=ttr)
    live_queue.handler("b")(lambda job: None)
    live_queue.put_many(live_queue.job("hung") for _ in range(10))
    with working(live_queue, concurrency=2):
        until(lambda: held.running == most)
        ids = live_queue.put_many(live_queue.job("b") for _ in range(20))
        assert {finished(live_queue, id).state for id in ids} == {State.DONE}
        assert held.running == most, "they hang still, and no others beside them"
        held.let_go()


def test_limits_of_the_whole_store_hold_beside_it(live_queue):
    held = Held(live_queue, "limited", limit=Limit(1, per=":"), concurrency=8)
    live_queue.handler("free")(lambda job: None)
    for n in range(12):
        live_queue.put("limited", key=f"{n % 2}:{n}")
    with working(live_queue, concurrency=3):
        until(lambda: held.running == 2)
        for _ in range(5):
            finished(live_queue, live_queue.put("free"))
        assert held.running == 2
        held.let_go()
        until(lambda: live_queue.topics.counts()["limited"].done == 12)
    assert max(held.beside) == 1


def test_schedules_are_planned_by_a_worker_all_of_whose_places_are_taken(live_queue):
    held = Held(live_queue, "hung")
    live_queue.put("hung")
    with working(live_queue, concurrency=1):
        until(lambda: held.running == 1)
        live_queue.schedules.set("later", "tick", every="1s")
        until(lambda: "tick" in live_queue.topics.counts())
        held.let_go()


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3", 10_001])
def test_what_is_no_number_of_jobs_is_refused(live_queue, wrong):
    live_queue.handler("t")(print)
    with pytest.raises(BadOption, match="concurrency must be a whole number from 1 to 10000"):
        Worker(live_queue, concurrency=wrong)


# ---- topics do not hinder each other ---------------------------------------------------------------------------------


def test_a_large_backlog_of_a_slow_topic_does_not_hold_up_another(live_queue):
    gate = threading.Event()
    live_queue.handler("slow", concurrency=2)(lambda job: gate.wait(0.01))
    live_queue.handler("quick")(lambda job: None)
    with working(live_queue) as worker:
        for _ in range(5):
            live_queue.put_many(live_queue.job("slow") for _ in range(1_000))
        for n in range(50):
            assert finished(live_queue, live_queue.put("quick", n, delay=0.01)).state is State.DONE
        assert live_queue.topics.counts()["slow"].delayed > 1_000, "the backlog was gone: this showed nothing"
        gate.set()
        worker.stop()


def test_topics_share_their_threads(live_queue):
    before = threading.active_count()
    for n in range(200):
        live_queue.handler(f"t{n}", concurrency=8)(lambda job: None)
    with working(live_queue):
        ids = live_queue.put_many(live_queue.job(f"t{n % 200}", delay=n / 1000) for n in range(600))
        for id in ids:
            finished(live_queue, id)
        assert threading.active_count() - before < 50


def test_what_a_pool_holds_is_bounded_by_bytes(live_queue):
    gate, held = threading.Event(), []
    live_queue.handler("t", concurrency=1)(lambda job: gate.wait(60) and None)
    with working(live_queue, max_bytes=1 << 20) as worker:
        live_queue.put_many(live_queue.job("t") for _ in range(100))  # quick and small: the pool may hold many
        gate.set()
        until(lambda: live_queue.topics.counts()["t"].done == 100)
        gate.clear()
        live_queue.put_many(live_queue.job("t", b"x" * (1 << 18)) for _ in range(40))
        until(lambda: live_queue.topics.counts()["t"].running)
        held.append(worker.dispatcher._leases.bytes)
        gate.set()
        until(lambda: live_queue.topics.counts()["t"].done == 140)
    assert held[0] <= 2 << 20


def test_what_finished_is_forgotten_as_fast_as_jobs_finish(live_queue):
    live_queue.handler("t")(lambda job: None)
    with working(live_queue, keep=0.05):
        for _ in range(5):
            live_queue.put_many(live_queue.job("t") for _ in range(1_000))
        until(lambda: live_queue.topics.counts()["t"].delayed == 0 and sum(live_queue.topics.counts()["t"]) <= 1)


def test_a_paused_topic_has_no_backlog(live_queue):
    gate, tally = threading.Event(), Tally()
    live_queue.events.listen(tally)
    live_queue.handler("t", concurrency=1)(lambda job: gate.wait(0.01) and None)
    live_queue.put_many(live_queue.job("t") for _ in range(5_000))
    with working(live_queue) as worker:
        until(lambda: tally.gauge("backlog", "t") > 0)
        live_queue.topics.pause("t")
        until(lambda: tally.gauge("backlog", "t") == 0)
        assert live_queue.topics.counts()["t"].delayed > 1_000, "the backlog was gone: this showed nothing"
        gate.set()
        worker.stop()
