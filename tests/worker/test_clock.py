"""The wall clock jumps: due times follow it, nothing is early or lost, and waits go on."""

from datetime import UTC, datetime, timedelta

import pytest

from pywheel import JobQueue, ManualClock, StoreError, Worker
from pywheel.events import ClockStepped
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Edit
from pywheel.jobs.queries import GetHistories
from pywheel.stores import open
from pywheel.testing import FaultyStore
from tests.jobs.fixtures import NOW
from tests.jobs.waiting import finished, state, until, working
from tests.worker.held import Held

HOUR = 3_600_000


def test_what_was_held_before_a_step_is_not_begun_after_it(queue, clock):
    """The lease may be over by then: somebody cancelled the job, or has it."""
    held = Held(queue, "t", concurrency=1, ttr="1d")
    queue.handler("u")(print)
    held.let_go("t", jobs=60)
    with working(queue):
        clock.advance(1)
        for _ in range(3):  # quick ones: so some may wait in the worker
            finished(queue, queue.put_many(queue.job("t") for _ in range(20))[-1])
        first, second = queue.put_many([queue.job("t"), queue.job("t")])
        until(lambda: held.ids()[-1] == first and state(queue, second) is State.RUNNING)
        clock.step(timedelta(milliseconds=HOUR))
        finished(queue, queue.put("u"))  # so the worker has seen it
        until(lambda: queue.cancel(second))
        held.let_go()
        finished(queue, queue.put("t"))
    assert first in held.ids()
    assert second not in held.ids()


def test_a_job_that_its_store_takes_for_due_begins_though_the_workers_clock_is_behind():
    """As with several stores, whose clocks differ."""

    class Ahead(FaultyStore):
        clock = ManualClock(wall=NOW - 800)

    store = Ahead(open("memory:", clock=ManualClock(wall=NOW)), lambda when, commands: None)
    with JobQueue(store) as queue:
        jobs = queue.put_many([queue.job("t", at=datetime.fromtimestamp(NOW / 1000 - 0.9, UTC)), queue.job("t")])
        queue.handler("t")(print)
        with working(queue):
            finished(queue, jobs[1])
        histories = queue.store.ask(GetHistories(jobs))
    assert [[one.outcome for one in history] for history in histories] == [[Outcome.DONE]] * 2


def test_the_planner_of_schedules_hears_of_a_step_beside_which_the_store_failed(clock):
    told = []

    def fault(when, commands):
        if when == "before" and any(isinstance(command, Edit) for command in commands):
            told.append(commands)
            if len(told) == 1:
                raise StoreError("away")

    with JobQueue(FaultyStore(open("memory:", clock=clock), fault)) as queue:
        queue.handler("t")(print)
        with working(queue):
            finished(queue, queue.put("t"))
            clock.step(timedelta(milliseconds=HOUR))
            clock.advance(10)
            until(lambda: len(told) == 2)
            finished(queue, queue.put("t"))


class SlowClock(ManualClock):
    """A clock on a machine so busy that a minute passes between any two looks at it."""

    def wall(self):
        self.jump(60)
        return super().wall()


@pytest.mark.parametrize(
    ("kind", "seconds", "expected"), [(SlowClock, 0, []), (ManualClock, 60, [60]), (ManualClock, -7200, [-7200])]
)
def test_a_step_is_told_from_a_busy_machine(kind, seconds, expected):
    clock = kind(wall=NOW)
    stepped = []
    listener = lambda event: stepped.append(event.seconds) if isinstance(event, ClockStepped) else None  # noqa: E731
    with JobQueue("memory:", clock=clock, listeners=[listener]) as queue:
        queue.handler("t")(print)
        dispatcher = Worker(queue).dispatcher
        for _ in range(20):
            dispatcher.step()
        clock.step(seconds)
        dispatcher.step()
    assert stepped == pytest.approx(expected, abs=0.1)


def test_a_step_forward_ends_the_wait_for_a_rate(queue, clock):
    queue.handler("rated", rate="1/h")(print)
    queue.handler("t")(print)
    with working(queue):
        first, second = queue.put_many([queue.job("rated") for _ in range(2)])
        finished(queue, first)
        finished(queue, queue.put("t"))
        assert queue.get(second).attempt == 0
        clock.step(timedelta(milliseconds=2 * HOUR))
        finished(queue, second)
