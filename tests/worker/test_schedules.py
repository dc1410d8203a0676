"""Workers that plan, and handlers of every kind at their ticks."""

import asyncio
import threading
import time

import pytest

from pywheel import Fixed, JobQueue, ManualClock, NotNow, State, StoreError
from pywheel.events import JobSkipped
from pywheel.execution import admit
from pywheel.jobs.commands import ClaimPolicy, Put, Release, Reserve, SetNote
from pywheel.jobs.queries import GetJob
from pywheel.jobs.schedule import BY_HAND, NAME, OVERLAP, TICK, VERSION
from pywheel.stores.schedule_notes import PLAN, TOPIC, Planned, ScheduleNotes
from pywheel.testing import FaultyStore, run_due
from pywheel.worker import Worker
from pywheel.worker.leases import Lease
from pywheel.worker.schedules import Planner
from tests.client.periods import start
from tests.jobs.waiting import finished, until, working
from tests.worker.held import Held

HOUR = 3_600  # seconds


@pytest.fixture
def ticks(queue, clock):
    """The ticks that ran of a schedule that comes each minute."""
    start(clock)
    ran = []
    queue.handler("work")(lambda job: ran.append(job.headers[TICK][11:19]))
    queue.schedules.set("s", "work", every="1m", overlap="queue")
    return ran


def planned(queue, clock):
    """Return once the planner has planned, and is to do so again within an hour."""

    def sleeps():
        job = queue.store.ask(GetJob(PLAN))
        return job is not None and job.state is State.DELAYED and 0 < job.due - clock.wall() <= 3_600_000

    until(sleeps)


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
def test_a_planner_job_that_somebody_ended_is_there_again_before_a_tick_is_missed(queue, clock, ticks, ended):
    with working(queue):
        for minute in range(1, 3):
            planned(queue, clock)
            planner = queue.store.ask(GetJob(PLAN)).id  # a worker that is just at work may put the next one at any time
            if ended == "put off":
                assert queue.reschedule(PLAN, "1000d")
            else:
                assert queue.cancel(PLAN)
            if ended == "deleted":
                assert queue.jobs.delete(planner)
            clock.advance(20)
            planned(queue, clock)
            clock.advance(40)
            until(lambda minute=minute: len(ticks) == minute)
    assert ticks == ["12:01:00", "12:02:00"]


def test_ticks_come_again_within_a_minute_after_a_worker_whose_clock_was_ahead(queue, clock, ticks):
    def replanned():
        return 0 < ScheduleNotes(queue.store).planned().seen <= clock.wall()

    clock.step(50 * 60)
    with working(queue):
        until(replanned)
    clock.step(-50 * 60)
    ticks.clear()
    with working(queue):
        clock.advance(20)
        until(replanned)
        planned(queue, clock)
        clock.advance(40)
        until(lambda: ticks)
    assert ticks == ["12:01:00"]


@pytest.mark.parametrize(
    "garbled", [b"{", b"7", b'"abcd"', b'["x", 0, "", 0]', b'{"a": 1}', b"[1, 2]", b"[1, 1e999, 2, 3]"]
)
def test_progress_that_cannot_be_read_is_none(queue, garbled):
    queue.store.apply([SetNote("schedules:planned", garbled)])
    assert ScheduleNotes(queue.store).planned() == Planned()


def test_a_planner_job_that_could_not_be_put_back_is_put_with_the_next_try(queue, clock):
    cancelled, failed = [], []

    def fault(when, commands):
        put = [job.topic for command in commands if isinstance(command, Put) for job in command.jobs]
        if when == "before" and cancelled and not failed and TOPIC in put:
            failed.append(commands)
            raise StoreError("away")

    queue.schedules.set("s", "work", every="1h")
    other = JobQueue(FaultyStore(queue.store, fault))
    other.handler("work")(print)
    with working(other):
        planned(queue, clock)
        cancelled.append(queue.cancel(PLAN))
        clock.advance(20)
        until(lambda: failed)
        clock.advance(10)
        planned(queue, clock)


@pytest.mark.stress
@pytest.mark.parametrize("concurrency", [1, 8])
def test_missed_ticks_that_queue_run_in_order_one_right_after_the_other(tmp_path, concurrency):
    """As each end wakes the next one: by looks alone, an eighth of how long a tick waits, this takes many minutes."""
    url, ran, running = f"sqlite:///{tmp_path}/jobs.db", [], []
    with JobQueue(url, clock=ManualClock(wall=round(1_000 * (time.time() - 3 * HOUR)))) as before:
        before.schedules.set("s", "work", every="1m", catch_up="all", overlap="queue")

    with JobQueue(url) as queue:

        @queue.handler("work", concurrency=concurrency)
        def work(job):
            running.append(job.id)
            time.sleep(0.001)
            ran.append((job.headers[TICK], running[:]))
            running.remove(job.id)

        with working(queue):
            until(lambda: len(ran) >= 180)
    assert ran == sorted(ran)
    assert {len(ids) for _, ids in ran} == {1}


@pytest.mark.parametrize("name", ["s", "no schedule", "k" * 9_000])
@pytest.mark.parametrize("tick", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "9" * 5_000])
def test_headers_of_a_tick_from_elsewhere_move_no_job_and_stop_no_worker(live_queue, name, tick):
    """As by the put of a stranger."""
    live_queue.handler("work")(lambda job: None)
    live_queue.schedules.set("s", "work", every="1h", overlap="queue")
    later = live_queue.put("work", key="k", delay="1h")
    due = live_queue.get(later).due
    with working(live_queue):
        marks = {NAME: name, TICK: tick, OVERLAP: "queue", VERSION: BY_HAND}
        finished(live_queue, live_queue.put("work", headers=marks, max_attempts=1))
        assert finished(live_queue, live_queue.put("work")).state is State.DONE
        assert live_queue.get(later).due == due
        now = live_queue.store.clock.wall()
        assert all(job.due > now for job in live_queue.jobs.list(topic="work") if job.state is State.DELAYED)


def test_the_end_of_a_tick_wakes_no_tick_before_its_time(queue, clock, ticks):
    with working(queue):
        planned(queue, clock)
        clock.advance(60)
        until(lambda: ticks and not queue.topics.counts()["work"].running and len(queue.jobs.list(topic="work")) == 2)
        first, second = queue.jobs.list(topic="work")
        assert (first.state, second.state) == (State.DONE, State.DELAYED)
        assert second.due == clock.wall() + 60_000


def test_an_idle_store_with_no_schedule_has_no_planner_job(live_queue):
    live_queue.handler("t")(lambda job: None)
    with working(live_queue):
        finished(live_queue, live_queue.put("t"))
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


@pytest.mark.parametrize("fault", [ValueError("down"), NotNow(3_600)])
def test_the_end_of_a_tick_leaves_the_next_one_the_delay_before_its_retry(queue, clock, fault):
    """While all of them fail, each failure would otherwise spend an attempt of the tick after it, and so on."""
    start(clock)
    ran = []

    @queue.handler("work", retry=Fixed("1h"))
    def work(job):
        ran.append(job.headers[TICK])
        raise fault if len(ran) == 2 else ValueError("down")

    queue.schedules.set("s", "work", every="1m", overlap="queue")
    ticks = []
    with working(queue):
        for minute in (1, 2):
            planned(queue, clock)
            clock.advance(60)
            until(lambda minute=minute: len(ran) == minute and not queue.topics.counts()["work"].running)
            ticks.append(("work", f"s@{ran[-1]}"))
        began = clock.wall()
        clock.advance(1)  # a pause cancels what is due just now
        queue.schedules.pause("s")
        clock.advance(59 * 60 - 1)
        until(lambda: queue.store.ask(GetJob(ticks[0])).due == began + 119 * 60_000)
        assert queue.store.ask(GetJob(ticks[1])).due == began + 60 * 60_000


def test_a_tick_that_is_skipped_wakes_the_one_that_waits_for_it(queue, clock):
    start(clock)
    ran = []
    queue.handler("work")(lambda job: ran.append(job.headers[TICK][11:19]))
    queue.schedules.set("s", "work", every="30s", catch_up="one", overlap="queue")
    run_due(queue)  # puts ticks ahead of their time
    clock.advance(135)
    first, missed, last = queue.jobs.list(topic="work")
    assert queue.cancel(first.id)
    assert queue.reschedule(missed.id, 1)
    with working(queue):
        until(lambda: queue.get(last.id).claims and queue.get(last.id).state is State.DELAYED)
        clock.advance(1)  # the other one would look again some seconds later
        until(lambda: ran)
        assert queue.get(missed.id).state is State.CANCELLED
    assert ran[0] == "12:01:30"


def test_a_tick_that_was_put_off_by_hand_is_not_woken_by_the_end_of_another(queue, clock):
    start(clock)
    held = Held(queue, "work", ttr=600)
    queue.schedules.set("s", "work", every="1m", overlap="queue")
    with working(queue):
        planned(queue, clock)
        clock.advance(60)
        until(lambda: held.begun and len(queue.jobs.list(topic="work")) == 2)
        first, second = queue.jobs.list(topic="work")
        assert queue.reschedule(second.id, 3_600)
        clock.advance(60)
        held.let_go()
        until(lambda: queue.get(first.id).state is State.DONE)
        assert queue.get(second.id).due == clock.wall() + 3_540_000


def test_a_tick_that_was_put_off_by_hand_holds_up_no_later_one(queue, clock, ticks):
    with working(queue):
        planned(queue, clock)
        [first] = queue.jobs.list(topic="work")
        assert queue.reschedule(first.id, 3_600)
        clock.advance(60)
        until(lambda: len(queue.jobs.list(topic="work")) > 1)
        planned(queue, clock)
        clock.advance(60)
        until(lambda: ticks)
    assert ticks == ["12:02:00"]


# ---- the end of a tick, and the wait of the next one, in the same moment ---------------------------------------------


@pytest.fixture
def two(queue, clock):
    """The ends of handlers in two workers, with the leases of a tick that runs and of the next one, which waits."""
    start(clock)
    queue.handler("work")(print)
    queue.schedules.set("s", "work", every="10s", overlap="queue", catch_up="all")
    run_due(queue)
    clock.advance(25)
    jobs = queue.calls.apply(Reserve("work", 2, ClaimPolicy(ttr=10**8, max_attempts=3), "w"))
    ends = []
    for job in sorted(jobs, key=lambda job: job.due):
        dispatcher = Worker(queue).dispatcher
        ends.append((dispatcher._completer, Lease(job, dispatcher.topics["work"], 0.0, True, started=clock.time())))
    (_, first), (_, second) = ends
    admit(queue.store, first.job)
    second.error = wait_of(queue, second.job)
    return ends


def wait_of(queue, job):
    """Return the wait of a tick that looks now."""
    with pytest.raises(NotNow) as waits:
        admit(queue.store, job)
    return waits.value


def settle(queue, completer):
    """Let a worker take its next steps."""
    while commands := completer.commands(0.0, 100):
        completer.learn(iter(queue.store.apply(commands)))


def test_a_tick_that_waits_looks_again_at_once_if_the_one_before_it_has_ended_when_its_wait_is_stored(queue, two):
    for completer, lease in two:
        completer.done(lease)
        settle(queue, completer)
    waiting = queue.get(two[1][1].job.id)
    assert (waiting.state, waiting.due) == (State.DELAYED, queue.store.clock.wall())


def test_the_end_of_a_tick_wakes_one_whose_wait_was_stored_as_the_end_was_about_to_be(queue, two):
    (ending, first), (giving_way, second) = two
    ending.done(first)
    commands = ending.commands(0.0, 100)
    giving_way.done(second)
    settle(queue, giving_way)
    ending.learn(iter(queue.store.apply(commands)))
    settle(queue, ending)
    waiting = queue.get(second.job.id)
    assert (waiting.state, waiting.due) == (State.DELAYED, queue.store.clock.wall())


def test_the_last_end_of_a_worker_that_has_stopped_wakes_the_tick_that_waits_for_it(queue, two):
    (ending, first), (giving_way, second) = two
    giving_way.done(second)
    settle(queue, giving_way)
    ending.done(first)
    ending.leave()
    assert queue.get(second.job.id).due == queue.store.clock.wall()


def test_a_tick_looks_again_at_once_also_if_the_one_before_it_was_not_yet_claimed_when_it_looked(queue, two):
    (ending, first), (giving_way, second) = two
    queue.calls.apply(Release(first.job.id, first.job.claims))
    second.error = wait_of(queue, second.job)
    [first.job] = queue.calls.apply(Reserve("work", 1, ClaimPolicy(ttr=10**8, max_attempts=3), "w"))
    admit(queue.store, first.job)
    for completer, lease in ((ending, first), (giving_way, second)):
        completer.done(lease)
        settle(queue, completer)
    waiting = queue.get(second.job.id)
    assert (waiting.state, waiting.due) == (State.DELAYED, queue.store.clock.wall())
