"""Limits that an operator sets while workers run."""

import pytest

from pywheel import JobQueue, Limit, StoreAway
from pywheel.jobs.commands import SetNote
from pywheel.jobs.limits import OVERRIDES
from pywheel.jobs.queries import ListNotes
from pywheel.worker import dispatcher, due_times
from tests.asked import when_asked
from tests.jobs.waiting import until, working
from tests.worker.each_store import url
from tests.worker.held import Held

__all__ = ["url"]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 0.02)
    monkeypatch.setattr(due_times, "_LOOK", 3_600_000)  # so no look that comes now and then hides one that is missing


def put(queue, number, prefix="a:"):
    return queue.put_many([queue.job("t", key=f"{prefix}{n}") for n in range(number)])


def works_off(queue, number):
    """Return once so many jobs are done."""
    until(lambda: queue.topics.counts()["t"].done >= number)


def quick(queue, **options):
    """Handle jobs that take a moment: so others run beside them, up to the limit."""
    held = Held(queue, "t", lasts=0.001, concurrency=8, **options)
    held.let_go()
    return held


def heard(worker, most):
    """Return once a worker goes by a limit."""
    topic = worker.dispatcher.topics["t"]
    until(lambda: topic.limits is not None and topic.limits.most == most)


def test_a_limit_that_is_set_holds_between_workers_that_run(live_queue):
    held = quick(live_queue)
    with working(live_queue) as one, working(live_queue) as other:
        assert live_queue.topics.limit("t", limit=2, rate=None)
        heard(one, 2)
        heard(other, 2)
        put(live_queue, 60)
        works_off(live_queue, 60)
    assert max(held.beside) <= 2


def test_what_waits_in_a_pool_when_a_limit_is_set_goes_back_unspent_and_what_runs_goes_on(live_queue):
    held = Held(live_queue, "t", concurrency=4)
    with working(live_queue) as worker:
        worker.dispatcher.topics["t"]._buffer = 100  # as many as a pool of quick handlers may hold
        ids = put(live_queue, 30)
        until(lambda: len(held.begun) == 4)
        live_queue.topics.limit("t", limit=1, rate=None)
        heard(worker, 1)
        until(lambda: live_queue.topics.counts()["t"].running == 4)
        assert sorted(live_queue.get(id).attempt for id in ids) == [0] * 26 + [1] * 4
        held.let_go()
        works_off(live_queue, 30)
    assert held.beside == [1, 2, 3, 4] + [1] * 26


def test_the_limits_of_code_hold_again_once_they_are_asked_for(live_queue):
    held = Held(live_queue, "t", concurrency=8, limit=3)
    put(live_queue, 20)
    live_queue.topics.limit("t", limit=1, rate=None)
    with working(live_queue) as worker:
        until(lambda: held.begun)
        assert live_queue.topics.limit_as_code("t")
        until(lambda: len(held.begun) == 3)
        live_queue.topics.limit("t", limit=None, rate=None)
        until(lambda: len(held.begun) == 8)
        assert live_queue.topics.limit_as_code("t")
        heard(worker, 3)
        held.let_go()
        works_off(live_queue, 20)
    assert held.beside[:8] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert max(held.beside[8:]) <= 3


def test_a_backlog_that_waits_for_a_slow_rate_goes_on_once_that_is_gone(live_queue):
    live_queue.handler("t")(print)
    live_queue.topics.limit("t", limit=None, rate="1/h")
    put(live_queue, 20)
    with working(live_queue):
        works_off(live_queue, 1)
        live_queue.topics.limit_as_code("t")
        works_off(live_queue, 20)


def test_a_limit_by_groups_is_switched_on_and_off_while_a_backlog_waits(live_queue):
    held = Held(live_queue, "t", concurrency=4)
    live_queue.topics.limit("t", limit=1, rate=None)
    with working(live_queue) as worker:
        put(live_queue, 700)
        until(lambda: held.begun)
        put(live_queue, 3, "b:")
        live_queue.topics.limit("t", limit=Limit(1, per=":"), rate=None)
        until(lambda: len(held.begun) == 2)
        live_queue.topics.limit_as_code("t")
        until(lambda: len(held.begun) == 4)
        assert [job.key[0] for job in held.begun] == ["a", "b", "a", "a"]
        live_queue.topics.limit("t", limit=Limit(1, per=":"), rate=None)
        heard(worker, 1)
        held.let_go()
        works_off(live_queue, 40)
    assert set(held.beside[4:]) == {1}


def test_a_worker_that_starts_knows_what_was_set_before_its_first_claim(live_queue, monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 600)
    held = quick(live_queue)
    live_queue.topics.limit("t", limit=1, rate=None)
    put(live_queue, 20)
    with working(live_queue):
        works_off(live_queue, 20)
    assert set(held.beside) == {1}


def test_a_worker_that_cannot_ask_what_was_set_claims_nothing_until_it_can(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 600)
    with JobQueue("memory:") as queue:
        held, failed = quick(queue), []
        queue.topics.limit("t", limit=1, rate=None)
        put(queue, 20)

        def away(query):
            if query.prefix == OVERRIDES and len(failed) < 3:
                failed.append(len(held.begun))
                raise StoreAway("it is away")

        when_asked(monkeypatch, queue.store, ListNotes, away)
        with working(queue):
            works_off(queue, 20)
        assert failed == [0, 0, 0]
        assert set(held.beside) == {1}


@pytest.mark.parametrize("note", [b"", b"\xff", b"{", b"7", b'["many", null, null]', b'[1, 2, 3, 4, "more"]'])
def test_a_note_that_cannot_be_read_leaves_the_limits_of_code(note):
    with JobQueue("memory:") as queue:
        held = quick(queue, limit=2)
        queue.store.apply([SetNote(f"{OVERRIDES}t", note)])
        put(queue, 20)
        with working(queue):
            works_off(queue, 20)
        assert max(held.beside) <= 2
        assert queue.topics.limits("t") is None
