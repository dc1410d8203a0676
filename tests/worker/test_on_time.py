"""Many jobs are due one shortly after the other: none is late."""

from datetime import timedelta

import pytest

from pywheel import JobQueue, ManualClock
from tests.often import often
from tests.worker.simulated_worker import SimulatedWorker

NOW = 1_700_000_000_000
STEP = 10  # ms


class Calm:
    """A world in which nothing goes wrong, and handlers take no time."""

    def __init__(self, url):
        self.clock = ManualClock(wall=NOW)
        self.queue = JobQueue(url, clock=self.clock)
        self.store = self.queue.store
        self.paused = set()
        self.late = []

    def claimed(self, jobs):
        pass

    def started(self, lease, worker):
        self.late.append(self.clock.wall() - lease.job.due)
        return 0

    def fails(self):
        return False

    def ended(self, lease):
        pass

    def troubled(self):
        raise AssertionError("the store failed")


@pytest.mark.parametrize("url", often(["memory", "sqlite"]), indirect=True)
@pytest.mark.parametrize("when", ["before the worker begins", "while it works"])
@pytest.mark.parametrize("topics", often([("t",), ("t", "u")]))
def test_of_many_jobs_that_are_due_close_together_none_is_late(url, when, topics):
    world = Calm(url)
    for topic in topics:
        world.queue.handler(topic, concurrency=100)(print)
    jobs = [world.queue.job("t", delay=(6_000 + n) / 1000) for n in range(12_000)]
    if when == "while it works":
        worker = SimulatedWorker(world, topics)
        worker.turn()
    for start in range(0, len(jobs), 50):
        world.queue.put_many(jobs[start : start + 50])
        if when == "while it works":
            world.clock.advance(timedelta(milliseconds=STEP))
            worker.turn()
    if when != "while it works":
        worker = SimulatedWorker(world, topics)
    while len(world.late) < len(jobs):
        worker.turn()
        assert max(world.late, default=0) <= 5 * STEP
        world.clock.advance(timedelta(milliseconds=STEP))
    world.queue.close()
