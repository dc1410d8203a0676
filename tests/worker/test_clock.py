"""The wall clock jumps: due times follow it, nothing is early or lost, and waits go on."""

import contextlib
import threading
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
from tests.jobs.waiting import until

HOUR = 3_600_000


@contextlib.contextmanager
def working(queue, handle=None, **options):
    seen = []
    queue.handler("t", ttr="1d", **options)(handle or (lambda job: seen.append(job.id)))
    worker = Worker(queue, grace=60)
    worker.start()
    try:
        yield seen
    finally:
        worker.stop()
        assert worker.join(60)


def handled(queue, id):
    until(lambda: queue.get(id).state is State.DONE)


def test_what_was_held_before_a_step_is_not_begun_after_it(queue, clock):
    """The lease may be over by then: somebody cancelled the job, or has it."""
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def handle(job):
        if job.body == b'"hold"':
            begun.set()
            go_on.wait(60)
        seen.append(job.id)

    queue.handler("u")(lambda job: None)
    with working(queue, handle, concurrency=1):
        clock.advance(1)
        for _ in range(3):  # quick ones: so some may wait in the worker
            handled(queue, queue.put_many(queue.job("t") for _ in range(20))[-1])
        first, second = queue.put_many([queue.job("t", "hold"), queue.job("t")])
        assert begun.wait(60)
        until(lambda: queue.get(second).state is State.RUNNING)
        clock.step(timedelta(milliseconds=HOUR))
        handled(queue, queue.put("u"))  # so the worker has seen it
        until(lambda: queue.cancel(second))
        go_on.set()
        handled(queue, queue.put("t"))
    assert first in seen
    assert second not in seen


def test_a_job_that_its_store_takes_for_due_begins_though_the_workers_clock_is_behind():
    """As with several stores, whose clocks differ."""

    class Ahead(FaultyStore):
        clock = ManualClock(wall=NOW - 800)

    store = Ahead(open("memory:", clock=ManualClock(wall=NOW)), lambda when, commands: None)
    with JobQueue(store) as queue:
        jobs = queue.put_many([queue.job("t", at=datetime.fromtimestamp(NOW / 1000 - 0.9, UTC)), queue.job("t")])
        with working(queue):
            handled(queue, jobs[1])
        histories = queue.store.ask(GetHistories(jobs))
    assert [[one.outcome for one in history] for history in histories] == [[Outcome.DONE]] * 2


def test_the_planner_of_schedules_hears_of_a_step_beside_which_the_store_failed(clock):
    told = []

    def fault(when, commands):
        if when == "before" and any(isinstance(command, Edit) for command in commands):
            told.append(commands)
            if len(told) == 1:
                raise StoreError("away")

    with JobQueue(FaultyStore(open("memory:", clock=clock), fault)) as queue, working(queue):
        handled(queue, queue.put("t"))
        clock.step(timedelta(milliseconds=HOUR))
        clock.advance(10)
        until(lambda: len(told) == 2)
        handled(queue, queue.put("t"))


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
    ran = []
    queue.handler("rated", rate="1/h")(lambda job: ran.append(job.id))
    with working(queue):
        first, second = queue.put_many([queue.job("rated") for _ in range(2)])
        handled(queue, first)
        handled(queue, queue.put("t"))
        assert ran == [first]
        clock.step(timedelta(milliseconds=2 * HOUR))
        handled(queue, second)
