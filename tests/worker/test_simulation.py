"""Everything at once, on a clock by hand: producers, two workers that crash, a store that fails, steps of the wall
clock.

One thread, one seed, no waiting: a failure prints the seed and happens again with it. What is checked is the
accounting of a queue: all that was put is delivered, nothing early, nothing after a confirmed cancel, and extra
deliveries only for attempts that failed or leases that were lost.
"""

import os
import random
from collections import Counter
from datetime import timedelta

import pytest

from pywheel import Fixed, JobQueue, StoreError
from pywheel.observe import Silent
from pywheel.stores import open
from pywheel.testing import FaultyStore, ManualClock
from pywheel.worker.dispatcher import Dispatcher
from pywheel.worker.pools import Finished, Pool

SEEDS = int(os.environ.get("PYWHEEL_SIMULATIONS", "12"))
NOW = 1_700_000_000_000
HOUR = 3_600_000
TOPICS = ("a", "b")


class StillPool(Pool):
    """A pool without threads: the simulation says when a job is handled."""

    def feed(self, jobs):
        for job in jobs:  # now, as the clock may be stepped back before one of them starts
            assert job.due <= self._clock.wall(), f"job {job.id} is early"
            self.world.claimed(job)
        self._queue.extend(jobs)

    def stop(self):
        pass


class World:
    """The store, the workers, and what the outside was told."""

    def __init__(self, seed, url):
        self.random = random.Random(seed)
        self.clock = ManualClock(wall=NOW)
        self.store = FaultyStore(open(url, clock=self.clock), self.fault)
        self.queue = JobQueue(self.store)
        for topic in TOPICS:
            self.queue.handler(topic, concurrency=3, ttr="10s", retry=Fixed("2s", attempts=10_000))(print)
        self.workers = [self.new_worker(), self.new_worker()]
        self.failing = 0.0
        self.due = {}  # id: due time as the outside knows it
        self.unsure = set()  # ids whose last change was not answered
        self.cancelled = set()
        self.delivered, self.spare = Counter(), Counter()

    def new_worker(self):
        listener = self.store.inner.listen("w")
        handlers = self.queue.handlers
        return Dispatcher(self.store, listener, handlers, self.new_pool, Silent())

    def new_pool(self, handler, outside):
        pool = StillPool(handler, outside)
        pool.world = self
        return pool

    def fault(self, when, ops):
        if self.random.random() < self.failing:
            raise StoreError(f"failed {when}")

    # ---- what may happen ----

    def put(self):
        delay = self.random.choice([0, 1, 500, 5_000, 60_000, self.random.randrange(200_000)])
        try:
            id = self.queue.put(self.random.choice(TOPICS), delay=delay / 1000)
        except StoreError:
            return  # perhaps stored: such a job may be delivered, and need not
        self.due[id] = self.clock.wall() + delay

    def cancel(self):
        if self.due:
            id = self.random.choice(list(self.due))
            try:
                if self.queue.cancel(id):
                    self.cancelled.add(id)
            except StoreError:
                self.unsure.add(id)

    def reschedule(self):
        if self.due:
            id = self.random.choice(list(self.due))
            due = self.clock.wall() + self.random.randrange(30_000)
            try:
                if self.queue.reschedule(id, (due - self.clock.wall()) / 1000):
                    self.due[id] = due
            except StoreError:
                self.due[id] = min(due, self.due[id])

    def handle(self):
        """Let a worker finish some job, well or badly; or take so long that its lease is lost."""
        lanes = [lane for worker in self.workers for lane in worker.lanes.values() if lane.pool.waiting]
        if not lanes:
            return
        pool = self.random.choice(lanes).pool
        job = pool._queue.popleft()
        if pool._starts(job) is None:
            return
        self.started(job)
        if self.random.random() < 0.2:
            self.clock.advance(timedelta(milliseconds=self.random.choice([100, 12_000])))
        self.spare[job.id] += self.clock.wall() >= job.lease_until
        failed = self.random.random() < 0.2
        self.spare[job.id] += failed
        pool.done(Finished(job, ValueError("boom") if failed else None))

    def claimed(self, job):
        if job.id in self.due and job.attempt == 1:
            assert self.due[job.id] <= job.due, f"job {job.id} is early"

    def started(self, job):
        self.delivered[job.id] += 1
        assert job.id not in self.cancelled, f"job {job.id} was cancelled"

    def crash(self):
        """A worker dies: its leases will be lost. Its listener is as dead as it is."""
        victim = self.random.randrange(2)
        self.give_up(self.workers[victim])
        self.workers[victim] = self.new_worker()

    def give_up(self, worker):
        for job in worker._keeper.jobs():
            self.spare[job.id] += 1
        worker._listener.close()

    def step_clock(self):
        self.clock.step(timedelta(milliseconds=self.random.choice([-HOUR, HOUR, -5_000, 5_000])))
        for worker in self.workers:  # a lease that ends at once is a lease lost; one that lasts an hour more is not
            for job in worker._keeper.jobs():
                self.spare[job.id] += 1

    def trouble(self):
        self.failing = self.random.choice([0.0, 0.0, 0.3])

    def turn(self):
        for worker in self.workers:
            worker._rung = True
            if not worker.step():
                for job in worker._keeper.jobs():  # a claim or an ack that was not answered may cost a delivery
                    self.spare[job.id] += 1

    def run(self, steps):
        actions = [self.put] * 6 + [self.handle] * 8 + [self.cancel, self.reschedule, self.trouble, self.crash]
        for _ in range(steps):
            self.random.choice(actions)()
            if self.random.random() < 0.01:
                self.step_clock()
            self.clock.advance(timedelta(milliseconds=self.random.choice([0, 1, 10, 100, 1_000])))
            self.turn()

    def finish(self):
        """Let all that is left be delivered: no more faults, and time passes."""
        self.failing = 0.0
        for _ in range(4_000):
            self.turn()
            for worker in self.workers:
                for lane in worker.lanes.values():
                    for job in lane.pool.take_back():
                        if lane.pool._starts(job) is None:
                            continue
                        self.started(job)
                        lane.pool.done(Finished(job, None))
            self.turn()
            counts = self.queue.counts().values()
            if not any(count.delayed or count.running for count in counts):
                return
            self.clock.advance(timedelta(milliseconds=5_000))
        raise AssertionError(f"jobs are left: {self.queue.counts()}")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_early_or_delivered_after_a_cancel(seed, kind, tmp_path):
    print(f"seed {seed}")
    url = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    world = World(seed, url)
    world.run(400 if kind == "memory" else 250)
    world.finish()
    states = {id: world.queue.get(id).state for id in world.due}
    lost = [id for id in world.due if not world.delivered[id] and states[id] != "cancelled"]
    wrong = [id for id in world.due if states[id] not in ("done", "cancelled")]
    uncalled = [id for id in world.due if states[id] == "cancelled" and id not in world.cancelled | world.unsure]
    assert (lost, wrong, uncalled) == ([], [], [])
    world.store.close()


def test_without_faults_extra_deliveries_are_accounted_for():
    for seed in range(SEEDS):
        world = World(seed, "memory:")
        world.trouble = lambda: None
        world.step_clock = lambda: None
        world.run(400)
        world.finish()
        extra = {id: n - 1 - world.spare[id] for id, n in world.delivered.items() if n - 1 > world.spare[id]}
        assert extra == {}, f"seed {seed}"
