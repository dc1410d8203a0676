"""Periodic jobs of a program in a test: their ticks come as the clock is moved."""

import asyncio
from datetime import UTC, datetime

import pytest

from pywheel import JobQueue, ManualClock
from pywheel.testing import QueueTester

MIDNIGHT = int(datetime(2030, 6, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def clock():
    return ManualClock(wall=MIDNIGHT)


def hours(tester):
    return tester.clock.time() / 3_600


def test_three_days_of_a_cron_beside_other_jobs(tester, queue):
    pytest.importorskip("cronsim")
    seen = []

    @queue.handler("mail")
    def mail(job):
        seen.append(("mail", hours(tester)))

    @queue.cron("0 3 * * *")
    def report():
        seen.append(("report", hours(tester)))
        queue.put("mail", delay="1h")

    assert tester.advance("3d") == 6
    assert seen == [(what, day * 24 + hour) for day in range(3) for what, hour in (("report", 3), ("mail", 4))]
    tester.assert_put("mail", count=3)
    assert [put.job.topic for put in tester._store.puts.values()] == ["mail"] * 3


def test_a_task_is_scheduled_with_its_defaults_and_in_a_coroutine(tester, queue):
    seen = []

    @queue.every("1h")
    @queue.task("sweep")
    async def sweep(limit: int = 5):
        await asyncio.sleep(0)
        seen.append(limit)

    assert asyncio.run(tester.aadvance("3h")) == 3
    assert seen == [5, 5, 5]
    tester.assert_put(sweep, count=0)
    assert all(job.topic == "sweep" for job in tester.jobs())


def test_clear_leaves_what_is_to_come(tester, queue):
    seen = []
    queue.every("1m", name="sweep")(lambda: seen.append(1))
    tester.advance("5m")
    tester.clear()
    assert not [job for job in tester.jobs() if not job.state.live]
    tester.advance("5m")
    assert len(seen) == 10


def test_a_programs_schedules_are_there_in_each_test():
    queue, seen = JobQueue("memory:"), []
    queue.every("1h", name="sweep")(lambda: seen.append(1))
    for n in (1, 2):
        with QueueTester(queue, clock=ManualClock(wall=MIDNIGHT)) as tester:
            tester.advance("1h")
            assert len(seen) == n
