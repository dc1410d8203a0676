"""Limits that an operator sets while workers run."""

import threading

import pytest

from pywheel import JobQueue, Limit, StoreAway
from pywheel.jobs.commands import SetNote
from pywheel.jobs.limits import OVERRIDES
from pywheel.jobs.queries import ListNotes
from pywheel.worker import dispatcher, due_times
from tests.jobs.waiting import finished, until, working
from tests.worker.each_store import url

__all__ = ["url"]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 0.02)
    monkeypatch.setattr(due_times, "_LOOK", 3_600_000)  # so no look that comes now and then hides one that is missing


class Shop:
    """A handler that counts how many of its calls run at once, and may hold each until it is told to go on."""

    def __init__(self, queue, *, held=False, **options):
        self.queue, self.lock, self.go_on = queue, threading.Lock(), threading.Event()
        self.begun, self.beside, self.now = [], [], {}
        if not held:
            self.go_on.set()
        queue.handler("t", ttr="1h", **options)(self.handle)

    def handle(self, job):
        group = (job.key or "").partition(":")[0]
        with self.lock:
            self.now[group] = self.now.get(group, 0) + 1
            self.begun.append(job.key)
            self.beside.append(self.now[group])
        self.go_on.wait(60)
        with self.lock:
            self.now[group] -= 1

    def put(self, number, prefix=""):
        return self.queue.put_many([self.queue.job("t", key=f"{prefix}{n}") for n in range(number)])

    @property
    def counts(self):
        return self.queue.topics.counts()["t"]


def heard(worker, most):
    """Return once a worker goes by a limit."""
    topic = worker.dispatcher.topics["t"]
    until(lambda: topic.limits is not None and topic.limits.most == most)


def test_a_limit_that_is_set_holds_between_workers_that_run(live_queue):
    shop = Shop(live_queue, concurrency=8)
    with working(live_queue) as one, working(live_queue) as other:
        assert live_queue.topics.limit("t", limit=2, rate=None)
        heard(one, 2)
        heard(other, 2)
        shop.put(60, "a:")
        until(lambda: shop.counts.done == 60)
    assert max(shop.beside) <= 2


def test_what_waits_in_a_pool_when_a_limit_is_set_goes_back_unspent_and_what_runs_goes_on(live_queue):
    shop = Shop(live_queue, held=True, concurrency=4)
    with working(live_queue) as worker:
        worker.dispatcher.topics["t"]._buffer = 100  # as many as a pool of quick handlers may hold
        ids = shop.put(30, "a:")
        until(lambda: len(shop.begun) == 4)
        live_queue.topics.limit("t", limit=1, rate=None)
        heard(worker, 1)
        until(lambda: shop.counts.running == 4)
        assert sorted(live_queue.get(id).attempt for id in ids) == [0] * 26 + [1] * 4
        shop.go_on.set()
        until(lambda: shop.counts.done == 30)
    assert shop.beside == [1, 2, 3, 4] + [1] * 26


def test_the_limits_of_code_hold_again_once_they_are_asked_for(live_queue):
    shop = Shop(live_queue, held=True, concurrency=8, limit=3)
    shop.put(20, "a:")
    live_queue.topics.limit("t", limit=1, rate=None)
    with working(live_queue) as worker:
        until(lambda: shop.begun)
        assert live_queue.topics.limit_as_code("t")
        until(lambda: len(shop.begun) == 3)
        live_queue.topics.limit("t", limit=None, rate=None)
        until(lambda: len(shop.begun) == 8)
        assert live_queue.topics.limit_as_code("t")
        heard(worker, 3)
        shop.go_on.set()
        until(lambda: shop.counts.done == 20)
    assert shop.beside[:8] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert max(shop.beside[8:]) <= 3


def test_a_backlog_that_waits_for_a_slow_rate_goes_on_once_that_is_gone(live_queue):
    shop = Shop(live_queue)
    live_queue.topics.limit("t", limit=None, rate="1/h")
    ids = shop.put(20)
    with working(live_queue):
        finished(live_queue, ids[0])
        live_queue.topics.limit_as_code("t")
        until(lambda: shop.counts.done == 20)


def test_a_limit_by_groups_is_switched_on_and_off_while_a_backlog_waits(live_queue):
    shop = Shop(live_queue, held=True, concurrency=4)
    live_queue.topics.limit("t", limit=1, rate=None)
    with working(live_queue) as worker:
        shop.put(700, "a:")
        until(lambda: shop.begun)
        shop.put(3, "b:")
        live_queue.topics.limit("t", limit=Limit(1, per=":"), rate=None)
        until(lambda: len(shop.begun) == 2)
        assert [key[0] for key in shop.begun] == ["a", "b"]
        live_queue.topics.limit_as_code("t")
        until(lambda: len(shop.begun) == 4)
        assert [key[0] for key in shop.begun] == ["a", "b", "a", "a"]
        live_queue.topics.limit("t", limit=Limit(1, per=":"), rate=None)
        heard(worker, 1)
        shop.go_on.set()
        until(lambda: shop.counts.done >= 40)
    assert set(shop.beside[4:]) == {1}


def test_a_worker_that_starts_knows_what_was_set_before_its_first_claim(live_queue, monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 600)
    shop = Shop(live_queue, concurrency=8)
    live_queue.topics.limit("t", limit=1, rate=None)
    shop.put(20)
    with working(live_queue):
        until(lambda: shop.counts.done == 20)
    assert set(shop.beside) == {1}


def test_a_worker_that_cannot_ask_what_was_set_claims_nothing_until_it_can(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 600)
    with JobQueue("memory:") as queue:
        shop, ask, failed = Shop(queue, concurrency=8), queue.store.ask, []
        queue.topics.limit("t", limit=1, rate=None)
        shop.put(20)

        def away(query):
            if isinstance(query, ListNotes) and query.prefix == OVERRIDES and len(failed) < 3:
                failed.append(len(shop.begun))
                raise StoreAway("it is away")
            return ask(query)

        monkeypatch.setattr(queue.store, "ask", away)
        with working(queue):
            until(lambda: shop.counts.done == 20)
        assert failed == [0, 0, 0]
        assert set(shop.beside) == {1}


@pytest.mark.parametrize("note", [b"", b"\xff", b"{", b"7", b'["many", null, null]', b'[1, 2, 3, 4, "more"]'])
def test_a_note_that_cannot_be_read_leaves_the_limits_of_code(note):
    with JobQueue("memory:") as queue:
        shop = Shop(queue, concurrency=8, limit=2)
        queue.store.apply([SetNote(f"{OVERRIDES}t", note)])
        shop.put(20, "a:")
        with working(queue):
            until(lambda: shop.counts.done == 20)
        assert max(shop.beside) <= 2
        assert queue.topics.limits("t") is None
