"""A worker with a bound on its running jobs, of any topics."""

import asyncio
import threading

import pytest

from pywheel import BadOption, Fixed, Limit, Worker
from pywheel.jobs import State
from tests.jobs.waiting import finished, until, working


class Gated:
    """Handlers that wait until they may end; what has begun, in order, and how many ran at once."""

    def __init__(self, queue, *topics, **options):
        self.began, self.running, self.most = [], 0, 0
        self.gates = {topic: threading.Semaphore(0) for topic in topics}
        self._mutex = threading.Lock()
        for topic in topics:
            queue.handler(topic, **{"retry": Fixed("1h"), **options})(self.handle)

    def handle(self, job):
        with self._mutex:
            self.began.append(job.topic)
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.gates[job.topic].acquire(timeout=60)
        with self._mutex:
            self.running -= 1

    def open(self, *topics, jobs=1_000):
        """Let so many jobs of topics end."""
        for topic in topics:
            self.gates[topic].release(jobs)


def test_no_more_coroutines_and_threads_together_run_than_the_worker_may(live_queue):
    gated = Gated(live_queue, "thread")
    running, most, gate = set(), [], threading.Event()

    @live_queue.handler("coroutine")
    async def coroutine(job):
        running.add(job.id)
        while not gate.is_set():
            most.append(len(running) + gated.running)
            await asyncio.sleep(0.001)
        running.discard(job.id)

    ids = [live_queue.put(topic) for _ in range(10) for topic in ("thread", "coroutine")]
    with working(live_queue, concurrency=3):
        until(lambda: len(running) + gated.running == 3)
        gate.set()
        gated.open("thread")
        for id in ids:
            finished(live_queue, id)
    assert max(most) <= 3


def test_a_full_worker_claims_nothing_that_cannot_begin(live_queue):
    gated = Gated(live_queue, "a", "b")
    quick = live_queue.put_many(live_queue.job("a") for _ in range(200))
    gated.open("a", jobs=200)
    with working(live_queue, concurrency=2):
        for id in quick:  # a topic whose jobs are quick: its pool may hold many, if the worker is not told how many run
            finished(live_queue, id)
        ids = live_queue.put_many(live_queue.job(topic) for _ in range(50) for topic in "ab")
        until(lambda: gated.running == 2)
        for _ in range(50):
            counts = live_queue.topics.counts()
            assert counts["a"].running + counts["b"].running == 2
        gated.open("a", "b")
        until(lambda: live_queue.topics.counts()["a"].done == 250 and live_queue.topics.counts()["b"].done == 50)
    assert {live_queue.get(id).claims for id in ids} == {1}, "some were claimed, and given back"


def test_what_is_due_longest_has_the_next_place(live_queue):
    gated = Gated(live_queue, "a", "b", "c", "d")
    with working(live_queue, concurrency=1):
        live_queue.put("a")
        until(lambda: gated.running == 1)
        jobs = [live_queue.put(topic, delay=(n + 1) / 100) for n, topic in enumerate("dbca")]
        until(lambda: live_queue.store.clock.wall() > live_queue.get(jobs[-1]).due)
        gated.open(*"abcd")
        until(lambda: len(gated.began) == 5)
    assert gated.began == list("adbca")


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_backlog_of_one_topic_starves_no_other(live_queue, concurrency):
    gated = Gated(live_queue, "backlog", "b", "c")
    live_queue.put_many(live_queue.job("backlog") for _ in range(500))
    with working(live_queue, concurrency=concurrency):
        until(lambda: gated.running == concurrency)
        others = [live_queue.put(topic) for topic in "bcbc"]
        gated.open("backlog", "b", "c")
        for id in others:
            finished(live_queue, id)
        until(lambda: live_queue.topics.counts()["backlog"].done == 500)
    last = max(place for place, topic in enumerate(gated.began) if topic != "backlog")
    assert last < 30, "they waited for the backlog"


def test_within_a_topic_the_highest_priority_has_the_next_place(live_queue):
    gated, seen = Gated(live_queue, "first"), []
    live_queue.handler("t")(lambda job: seen.append(job.priority))
    with working(live_queue, concurrency=1):
        live_queue.put("first")
        until(lambda: gated.running == 1)
        for priority in (0, -1, 5, 3):
            live_queue.put("t", priority=priority)
        gated.open("first")
        until(lambda: len(seen) == 4)
    assert seen == [5, 3, 0, -1]


@pytest.mark.parametrize(("most", "ttr"), [(1, "1h"), (2, 0.2)])
def test_a_hung_topic_takes_no_more_places_than_its_own_concurrency_and_none_beyond_its_ttr(live_queue, most, ttr):
    gated = Gated(live_queue, "hung", concurrency=most, ttr=ttr)
    live_queue.handler("b")(lambda job: None)
    live_queue.put_many(live_queue.job("hung") for _ in range(10))
    with working(live_queue, concurrency=2):
        until(lambda: gated.running == most)
        ids = live_queue.put_many(live_queue.job("b") for _ in range(20))
        assert {finished(live_queue, id).state for id in ids} == {State.DONE}
        assert gated.running == most, "they hang still, and no others beside them"
        gated.open("hung")


def test_limits_of_the_whole_store_hold_beside_it(live_queue):
    gated = Gated(live_queue, "limited", limit=Limit(1, per=":"), concurrency=8)
    live_queue.handler("free")(lambda job: None)
    for n in range(12):
        live_queue.put("limited", key=f"{n % 2}:{n}")
    with working(live_queue, concurrency=3):
        until(lambda: gated.running == 2)
        for _ in range(5):
            finished(live_queue, live_queue.put("free"))
        assert gated.running == 2
        gated.open("limited")
        until(lambda: live_queue.topics.counts()["limited"].done == 12)
    assert gated.most == 2


def test_schedules_are_planned_by_a_worker_all_of_whose_places_are_taken(live_queue):
    gated = Gated(live_queue, "hung", ttr="1h")
    live_queue.put("hung")
    with working(live_queue, concurrency=1):
        until(lambda: gated.running == 1)
        live_queue.schedules.set("later", "tick", every="1s")
        until(lambda: "tick" in live_queue.topics.counts())
        gated.open("hung")


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3", 10_001])
def test_what_is_no_number_of_jobs_is_refused(live_queue, wrong):
    live_queue.handler("t")(print)
    with pytest.raises(BadOption, match="concurrency must be a whole number from 1 to 10000"):
        Worker(live_queue, concurrency=wrong)
