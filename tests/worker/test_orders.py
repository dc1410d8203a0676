"""Orders of an operator to a worker, by its store: take no jobs, take jobs again, drain."""

import threading

import pytest

from pywheel import JobQueue, StoreAway, Worker
from pywheel.jobs import State
from pywheel.jobs.queries import QUIET, GetNote, ListWorkers, Member
from pywheel.stores.notifier import order, order_note
from pywheel.worker import dispatcher
from pywheel.worker.chores import Membership
from tests.jobs.waiting import until, working
from tests.worker.each_store import url

__all__ = ["url"]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 0.02)


class Shop:
    """A handler that holds each job until it is told to go on."""

    def __init__(self, queue, topic="t", concurrency=1):
        self.queue, self.begun, self.go_on = queue, [], threading.Event()

        @queue.handler(topic, ttr="1h", concurrency=concurrency)
        def handle(job):
            self.begun.append(job.id)
            self.go_on.wait(60)

    def tell(self, worker, word):
        self.queue.store.apply([order(worker.name, word)])

    def member(self, worker):
        return next((one for one in self.queue.store.ask(ListWorkers()) if one.worker == worker.name), None)

    def wait_for(self, worker, *, quiet):
        until(lambda: (one := self.member(worker)) is not None and one.quiet is quiet)


def test_a_quiet_worker_finishes_what_it_has_begun_and_gives_back_the_rest_unspent(live_queue):
    shop = Shop(live_queue)
    with working(live_queue) as worker:
        ids = live_queue.put_many([live_queue.job("t") for _ in range(5)])
        until(lambda: shop.begun)
        shop.tell(worker, "quiet")
        shop.wait_for(worker, quiet=True)
        shop.go_on.set()
        until(lambda: live_queue.get(ids[0]).state is State.DONE)
        until(lambda: all(live_queue.get(id).state is State.DELAYED for id in ids[1:]))
        assert shop.begun == ids[:1]
        assert [live_queue.get(id).attempt for id in ids[1:]] == [0] * 4
        assert "t" in shop.member(worker).handles
        shop.tell(worker, "resume")
        until(lambda: all(live_queue.get(id).state is State.DONE for id in ids))
        shop.wait_for(worker, quiet=False)
    assert sorted(shop.begun) == ids


def test_the_other_workers_have_the_jobs_of_a_quiet_one(live_queue):
    shop = Shop(live_queue)
    shop.go_on.set()
    with working(live_queue) as quiet, working(live_queue) as other:
        shop.wait_for(other, quiet=False)
        shop.tell(quiet, "quiet")
        shop.wait_for(quiet, quiet=True)
        ids = live_queue.put_many([live_queue.job("t") for _ in range(40)])
        until(lambda: len(shop.begun) == 40)
        assert {live_queue.jobs.history(id)[-1].worker for id in ids} == {other.name}
        shop.tell(quiet, "resume")
        shop.wait_for(quiet, quiet=False)


def test_what_one_worker_does_for_all_is_handed_on_by_a_quiet_one(live_queue):
    shop = Shop(live_queue)
    with working(live_queue) as first, working(live_queue) as second:
        workers = {one.dispatcher._membership: one for one in (first, second)}
        until(lambda: all(len(one._there) == 2 for one in workers))  # before, each takes itself for the only one
        [(before, quiet)] = [(one, worker) for one, worker in workers.items() if one.recovers]
        [other] = workers.keys() - {before}
        shop.tell(quiet, "quiet")
        until(lambda: other.recovers)
        shop.tell(quiet, "resume")
        until(lambda: not other.recovers)
        assert before.recovers


class Ear:
    """A notifier of one worker, which says who is there, and is late about it."""

    silent = 1.0

    def __init__(self, worker):
        self.worker, self.quiet = worker, set()

    def beat(self, behind, spare):
        return None

    def members(self):
        return tuple(Member(name, frozenset([QUIET + "t" if name in self.quiet else "t"]), 0.0, 0) for name in "ab")


def test_a_worker_that_is_resumed_does_again_what_it_did_for_all_though_it_is_listed_as_quiet_still():
    both = [Membership(ear, ["t"]) for ear in map(Ear, "ab")]
    for one in both:
        one.look(1.0, 0)
    [charged] = [one for one in both if one.recovers]
    ear = charged._notifier
    ear.quiet = {ear.worker}
    charged.look(2.0, 0)
    charged.again()
    charged.look(3.0, 0)
    ear.quiet = set()
    charged.look(4.0, 0)
    assert charged.recovers


def test_a_worker_that_is_told_to_stop_drains_as_at_a_signal_and_its_order_is_forgotten(live_queue):
    shop = Shop(live_queue)
    id = live_queue.put("t")
    worker = Worker(live_queue, grace=60)
    worker.start()
    until(lambda: shop.begun)
    shop.tell(worker, "stop")
    until(lambda: worker.told_to_stop)
    left = live_queue.put("t")
    shop.go_on.set()
    assert worker.join(60)
    assert (live_queue.get(id).state, live_queue.get(left).state) == (State.DONE, State.DELAYED)
    assert live_queue.store.ask(GetNote(order_note(worker.name))) is None


def test_a_quiet_worker_stops_at_once_when_it_is_told_to(live_queue):
    shop = Shop(live_queue)
    with working(live_queue) as worker:
        until(lambda: shop.member(worker))
        shop.tell(worker, "quiet")
        shop.wait_for(worker, quiet=True)
        shop.tell(worker, "stop")
        assert worker.join(60)
    assert live_queue.store.ask(ListWorkers()) == []


def test_an_order_for_another_worker_of_that_name_is_not_obeyed(live_queue):
    shop = Shop(live_queue)
    shop.go_on.set()
    with working(live_queue, name="w") as first, working(live_queue, name="w") as second:
        until(lambda: shop.member(first) and shop.member(second))
        shop.tell(first, "quiet")
        shop.wait_for(first, quiet=True)
        assert not shop.member(second).quiet


def test_a_store_that_is_away_when_the_order_is_given_hears_of_it_later(monkeypatch):
    with JobQueue("memory:") as queue:
        shop = Shop(queue)
        with working(queue) as worker:
            until(lambda: shop.member(worker))
            apply, failed = queue.store.apply, []

            def away(commands, *others):
                if any(type(one).__name__ == "Announce" for one in commands) and len(failed) < 3:
                    failed.append(True)
                    raise StoreAway("it is away")
                return apply(commands, *others)

            monkeypatch.setattr(queue.store, "apply", away)
            shop.tell(worker, "quiet")
            shop.wait_for(worker, quiet=True)
            assert len(failed) == 3
