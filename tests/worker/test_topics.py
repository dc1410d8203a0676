"""Topics do not hinder each other, and a job waits for nothing but its due time and a place to run."""

import threading

from pywheel import Tally
from pywheel.jobs import State
from tests.jobs.waiting import finished, until, working


def test_a_large_backlog_of_a_slow_topic_does_not_hold_up_another(live_queue):
    gate = threading.Event()
    live_queue.handler("slow", concurrency=2)(lambda job: gate.wait(0.01))
    live_queue.handler("quick")(lambda job: None)
    with working(live_queue) as worker:
        for _ in range(10):
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
