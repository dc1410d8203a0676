"""Orders of an operator to workers, by their store: take no jobs, take jobs again, drain; a pause of a topic."""

import time

import pytest

from pywheel import JobQueue, StoreAway, Worker
from pywheel.jobs import State
from pywheel.jobs.queries import QUIET, GetNote, ListWorkers, Member
from pywheel.stores.notifier import order, order_note
from pywheel.worker import dispatcher, leases
from pywheel.worker.chores import Membership
from pywheel.worker.executors.pool import Pool
from tests.jobs.waiting import until, working
from tests.worker.each_store import url
from tests.worker.held import Held

__all__ = ["url"]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(dispatcher, "_ORDERS", 0.02)


def tell(worker, word):
    worker.store.apply([order(worker.name, word)])


def member(worker):
    """Return the worker as the store lists it."""
    return next((one for one in worker.store.ask(ListWorkers()) if one.worker == worker.name), None)


def is_listed(worker, *, quiet=False):
    until(lambda: (one := member(worker)) is not None and one.quiet is quiet)


def make_quiet(worker):
    is_listed(worker)
    tell(worker, "quiet")
    is_listed(worker, quiet=True)


def test_a_quiet_worker_finishes_what_it_has_begun_and_gives_back_the_rest_unspent(live_queue):
    held = Held(live_queue, "t", concurrency=1)
    with working(live_queue) as worker:
        ids = live_queue.put_many([live_queue.job("t") for _ in range(5)])
        until(lambda: held.begun)
        make_quiet(worker)
        held.let_go()
        until(lambda: live_queue.get(ids[0]).state is State.DONE)
        until(lambda: all(live_queue.get(id).state is State.DELAYED for id in ids[1:]))
        assert held.ids() == ids[:1]
        assert [live_queue.get(id).attempt for id in ids[1:]] == [0] * 4
        assert "t" in member(worker).handles
        tell(worker, "resume")
        until(lambda: all(live_queue.get(id).state is State.DONE for id in ids))
        is_listed(worker)
    assert sorted(held.ids()) == ids


def test_the_other_workers_have_the_jobs_of_a_quiet_one(live_queue):
    live_queue.handler("t", concurrency=1)(print)
    with working(live_queue) as quiet, working(live_queue) as other:
        is_listed(other)
        make_quiet(quiet)
        ids = live_queue.put_many([live_queue.job("t") for _ in range(40)])
        until(lambda: live_queue.topics.counts()["t"].done == 40)
        assert {live_queue.jobs.history(id)[-1].worker for id in ids} == {other.name}
        tell(quiet, "resume")
        is_listed(quiet)


def test_what_one_worker_does_for_all_is_handed_on_by_a_quiet_one(live_queue):
    live_queue.handler("t")(print)
    with working(live_queue) as first, working(live_queue) as second:
        workers = {one.dispatcher._membership: one for one in (first, second)}
        until(lambda: all(len(one._there) == 2 for one in workers))  # before, each takes itself for the only one
        [(before, quiet)] = [(one, worker) for one, worker in workers.items() if one.recovers]
        [other] = workers.keys() - {before}
        tell(quiet, "quiet")
        until(lambda: other.recovers)
        tell(quiet, "resume")
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
    held = Held(live_queue, "t", concurrency=1)
    id = live_queue.put("t")
    worker = Worker(live_queue, grace=60)
    worker.start()
    until(lambda: held.begun)
    tell(worker, "stop")
    until(lambda: worker.told_to_stop)
    left = live_queue.put("t")
    held.let_go()
    assert worker.join(60)
    assert (live_queue.get(id).state, live_queue.get(left).state) == (State.DONE, State.DELAYED)
    assert live_queue.store.ask(GetNote(order_note(worker.name))) is None


def test_a_quiet_worker_stops_at_once_when_it_is_told_to(live_queue):
    live_queue.handler("t")(print)
    with working(live_queue) as worker:
        make_quiet(worker)
        tell(worker, "stop")
        assert worker.join(60)
    assert live_queue.store.ask(ListWorkers()) == []


def test_an_order_for_another_worker_of_that_name_is_not_obeyed(live_queue):
    live_queue.handler("t")(print)
    with working(live_queue, name="w") as first, working(live_queue, name="w") as second:
        is_listed(second)
        make_quiet(first)
        assert not member(second).quiet


def test_a_store_that_is_away_when_the_order_is_given_hears_of_it_later(monkeypatch):
    with JobQueue("memory:") as queue:
        queue.handler("t")(print)
        with working(queue) as worker:
            is_listed(worker)
            apply, failed = queue.store.apply, []

            def away(commands, *others):
                if any(type(one).__name__ == "Announce" for one in commands) and len(failed) < 3:
                    failed.append(True)
                    raise StoreAway("it is away")
                return apply(commands, *others)

            monkeypatch.setattr(queue.store, "apply", away)
            make_quiet(worker)
            assert len(failed) == 3


def test_after_a_pause_returned_nothing_starts_and_what_waited_goes_back(live_queue, monkeypatch):
    queue, starts, begin = live_queue, [], Pool._starts

    def starts_here(pool, lease):
        """Note the worker's own time of the start: the thread may get no turn between that and the handler."""
        begins = begin(pool, lease)
        if begins:
            starts.append(lease.started)
        return begins

    monkeypatch.setattr(Pool, "_starts", starts_here)
    monkeypatch.setattr(leases, "HOLD", 600_000)  # a busy machine may be late to tell that a job has begun

    @queue.handler("t", concurrency=2)
    def slow(job):
        time.sleep(0.001)

    with working(queue), working(queue):
        queue.put_many(queue.job("t") for _ in range(2_000))
        until(lambda: len(starts) > 200)
        assert queue.topics.pause("t")
        paused = time.monotonic()
        until(lambda: queue.topics.counts()["t"].running == 0)
        late = [start - paused for start in starts if start > paused]
        assert queue.topics.counts()["t"].done == len(starts)
        queue.topics.resume("t")
        until(lambda: queue.topics.counts()["t"].done == 2_000)
    assert late == []
    assert len(starts) == 2_000
