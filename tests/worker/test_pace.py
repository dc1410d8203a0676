"""A slow store is asked for fewer jobs at once: claimed jobs must begin before they are due for others."""

import time
from datetime import timedelta
from itertools import pairwise

import pytest

from pywheel import JobQueue, Limit, Worker
from pywheel.events import StoreFailed
from pywheel.jobs import State
from pywheel.jobs.commands import Ack, Claim
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore
from pywheel.worker.completer import SOON
from tests.jobs.waiting import until, working
from tests.worker.held import Held
from tests.worker.simulated_worker import CalmWorld, SimulatedWorker


class Slow(CalmWorld):
    """A world whose store takes `seconds` for each step; it notes how much it was asked for."""

    def __init__(self):
        super().__init__(fault=self.fault)
        self.seconds = 0.0
        self.asked, self.acked = [], []

    def fault(self, when, commands):
        claims = [command.limit for command in commands if isinstance(command, Claim)]
        if when == "before" and claims:
            self.asked += claims
            self.acked.append(sum(isinstance(command, Ack) for command in commands))
            self.clock.advance(timedelta(seconds=self.seconds))


@pytest.fixture
def world():
    world = Slow()
    yield world
    world.queue.close()


@pytest.fixture
def worker(world):
    """One that has many jobs to do."""
    world.queue.handler("t", concurrency=1_000)(print)
    world.queue.put_many([world.queue.job("t") for _ in range(20_000)])
    return SimulatedWorker(world, ("t",))


def step(worker, count=20):
    for _ in range(count):
        worker.turn()


def test_a_slow_store_is_asked_for_fewer_jobs_at_once_until_it_is_quick_again(world, worker):
    world.seconds = 0.45
    step(worker, 1)
    assert max(world.asked) > 5 * world.asked[-1] > 0
    world.asked.clear()
    world.seconds = 0.0
    step(worker)
    assert max(world.asked) > 100


def test_a_worker_of_one_topic_claims_as_one_that_is_alone_though_it_plans_schedules(world):
    world.queue.handler("t", concurrency=1_000)(lambda job: None)
    world.queue.put_many([world.queue.job("t") for _ in range(2_000)])
    with working(world.queue):
        until(lambda: world.asked)
    assert world.asked[0] > 400


def test_what_has_ended_is_acknowledged_all_at_once_however_slow_the_store_is(world, worker):
    world.seconds = 0.45
    step(worker, 1)
    assert max(acked - claimed for acked, claimed in zip(world.acked, world.asked, strict=True)) > 0
    assert all(acked >= claimed for acked, claimed in zip(world.acked[1:], world.asked, strict=False))


def test_ends_wait_for_a_dispatcher_that_sleeps_no_longer_than_that_whatever_the_clock_shows(world, worker):
    step(worker, 2)
    completer = worker.dispatcher._completer
    lease = next(iter(completer.leases))
    completer.done(lease)
    for now in (0.1 + number / 7 for number in range(1_000)):
        assert not completer.due(now + SOON, now)
        assert completer.due(now + 2 * SOON, now)


def test_a_job_that_is_committed_after_others_that_are_due_later_begins_at_once_though_the_store_is_slow(world):
    world.queue.handler("limited", limit=Limit(1, per=":"))(print)
    worker = SimulatedWorker(world, ("limited",))
    world.seconds = 0.3
    for number in range(3):
        world.queue.put("limited", key=f"a:{number}")
        step(worker)
    job = world.queue.job("limited", key="b:1")
    world.queue.put_many([job._replace(delay=None, due=world.clock.wall() - 400)])
    world.late.clear()
    world.pass_time(2_000, worker, step=50)
    assert world.late
    assert world.late[0] < 1_000


def test_a_quick_pool_with_priorities_holds_what_it_works_off_within_50_ms(world):
    world.queue.handler("u", concurrency=4)(print)
    world.queue.put_many([world.queue.job("u", priority=number % 3) for number in range(20_000)])
    worker = SimulatedWorker(world, ("u",))
    held = []
    for milliseconds, turns in ((0.25, 160), (60, 20)):
        for _ in range(turns):
            worker.turn()
            world.clock.advance(timedelta(milliseconds=milliseconds))
        held.append(max(world.asked[-5:]))
    assert held[0] > 200  # 50 for each that runs at once
    assert held[1] < 20


def test_a_drain_gives_back_at_once_what_waits_in_a_pool(world):
    """It was claimed ahead, and need not wait for the handlers that go on."""
    world.queue.handler("u", concurrency=10)(print)
    world.queue.put_many([world.queue.job("u") for _ in range(1_000)])
    worker = SimulatedWorker(world, ("u",))
    world.pass_time(5, worker, step=1)  # it is quick, and so claims ahead
    world.takes = 3_600
    worker.turn()
    waiting = [lease.job.id for lease in worker.unstarted()]
    assert waiting
    worker.drain()
    worker.turn()
    assert {(job.state, job.attempt) for job in map(world.queue.get, waiting)} == {(State.DELAYED, 0)}


@pytest.mark.stress
def test_a_worker_that_drains_does_not_press_a_store_that_is_away():
    """It tries as seldom as one that works, and its pauses begin once its listeners have been told."""
    tries = []
    store = FaultyStore(open_store("memory:"))

    def noted(event):
        if isinstance(event, StoreFailed):
            time.sleep(0.2 if not tries else 0)  # as on a busy host
            tries.append(time.monotonic())

    with JobQueue(store, listeners=[noted]) as queue:
        held = Held(queue, "t")
        queue.put("t")
        worker = Worker(queue, grace=60)
        worker.start()
        until(lambda: held.begun)
        store.away = True
        worker.stop()
        until(lambda: len(tries) >= 5)
        store.away = False
        held.let_go()
        assert worker.join(60)
    for number, (earlier, later) in enumerate(pairwise(tries[:5])):
        assert later - earlier >= 0.5 * 0.05 * 2**number
