"""Leases, several workers, and a store that goes away, on the real clock."""

import logging
import threading
from unittest.mock import Mock

from pywheel import Fixed, JobQueue
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Expired
from pywheel.testing import FaultyStore
from pywheel.worker.dispatcher import Dispatcher
from pywheel.worker.leases import Quarantine
from tests.jobs.waiting import finished, state, until, working

# ---- leases ---------------------------------------------------------------------------------------------------------


def test_a_handler_longer_than_its_ttr_loses_its_job_and_the_winner_stands(live_queue, metrics):
    gate = threading.Event()

    @live_queue.handler("t", ttr=1, concurrency=4, retry=Fixed("300ms", attempts=3))
    def handle(job):
        if job.attempt == 1:
            gate.wait(60)

    with working(live_queue):
        id = live_queue.put("t")
        assert finished(live_queue, id).attempt == 2
        gate.set()
        until(lambda: metrics.counters["lease_lost", "t"] == 1)
    lost, done = live_queue.jobs.history(id)
    assert (lost.outcome, done.outcome) == (Outcome.LOST, Outcome.DONE)
    assert done.started - lost.ended >= 300  # as the policy says


def test_a_handler_may_keep_its_lease_for_as_long_as_it_runs(queue, clock):
    @queue.handler("t", ttr=600, keep_lease=True)
    def handle(job):
        for _ in range(3):
            before = queue.get(job).lease_until
            clock.advance(400)
            queue.put("other")  # which wakes the worker
            until(lambda: queue.get(job).lease_until > before)  # noqa: B023

    queue.handler("other")(lambda job: None)
    with working(queue):
        job = finished(queue, queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_handler_may_touch_its_job(queue, clock):
    @queue.handler("t", ttr=600)
    def handle(job):
        assert queue.touch(job, "1h")
        clock.advance(1_200)
        finished(queue, queue.put("other"))  # the worker has looked at its leases since

    queue.handler("other")(lambda job: None)
    with working(queue):
        job = finished(queue, queue.put("t"))
    assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_suspects_probation_counts_from_the_answer_to_its_claim():
    quarantine, suspect = Quarantine(), Mock(claimed=10.0, ttr=60_000)
    suspect.job.attempt = 2
    assert quarantine.room(13.0) == 1
    quarantine.begin(suspect, 13.0)  # the answer was under way for three seconds
    assert quarantine.room(13.2) == 0
    assert quarantine.free_at(13.2) == 13.25
    assert quarantine.room(13.3) == 1


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


def test_thousands_of_lost_leases_are_ended_without_a_look_round_in_between(queue, clock, monkeypatch):
    """A look is made a few times a second: the last ones would be due again only after a while."""
    ended, apply, look = [], queue.store.apply, Dispatcher._look_round

    def applied(commands):
        outcomes = apply(commands)
        ended.extend(outcome.ended for outcome in outcomes if isinstance(outcome, Expired))
        return outcomes

    monkeypatch.setattr(queue.store, "apply", applied)
    monkeypatch.setattr(Dispatcher, "_look_round", lambda *words: None if any(ended) else look(*words))
    queue.handler("t", retry=Fixed(0, attempts=9))(lambda job: None)
    queue.put_many([queue.job("x") for _ in range(900)])
    queue.reserve("x", 900)
    clock.advance(1)
    id = queue.put("t")
    queue.reserve("t")
    clock.advance(120)
    with working(queue):
        until(lambda: sum(ended) == 901)
        clock.advance(60)
        assert finished(queue, id).state == State.DONE
