"""What a worker learned in a step that failed: the next step makes up for it."""

from datetime import timedelta

import pytest

from pywheel import JobQueue, ManualClock, StoreAway
from pywheel.jobs.commands import Announce, Pause
from pywheel.jobs.job import SHARDS, SLICE
from pywheel.jobs.queries import GetNextLease, ListTopics
from tests.asked import when_asked
from tests.worker.simulated_worker import NOW, CalmWorld, SimulatedWorker


class World(CalmWorld):
    """A world whose store fails once at a kind of query."""

    def __init__(self):
        super().__init__(JobQueue("memory:", clock=ManualClock(wall=NOW)))
        self.queue.handler("t", concurrency=1)(print)
        self.troubles = 0

    def troubled(self):
        self.troubles += 1

    def fail_once(self, monkeypatch, kind):
        def fail(_):
            if not self.troubles:
                raise StoreAway("it is away")

        when_asked(monkeypatch, self.store, kind, fail)

    def go_on(self, worker, ms, step=10):
        for _ in range(0, ms, step):
            self.clock.advance(timedelta(milliseconds=step))
            worker.turn()


@pytest.fixture
def world():
    found = World()
    with found.queue:
        yield found


def test_a_worker_owns_all_slices_once_the_other_one_has_left_though_that_step_failed(world, monkeypatch):
    other = world.store.notifier("other")
    world.store.apply([Announce(other.worker, ("t",))])
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.fail_once(monkeypatch, GetNextLease)
    other.close()
    world.go_on(worker, 3_000)
    assert world.troubles == 1
    world.queue.put_many(world.queue.job("t", delay=timedelta(milliseconds=n * SLICE + 1)) for n in range(2 * SHARDS))
    world.go_on(worker, 2 * SHARDS * SLICE + 1_000)
    assert len(world.late) == 2 * SHARDS
    assert max(world.late) <= 10


def test_a_pause_that_was_heard_in_a_step_that_failed_takes_effect_in_the_next_one(world, monkeypatch):
    world.takes = 60.0
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.queue.put_many(world.queue.job("t") for _ in range(2))
    worker.turn()
    world.fail_once(monkeypatch, ListTopics)
    world.store.apply([Pause("t", paused=True)])
    world.go_on(worker, 3_000)
    assert world.troubles == 1
    assert world.store.quiet("t", 0)


def test_a_horizon_that_the_store_did_not_take_is_published_in_the_next_step(world, monkeypatch):
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.go_on(worker, 10_000, step=1_000)
    publish, seen = worker.notifier.publish, []

    def fail_once(horizon):
        if not world.troubles:
            raise StoreAway("it is away")
        seen.append(horizon)
        publish(horizon)

    monkeypatch.setattr(worker.notifier, "publish", fail_once)
    while not world.troubles:
        world.go_on(worker, 1_000, step=1_000)
    world.go_on(worker, 1_000, step=1_000)
    assert [horizon > world.clock.wall() + 15_000 for horizon in seen] == [True]
