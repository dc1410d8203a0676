"""The workers' notes in the store about the ends of their jobs."""

from unittest.mock import Mock

import pytest

from pywheel import Fixed, GiveUp, StoreAway, Worker
from pywheel.jobs.ends import HOUR, Ends, ends_of
from pywheel.jobs.queries import ListNotes
from pywheel.worker import chores
from tests.jobs.waiting import until, working


def kept(queue):
    """Return what is kept, by topic, of all hours together."""
    found = {}
    for name, value in queue.store.ask(ListNotes("ends:")):
        for topic, slots in ends_of(int(name.split(":")[1]) * HOUR, [value]).items():
            for ends in slots.values():
                found[topic] = found.get(topic, Ends()).plus(ends)
    return found


@pytest.fixture
def shop(live_queue):
    @live_queue.handler("mail", retry=Fixed(0, attempts=2))
    def mail(job):
        if job.body == b"fails once" and job.attempt == 1:
            raise ValueError
        if job.body == b"dies":
            raise GiveUp

    live_queue.handler("report")(lambda job: None)
    live_queue.put_many([live_queue.job("report") for _ in range(3)])
    for body in [b"done"] * 20 + [b"fails once"] * 5 + [b"dies"] * 2:
        live_queue.put("mail", body)
    return live_queue


def ended(queue):
    counts = queue.topics.counts()
    return sum(counts[topic].done + counts[topic].dead for topic in ("mail", "report")) == 30


def test_a_worker_that_ends_has_kept_how_all_its_jobs_ended(shop):
    with working(shop):
        until(lambda: ended(shop))
    found = kept(shop)
    assert found["mail"]._replace(late=0) == Ends(25, 7, 2)
    assert found["report"]._replace(late=0) == Ends(3)
    assert found["mail"].late > 0
    assert set(found) == {"mail", "report"}  # not the planner of schedules


def test_no_step_that_claims_or_settles_keeps_it_before_the_time_for_that(shop, monkeypatch):
    monkeypatch.setattr(chores, "_KEPT_EVERY", 10**12)
    with working(shop):
        until(lambda: ended(shop))
        assert kept(shop) == {}


def test_a_worker_keeps_it_now_and_then_and_what_several_did_adds_up(shop, monkeypatch):
    monkeypatch.setattr(chores, "_KEPT_EVERY", 0)
    with working(shop), working(shop):
        until(lambda: ended(shop))
        until(lambda: kept(shop)["mail"]._replace(late=0) == Ends(25, 7, 2) and kept(shop)["report"].done == 3)
    assert len(shop.store.ask(ListNotes("ends:"))) <= 4  # a note an hour and worker, and the hour may have changed


def test_what_was_given_back_is_no_end(live_queue):
    live_queue.handler("t")(lambda job: live_queue.topics.pause("t"))
    live_queue.put_many([live_queue.job("t") for _ in range(50)])
    with working(live_queue, concurrency=1):
        until(lambda: live_queue.topics.counts()["t"].done)
    done = live_queue.topics.counts()["t"].done
    assert kept(live_queue)["t"]._replace(late=0) == Ends(done)


@pytest.fixture
def worker(queue):
    """One without a thread, by a clock that stands still: its chore is done by hand."""
    queue.handler("t")(print)
    return Worker(queue)


def work_away(worker, monkeypatch, **options):
    """Do the chore while the store is away."""
    with monkeypatch.context() as away:
        away.setattr(worker.store, "apply", Mock(side_effect=StoreAway("it is away")))
        with pytest.raises(StoreAway):
            worker.dispatcher._ends.work(worker.store.clock.wall(), **options)


def test_what_a_store_that_was_away_did_not_take_goes_along_later(queue, clock, worker, monkeypatch):
    ends, topic = worker.dispatcher._ends, worker.dispatcher.topics["t"]
    topic.done = 3
    ends.work(clock.wall())
    assert kept(queue) == {}
    clock.advance(31)
    work_away(worker, monkeypatch)
    topic.done = 2
    clock.advance(31)
    ends.work(clock.wall())
    assert kept(queue)["t"] == Ends(5)
    clock.advance(3_600)
    topic.done = 4
    ends.work(clock.wall())
    assert kept(queue)["t"] == Ends(9)
    assert len(queue.store.ask(ListNotes("ends:"))) == 2
    clock.advance(48 * 3_600)
    assert len(queue.store.ask(ListNotes("ends:"))) == 1


def test_what_a_store_that_was_away_did_not_take_is_kept_at_the_end_though_nothing_ended_since(
    queue, clock, worker, monkeypatch
):
    worker.dispatcher.topics["t"].done = 3
    work_away(worker, monkeypatch, last=True)
    worker.dispatcher._ends.work(clock.wall(), last=True)
    assert kept(queue)["t"] == Ends(3)
