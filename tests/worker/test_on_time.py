"""Many jobs are due one shortly after the other: none is late."""

from datetime import timedelta

import pytest

from pywheel import JobQueue, ManualClock
from tests.often import often
from tests.worker.simulated_worker import NOW, CalmWorld, SimulatedWorker

STEP = 10  # ms


@pytest.mark.parametrize("when", ["before the worker begins", "while it works"])
@pytest.mark.parametrize("crowd", often([(8, "t"), (1, "tu")]))  # ms from each to the next, and topics
def test_of_many_jobs_that_are_due_close_together_none_is_late(when, crowd):
    apart, topics = crowd
    world = CalmWorld(JobQueue("memory:", clock=ManualClock(wall=NOW)))
    for topic in topics:
        world.queue.handler(topic, concurrency=100)(print)
    jobs = [world.queue.job("t", delay=(6_000 + n) / 1000) for n in range(0, 12_000, apart)]
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
