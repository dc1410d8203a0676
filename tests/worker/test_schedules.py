"""Workers that plan, and handlers of every kind at their ticks."""

import asyncio
import threading

import pytest

from pywheel import JobQueue, State, StoreError
from pywheel.events import JobSkipped
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import GetJob
from pywheel.jobs.schedule import TICK
from pywheel.stores.schedule_notes import PLAN, TOPIC, ScheduleNotes
from pywheel.testing import FaultyStore
from pywheel.worker.schedules import Planner
from tests.client.periods import start
from tests.jobs.waiting import until, working


def test_handlers_of_every_kind_run_at_their_ticks_and_not_what_is_paused(live_queue):
    ran, skipped = {}, []
    live_queue.events.listen(lambda event: skipped.append(event) if isinstance(event, JobSkipped) else None)

    @live_queue.every("1s")
    def plain():
        ran["plain"] = threading.get_ident()

    @live_queue.every("1s")
    async def on_a_loop(job):
        await asyncio.sleep(0)
        ran["on_a_loop"] = job.headers["pywheel-schedule"]

    @live_queue.every("1s", name="task")
    @live_queue.task("tasks")
    def task(n: int = 3):
        ran["task"] = n

    @live_queue.handler("work")
    def work(job):
        ran["work"] = job.body

    live_queue.schedules.set("work", "work", b"x", every="1s")
    paused = live_queue.schedules.set("paused", "work", b"y", every="1s")
    live_queue.schedules.pause("paused")
    live_queue.put_many([paused.job(live_queue.store.clock.wall())])  # as one that was put ahead elsewhere
    with working(live_queue):
        until(lambda: len(ran) == 4 and skipped)
    assert (ran["work"], ran["task"], ran["on_a_loop"]) == (b"x", 3, "on_a_loop")
    assert "paused" in skipped[0].reason
    assert live_queue.get(skipped[0].job.id).state is State.CANCELLED


def test_a_removed_schedule_comes_back_when_another_worker_of_the_process_starts(live_queue):
    live_queue.every("1h", name="s")(lambda: None)
    for _ in range(2):
        with working(live_queue):
            until(live_queue.schedules.list)
        assert live_queue.schedules.delete("s")


@pytest.mark.parametrize("ended", ["cancelled", "deleted", "put off"])
def test_a_planner_job_that_somebody_ended_is_there_again_before_a_tick_is_missed(queue, clock, ended):
    start(clock)
    ran = []
    queue.handler("work")(lambda job: ran.append(job.headers[TICK][11:19]))
    queue.schedules.set("s", "work", every="1m")
    with working(queue):
        for minute in range(1, 3):
            until(lambda: _sleeps(queue, clock))
            if ended == "put off":
                assert queue.reschedule(PLAN, "1000d")
            else:
                assert queue.cancel(PLAN)
            if ended == "deleted":
                assert queue.jobs.delete(queue.store.ask(GetJob(PLAN)).id)
            clock.advance(20)
            until(lambda: _sleeps(queue, clock))
            clock.advance(40)
            until(lambda minute=minute: len(ran) == minute)
    assert ran == [f"12:{minute:02}:00" for minute in range(1, 3)]


def test_a_planner_job_that_could_not_be_put_back_is_put_with_the_next_try(queue, clock):
    cancelled, failed = [], []

    def fault(when, commands):
        if when == "before" and cancelled and not failed and any(_puts_the_planner(command) for command in commands):
            failed.append(commands)
            raise StoreError("away")

    queue.schedules.set("s", "work", every="1h")
    other = JobQueue(FaultyStore(queue.store, fault))
    other.handler("work")(print)
    with working(other):
        until(lambda: _sleeps(queue, clock))
        cancelled.append(queue.cancel(PLAN))
        clock.advance(20)
        until(lambda: failed)
        clock.advance(10)
        until(lambda: _sleeps(queue, clock))


def _puts_the_planner(command):
    return isinstance(command, Put) and any(job.topic == TOPIC for job in command.jobs)


def _sleeps(queue, clock):
    """Whether the planner has planned, and is to do so again within an hour."""
    job = queue.store.ask(GetJob(PLAN))
    return job is not None and job.state is State.DELAYED and 0 < job.due - clock.wall() <= 3_600_000


def test_an_idle_store_with_no_schedule_has_no_planner_job(live_queue):
    live_queue.handler("t")(lambda job: None)
    with working(live_queue):
        id = live_queue.put("t")
        until(lambda: live_queue.get(id).state is State.DONE)
    assert live_queue.store.ask(GetJob(PLAN)) is None
    assert ScheduleNotes(live_queue.store).page("", 10) == []


def test_a_planner_keeps_no_removed_schedule(queue):
    planner = Planner(queue)
    for name in ("a", "b"):
        queue.schedules.set(name, "t", every="1h")
        planner(queue.store.ask(GetJob(PLAN)))
        assert list(planner._places) == [name]
        queue.schedules.delete(name)
        planner(queue.store.ask(GetJob(PLAN)))
        assert not planner._places
