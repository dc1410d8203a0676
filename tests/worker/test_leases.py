"""Leases, several workers, and a store that goes away, on the real clock."""

import logging
import threading
import time
from unittest.mock import Mock

import pytest

from pywheel import Fixed, JobQueue
from pywheel.jobs import Outcome, State
from pywheel.stores.ownership import ALL
from pywheel.testing import FaultyStore
from pywheel.worker.leases import Quarantine
from tests.jobs.waiting import finished, state, until, working

# ---- leases ---------------------------------------------------------------------------------------------------------


def test_a_handler_longer_than_its_ttr_loses_its_job_and_the_winner_stands(live_queue, metrics):
    gate = threading.Event()

    @live_queue.handler("t", ttr=1, concurrency=4, retry=Fixed(0, attempts=3))
    def handle(job):
        if job.attempt == 1:
            gate.wait(60)

    with working(live_queue):
        id = live_queue.put("t")
        assert finished(live_queue, id).attempt == 2
        gate.set()
        until(lambda: metrics.counters["lease_lost", "t"] == 1)
    assert [attempt.outcome for attempt in live_queue.jobs.history(id)] == [Outcome.LOST, Outcome.DONE]


def test_a_lost_lease_waits_as_the_policy_says(live_queue):
    gate, dues = threading.Event(), []

    @live_queue.handler("t", ttr="50ms", concurrency=4, retry=Fixed("300ms", attempts=3))
    def handle(job):
        dues.append(job.due)
        if job.attempt == 1:
            gate.wait(60)

    with working(live_queue):
        live_queue.put("t")
        until(lambda: len(dues) > 1)
        gate.set()
    assert dues[1] - dues[0] >= 350


def test_a_handler_may_keep_its_lease_for_as_long_as_it_runs(live_queue):
    @live_queue.handler("t", ttr=2, keep_lease=True)
    def handle(job):
        until(lambda: live_queue.get(job).lease_until > job.lease_until + 1_000)

    with working(live_queue):
        job = finished(live_queue, live_queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


@pytest.mark.stress
def test_a_handler_may_touch_its_job(live_queue):
    @live_queue.handler("t", ttr=2)
    def handle(job):
        assert live_queue.touch(job, "1h")
        time.sleep(2.2)

    with working(live_queue):
        job = finished(live_queue, live_queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_suspects_probation_counts_from_the_answer_to_its_claim():
    quarantine, suspect = Quarantine(), Mock(claimed=10.0, ttr=60_000)
    suspect.job.attempt = 2
    assert quarantine.room(13.0) == 1
    quarantine.begin(suspect, 13.0)  # the answer was under way for three seconds
    assert quarantine.room(13.2) == 0
    assert quarantine.free_at(13.2) == 13.25
    assert quarantine.room(13.3) == 1


# ---- several workers ------------------------------------------------------------------------------------------------


def shards(worker):
    return worker.dispatcher._due_times._shards[worker.dispatcher.topics["t"]]


def test_two_workers_share_the_jobs_and_each_is_handled_once(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    seen = []
    with JobQueue(url) as one, JobQueue(url) as two:
        for queue in (one, two):
            queue.handler("t")(lambda job: seen.append(job.id))
        with working(one) as first, working(two) as second:
            until(lambda: shards(first) | shards(second) == ALL and not shards(first) & shards(second))
            ids = one.put_many(one.job("t", delay=n / 1000) for n in range(300))
            until(lambda: one.topics.counts()["t"].done == 300)
        assert sorted(seen) == ids


def test_a_worker_that_goes_leaves_its_shards_to_the_other(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as one, JobQueue(url) as two:
        for queue in (one, two):
            queue.handler("t")(lambda job: None)
        with working(one) as first:
            with working(two):
                until(lambda: 0 < shards(first) < ALL)
            until(lambda: shards(first) == ALL)
            ids = one.put_many(one.job("t") for _ in range(32))
            for id in ids:
                finished(one, id)


@pytest.mark.stress
def test_a_put_from_another_process_rings(tmp_path):
    from tests.isolated.child import run_well

    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue:
        queue.handler("t")(lambda job: None)
        with working(queue):
            code = f"from pywheel import JobQueue; print(JobQueue({url!r}).put('t', delay=0.05))"
            id = int(run_well("-c", code))
            assert finished(queue, id).state is State.DONE


# ---- a store that goes away -----------------------------------------------------------------------------------------


def test_a_worker_survives_a_store_that_goes_away_and_keeps_its_acks(live_queue, metrics, caplog):
    store = FaultyStore(live_queue.store)
    queue = JobQueue(store, listeners=[metrics])
    gate, started = threading.Event(), threading.Event()

    @queue.handler("t", ttr=600)
    def handle(job):
        started.set()
        gate.wait(60)

    with working(queue):
        id = live_queue.put("t")
        assert started.wait(60)
        with caplog.at_level(logging.CRITICAL, "pywheel.jobs"):
            store.away = True
            gate.set()
            until(lambda: metrics.counters["store_error", ""] >= 2)
            assert state(live_queue, id) is State.RUNNING
            store.away = False
            job = finished(live_queue, id)
        assert (job.state, job.attempt) == (State.DONE, 1)
        finished(live_queue, live_queue.put("t"))


def test_an_ack_that_was_committed_but_not_answered_is_no_second_delivery(live_queue, metrics):
    seen, failed = [], []

    def fault(when, ops):
        if when == "after" and not failed and any(type(op).__name__ == "Ack" for op in ops):
            failed.append(True)
            raise OSError("the answer got lost")

    queue = JobQueue(FaultyStore(live_queue.store, fault), listeners=[metrics])
    queue.handler("t")(lambda job: seen.append(job.id))
    with working(queue):
        first = live_queue.put("t")
        until(lambda: failed)
        second = live_queue.put("t")
        finished(live_queue, second)
    assert sorted(seen) == [first, second]
