"""Schedules on a simulated clock: each tick happens once, through all changes and deaths."""

import random
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from pywheel import BadBody, BadJob, BadOption, Fixed, JobQueue, Keyring, ManualClock, NoSuchSchedule, State, StoreError
from pywheel.execution.ticks import admit, waking
from pywheel.jobs import cron
from pywheel.jobs.commands import Ack, ClaimPolicy, Edit, Nack, Put, Release, Reserve, SetNote
from pywheel.jobs.handler import NotNow, Skipped
from pywheel.jobs.queries import GetNote, GetPage, ListNotes
from pywheel.jobs.schedule import Schedule, written
from pywheel.stores import open
from pywheel.stores.schedule_notes import _LOCK, PLAN, Changes, ScheduleNotes, as_said
from pywheel.testing import FaultyStore, run_due
from pywheel.worker.schedules import Planner
from tests.asked import when_asked
from tests.client.periods import NOON, pass_time
from tests.often import often


@pytest.fixture
def clock():
    return ManualClock(wall=NOON)


@pytest.fixture
def ran(queue):
    """What ran: pairs of a schedule and the time of its tick."""
    found = []

    @queue.handler("work")
    def work(job):
        found.append((job.headers["pywheel-schedule"], job.headers["pywheel-tick"][11:19]))

    return found


def times(ran):
    return [tick for _, tick in ran]


def by(clock):
    return written(clock.wall())[11:19]


def no_work(job):
    pass


# ---- what is declared -----------------------------------------------------------------------------------------------


def test_a_declared_function_runs_at_each_of_its_ticks_with_the_options_of_its_task(queue, clock):
    found = []

    @queue.every("15m")
    @queue.task("sweep", priority=5)
    def sweep():
        found.append(by(clock))

    @queue.cron("10 14 * * *", tz="Europe/Berlin")
    async def daily(job):
        found.append(job.headers["pywheel-tick"])

    assert run_due(queue) == 0
    pass_time(queue, clock, 3_600)
    assert found == ["12:15:00", "12:30:00", "12:45:00", "13:00:00"]
    pass_time(queue, clock, 900)
    assert found[4:] == ["2026-01-01T13:10:00Z", "13:15:00"]
    assert queue.topics.counts()["sweep"].done == 5
    assert {job.priority for job in queue.jobs.list("sweep")} == {5}


def by_name_alone(*, job):
    """Ask for what a worker gives by its place."""


def test_what_cannot_run_by_itself_is_refused_and_registers_nothing(queue):
    @queue.task("needs")
    def needs(order: int): ...

    for options, function, error, match in (
        ({}, lambda a, b: None, TypeError, "nothing gives it a, b"),
        ({}, by_name_alone, TypeError, "nothing gives it job"),
        ({"name": "x"}, 7, TypeError, "not int"),
        ({"name": ""}, by_name_alone, BadOption, "1 to 180"),
        ({}, needs, BadJob, "order"),
        ({"concurrency": 2}, needs, BadOption, "give what is for the handler"),
        ({"name": "bad", "concurrency": 0}, lambda: None, BadOption, "concurrency"),
        ({"catch_up": "all", "overlap": "skip"}, lambda: None, BadOption, "would skip"),
    ):
        with pytest.raises(error, match=match):
            queue.every("1m", **options)(function)
    assert list(queue.handlers) == ["needs"]
    queue.every("1m", name="bad")(lambda: None)
    with pytest.raises(BadOption, match="another name="):
        queue.every("1m", name="bad")(lambda: None)
    run_due(queue)
    assert [one.schedule.name for one in queue.schedules.list()] == ["bad"]


def test_what_the_code_says_takes_effect_when_a_worker_starts_and_what_it_says_no_more_is_removed(queue, clock):
    found = []

    def program(**periods):
        again = JobQueue(queue.store)
        again.handler("other")(lambda job: None)
        for name, period in periods.items():
            again.every(period, name=name)(lambda: found.append(by(clock)))
        return again

    pass_time(program(s="10m", t="1d"), clock, 1_150)
    assert found == ["12:10:00"]
    pass_time(program(s="1h"), clock, 3_600)
    assert found == ["12:10:00", "13:00:00"]
    assert [one.schedule.name for one in queue.schedules.list()] == ["s"]
    run_due(program())
    assert queue.schedules.list() == []


def test_all_schedules_that_the_code_says_no_more_are_removed_in_one_change(clock):
    changes = []

    def fault(when, commands):
        if when == "before" and any(isinstance(command, Edit) for command in commands):  # it wakes the planner
            changes.append(commands)

    with JobQueue(FaultyStore(open("memory:", clock=clock), fault)) as queue:
        for number in range(30):
            queue.every("1d", name=f"s{number}")(no_work)
        run_due(queue)
        with_none = JobQueue(queue.store)
        with_none.handler("other")(no_work)
        changes.clear()
        run_due(with_none)
        assert queue.schedules.list() == []
    assert len(changes) == 1


# ---- what is made by calls ------------------------------------------------------------------------------------------


def test_a_schedule_made_by_a_call_puts_its_body(queue, clock):
    found = []
    queue.handler("mail")(lambda job: found.append((job.json(), job.headers["a"], job.ttr)))
    queue.schedules.set("morning", "mail", {"to": 5}, every="1h", headers={"a": "b"}, ttr="5s")
    pass_time(queue, clock, 3600)
    assert found == [({"to": 5}, "b", 5_000)]


def test_the_same_said_again_changes_nothing(queue, ran, clock):
    first = queue.schedules.set("s", "work", every="10s")
    pass_time(queue, clock, 25)
    assert queue.schedules.set("s", "work", every="10s") == first
    pass_time(queue, clock, 10)
    assert ran == [("s", "12:00:10"), ("s", "12:00:20"), ("s", "12:00:30")]


@pytest.mark.parametrize(
    ("catch_up", "made_up"),
    [("none", []), ("one", ["16:00:00"]), ("all", ["14:00:00", "15:00:00", "16:00:00"])],
)
def test_what_was_missed_before_a_change_is_made_up_for_as_the_change_says(queue, ran, clock, catch_up, made_up):
    queue.schedules.set("s", "work", every="1h")
    pass_time(queue, clock, 3_660)
    ran.clear()
    clock.advance(3 * 3_600)  # and nobody works
    queue.schedules.set("s", "work", b"new", cron="30 17 * * *", catch_up=catch_up)
    clock.advance(60)
    pass_time(queue, clock, 3_600)
    assert times(ran) == made_up
    pass_time(queue, clock, 3_600)
    assert times(ran) == [*made_up, "17:30:00"]


def test_what_was_left_out_before_is_not_made_up_for_by_a_change(queue, ran, clock):
    queue.schedules.set("s", "work", every="1h")
    run_due(queue)
    clock.advance(5 * 3600 + 120)
    run_due(queue)
    queue.schedules.set("s", "work", every="1h", catch_up="all")
    run_due(queue)
    assert ran == []


def test_after_a_pause_nothing_is_made_up_for_though_it_was_changed(queue, ran, clock):
    queue.schedules.set("s", "work", every="1h", catch_up="all")
    run_due(queue)
    clock.advance(3601)
    queue.schedules.set("s", "work", every="30m", catch_up="all")
    queue.schedules.pause("s")
    queue.schedules.resume("s")
    pass_time(queue, clock, 1801)
    assert ran == [("s", "13:30:00")]


def test_a_change_by_who_cannot_compute_what_was_goes_on_all_the_same(queue, ran, clock):
    queue.schedules.set("s", "work", cron="0 * * * *", catch_up="all")
    run_due(queue)
    clock.advance(7200)
    queue.schedules.set("s", "work", every="1h", catch_up="all")
    with without_cronsim():
        pass_time(queue, clock, 3601)
    assert ("s", "15:00:00") in ran


def test_a_paused_schedule_puts_nothing_and_goes_on_from_where_it_is_resumed(queue, ran, clock):
    queue.schedules.set("s", "work", every="10s", catch_up="all")
    pass_time(queue, clock, 15)
    assert queue.schedules.pause("s")
    assert not queue.schedules.pause("s")
    assert queue.schedules.get("s").next is None
    queue.schedules.set("s", "work", every="5s", catch_up="all")
    pass_time(queue, clock, 100)
    assert queue.schedules.resume("s")
    assert not queue.schedules.resume("s")
    pass_time(queue, clock, 11)
    assert times(ran) == ["12:00:10", "12:02:00", "12:02:05"]


def test_run_now_puts_one_more_each_time_also_of_a_paused_one(queue, ran, clock):
    queue.schedules.set("s", "work", every="1h", overlap="overlap")
    queue.schedules.pause("s")
    ids = {queue.schedules.run("s") for _ in range(3)}
    run_due(queue)
    assert ran == [("s", "12:00:00")] * 3
    assert [queue.get(id).state for id in ids] == [State.DONE] * 3


def test_a_listing_says_when_the_next_comes_and_what_became_of_the_last(queue, ran, clock):
    for name in ("a", "b", "c"):
        queue.schedules.set(name, "work", every="1m")
    queue.schedules.pause("c")
    pass_time(queue, clock, 70)
    a, b, c = queue.schedules.list()
    assert (a.next, a.last, a.outcome) == (NOON + 120_000, NOON + 60_000, "done")
    assert (c.next, c.outcome) == (None, None)
    assert queue.schedules.list(after="a", limit=1) == [b]
    with pytest.raises(NoSuchSchedule):
        queue.schedules.get("d")
    with pytest.raises(NoSuchSchedule):
        queue.schedules.pause("d")
    assert queue.schedules.delete("a")
    assert not queue.schedules.delete("a")


def test_bodies_of_schedules_are_encrypted_in_the_store_as_those_of_jobs_are(clock):
    found = []
    queue = JobQueue("memory:", clock=clock, encryption=Keyring({"a": b"x" * 32}, current="a"))
    queue.handler("mail")(lambda job: found.append(job.body))
    versions = {queue.schedules.set("s", "mail", b"secret", every="1m").version for _ in range(2)}
    assert {queue.schedules.get("s").schedule.version} == versions
    assert all(b"c2VjcmV0" not in note and b"secret" not in note for _, note in ScheduleNotes(queue.store).raw())
    pass_time(queue, clock, 60)
    queue.schedules.run("s")
    run_due(queue)
    assert found == [b"secret", b"secret"]


# ---- late and overlapping -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catch_up", "made_up"),
    [("none", []), ("one", ["12:00:00"]), ("all", [f"{hour % 24:02}:00:00" for hour in range(13, 13 + 72)])],
)
def test_after_three_days_without_a_worker_ticks_are_made_up_for_as_told(queue, ran, clock, catch_up, made_up):
    queue.schedules.set("s", "work", every="1h", catch_up=catch_up)
    run_due(queue)
    clock.advance(72 * 3600 + 120)
    run_due(queue)
    assert times(ran) == made_up
    ran.clear()
    pass_time(queue, clock, 3600)
    assert ran == [("s", "13:00:00")]


def test_what_was_put_ahead_before_an_outage_is_left_out_too(queue, ran, clock):
    queue.schedules.set("none", "work", every="20s")
    queue.schedules.set("one", "work", every="20s", catch_up="one")
    run_due(queue)
    clock.advance(3605)
    run_due(queue)
    assert sorted(ran) == [
        *[("none", tick) for tick in ("12:59:20", "12:59:40", "13:00:00")],  # these are less than a minute late
        ("one", "13:00:00"),
    ]


def test_a_tick_waits_for_the_one_before_and_they_keep_their_order(queue, clock):
    found = []

    @queue.every("10s", ttr="1h", overlap="queue")
    def slow(job):
        found.append(job.headers["pywheel-tick"][17:19])
        if len(found) == 1:
            clock.advance(25)
            run_due(queue)
            assert len(found) == 1

    pass_time(queue, clock, 10)
    pass_time(queue, clock, 15)
    assert found == ["10", "20", "30", "40", "50"]


@pytest.mark.parametrize(("waited", "delay"), [(0, 100), (8, 1000), (3600, 10_000)])
def test_a_tick_that_gives_way_looks_again_after_an_eighth_of_its_wait(queue, ran, clock, waited, delay):
    queue.schedules.set("s", "work", every="10s", overlap="queue", catch_up="all")
    run_due(queue)
    reserve = Reserve("work", 1, ClaimPolicy(ttr=10**8, max_attempts=3), "w")
    clock.advance(10)
    queue.calls.apply(reserve)
    clock.advance(10)
    [second] = queue.calls.apply(reserve)
    clock.advance(waited)
    with pytest.raises(NotNow) as raised:
        admit(queue.store, second._replace(due=clock.wall()))  # it was given back before
    assert raised.value.delay == delay


def test_a_tick_behind_one_that_waits_reads_no_running_jobs(queue, ran, clock, monkeypatch):
    """As a thousand missed ticks look every ten seconds, and a topic may have as many running jobs."""
    queue.schedules.set("s", "work", every="10s", overlap="queue", catch_up="all")
    run_due(queue)
    clock.advance(30)
    jobs = queue.calls.apply(Reserve("work", 3, ClaimPolicy(ttr=10**8, max_attempts=3), "w"))
    read = []
    when_asked(monkeypatch, queue.store, GetPage, read.append)
    with pytest.raises(NotNow):
        admit(queue.store, max(jobs, key=lambda job: job.due))
    assert read == []


@pytest.mark.parametrize("between", ["was cancelled", "waits for its retry", "was put off"])
def test_a_tick_waits_for_those_before_the_one_that_does_not_run_now_and_their_end_wakes_it(queue, ran, clock, between):
    """So ticks keep their order though a lease is lost, whose end wakes nobody."""
    queue.schedules.set("s", "work", every="10s", overlap="queue", catch_up="all")
    run_due(queue)
    clock.advance(35)
    jobs = queue.calls.apply(Reserve("work", 3, ClaimPolicy(ttr=10**8, max_attempts=3), "w"))
    first, second, third = sorted(jobs, key=lambda job: job.due)
    for job in (first, second):
        queue.calls.apply(Release(job.id, job.claims))
    if between == "was cancelled":
        assert queue.cancel(second.id)
    elif between == "was put off":
        assert queue.reschedule(second.id, "1h")
    else:
        assert queue.jobs.edit(first.id, delay="1h")
        [second] = queue.calls.apply(Reserve("work", 1, ClaimPolicy(ttr=10**8, max_attempts=3), "w"))
        queue.calls.apply(Nack(second.id, second.claims, 3_600_000))
        assert queue.reschedule(first.id, 0)
    with pytest.raises(NotNow):
        admit(queue.store, third)
    queue.calls.apply(Release(third.id, third.claims))
    assert queue.reschedule(third.id, 5)
    assert [edit.ref for edit in waking(queue.store, first, ended=True)] == [third.id]


@pytest.mark.parametrize(("error", "outcome"), [(StoreError, NotNow), (BadBody, Skipped)])
def test_a_tick_waits_for_its_schedule_and_does_without_one_that_cannot_be_read(
    queue, ran, clock, monkeypatch, error, outcome
):
    queue.schedules.set("s", "work", every="10s")
    run_due(queue)
    clock.advance(10)
    [tick] = queue.calls.apply(Reserve("work", 1, ClaimPolicy(ttr=1_000, max_attempts=3), "w"))

    def fails(query):
        raise error("no answer")

    monkeypatch.setattr(queue.store, "ask", fails)
    with pytest.raises(outcome, match="no answer"):
        admit(queue.store, tick)


def test_a_failed_tick_is_tried_again_though_others_have_come(queue, clock):
    found = []

    @queue.every("10s", overlap="queue")
    def failing(job):
        found.append((job.headers["pywheel-tick"][17:19], job.attempt))
        if len(found) == 1:
            raise ValueError

    pass_time(queue, clock, 21)
    assert sorted(found) == [("10", 1), ("10", 2), ("20", 1)]


# ---- who dies, and what is stepped ----------------------------------------------------------------------------------


class Death(BaseException):
    """The process is no more."""


def mortal(store, draw):
    """Return the store of a process that dies before or after one of its transactions."""
    left, moment = draw.randrange(1, 12), "before" if draw.random() < 0.5 else "after"

    def fault(when, commands):
        nonlocal left
        left -= when == "before"
        if left < 0 or (left == 0 and when == moment):
            raise Death

    return FaultyStore(store, fault)


class History:
    """Changes of schedules at random, and the ticks that there must be: those between two changes."""

    def __init__(self, draw, clock):
        self.draw, self.clock = draw, clock
        self.boss = JobQueue("memory:", clock=clock)
        self.ran, self.expected, self.alive = {}, set(), {}

    def program(self, store):
        queue = JobQueue(store)
        queue.handler("work", ttr="1s", retry=Fixed("100ms"))(self.work)
        return queue

    def work(self, job):
        tick = job.headers["pywheel-schedule"], job.headers["pywheel-tick"]
        self.ran.setdefault(tick, set()).add(job.id)

    def change(self, what=None):
        name, what = self.draw.choice("abcd"), self.draw.randrange(6) if what is None else what
        if what == 0:
            period = self.draw.choice([1, 3, 7, 20, 60, 90, 600])
            self.ended(name)
            made = self.boss.schedules.set(
                name, "work", every=period, overlap="overlap", jitter=self.draw.choice([0, 5])
            )
            self.alive[name] = made
        elif what == 1 and self.boss.schedules.delete(name):
            self.ended(name)
        elif what == 2 and name in self.alive:
            self.boss.schedules.pause(name)
            self.ended(name)
            self.boss.schedules.resume(name)
            self.alive[name] = self.boss.schedules.get(name).schedule

    def ended(self, name):
        schedule, now = self.alive.pop(name, None), self.clock.wall()
        if schedule is not None:
            ticks = schedule.ticks(0, now)
            self.expected.update((name, written(tick)) for tick in ticks if schedule.due(tick) <= now)

    def die(self):
        with suppress(Death):
            run_due(self.program(mortal(self.boss.store, self.draw)))
        for _ in range(self.draw.randrange(4)):  # while nobody works
            self.clock.advance(self.draw.choice([0, 3, 11.3]))
            if self.draw.random() < 0.5:
                self.change(0)  # one that removed or paused would leave nothing of what is due
        self.live(13)  # until the claims of the dead are over

    def live(self, seconds):
        pass_time(self.program(self.boss.store), self.clock, seconds)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", often(range(8)))
def test_each_tick_happens_once_whoever_dies_when(seed):
    draw = random.Random(seed)
    history = History(draw, ManualClock(wall=NOON + draw.randrange(60_000)))
    for _ in range(25 if seed else 10):
        history.change()
        if draw.random() < 0.5:
            history.die()
        history.live(draw.choice([0.5, 2, 7, 25]))
    for name in list(history.alive):
        history.ended(name)
    assert history.ran.keys() == history.expected
    assert all(len(ids) == 1 for ids in history.ran.values())


@pytest.mark.parametrize("step", often([86_400, -50, -86_400, 3_600, 70], 2))
def test_a_step_of_the_clock_and_back_repeats_nothing_and_loses_what_was_put_ahead_at_most(queue, ran, clock, step):
    queue.schedules.set("s", "work", every="10s")
    pass_time(queue, clock, 15)
    for by in (step, -step):
        clock.step(by)
        queue.reschedule(PLAN, 0)  # as a worker does that sees it
        run_due(queue)
    pass_time(queue, clock, 595)
    here = [tick for tick in times(ran) if "12:00:20" <= tick <= "12:10:10"]
    assert len(here) == len(set(here))
    assert set(here) >= {f"12:{s // 60:02}:{s % 60:02}" for s in range(180, 611, 10)}


@pytest.mark.parametrize("every", [5, 15])
def test_what_a_planner_of_old_has_put_after_the_change_gives_way(queue, ran, clock, every):
    old = queue.schedules.set("s", "work", every="10s")
    queue.schedules.set("s", "work", every=f"{every}s")
    queue.calls.apply(Put(tuple(old.job(tick) for tick in old.ticks(clock.wall(), clock.wall() + 30_000))))
    pass_time(queue, clock, 30)
    assert times(ran) == [f"12:00:{s:02}" for s in range(every, 31, every)]


def test_what_a_planner_of_old_has_put_after_the_removal_is_cancelled(queue, ran, clock):
    old = queue.schedules.set("s", "work", every="10s")
    queue.schedules.delete("s")
    [id] = queue.calls.apply(Put((old.job(clock.wall() + 10_000),)))
    pass_time(queue, clock, 10)
    assert (ran, queue.get(id).state) == ([], State.CANCELLED)


@contextmanager
def without_cronsim():
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, "cronsim", None)
        cron._cronsim.cache_clear()
        yield
    cron._cronsim.cache_clear()


def test_what_a_worker_cannot_plan_is_said_and_left_to_one_that_can(queue, ran, clock, caplog):
    queue.schedules.set("by cron", "work", cron="* * * * *")
    queue.schedules.set("every", "work", every="20s")
    with without_cronsim():
        pass_time(queue, clock, 70)
        assert {name for name, _ in ran} == {"every"}
        assert "by cron cannot be planned by this worker: cronsim is not installed" in caplog.text
        assert queue.schedules.get("by cron").next is None
    pass_time(queue, clock, 60)
    assert [tick for name, tick in ran if name == "by cron"] == ["12:01:00", "12:02:00"]
    assert len(ran) == len(set(ran)) == 2 + 6


def changed_beside(queue):
    """Have a schedule paused in between what another one reads and writes, who stood still: his lock is over."""
    queue.calls.apply(SetNote(_LOCK, None))
    queue.schedules.pause("s")


@pytest.mark.parametrize("together", [False, True])
def test_two_who_change_one_schedule_at_once_do_both(queue, ran, clock, together):
    queue.schedules.set("s", "work", every="10s")

    def change(before):
        if not before.paused and before.every == 10_000:
            changed_beside(queue)
        return replace(before, every=20_000)

    notes = ScheduleNotes(queue.store)
    notes.change_many({"s": change}) if together else notes.change("s", change)
    schedule = queue.schedules.get("s").schedule
    assert (schedule.every, schedule.paused) == (20_000, True)


def test_a_schedule_that_is_said_again_gets_a_planner_if_there_is_none(queue, ran, clock):
    run_due(queue)
    with pytest.MonkeyPatch.context() as away:
        away.setattr(ScheduleNotes, "_begin", lambda _: None)  # the process with the note was killed here
        queue.schedules.set("s", "work", every="10s")
    queue.schedules.set("s", "work", every="10s")
    pass_time(queue, clock, 30)
    assert len(ran) == 3


def test_a_planner_that_sleeps_by_a_clock_that_was_wrong_wakes_when_a_worker_starts(queue, ran, clock):
    queue.schedules.set("s", "work", every="10s")
    clock.step(86_400)
    run_due(queue)
    clock.step(-86_400)  # while no worker is there to see it
    another = JobQueue(queue.store)
    another.handler("work")(queue.handlers["work"].function)
    pass_time(another, clock, 30)
    assert [tick for _, tick in ran if tick > "12:00:00"] == ["12:00:10", "12:00:20", "12:00:30"]


def test_what_is_new_is_left_whole_to_a_planner_that_can(queue, ran, clock):
    queue.schedules.set("every", "work", every="20s")
    run_due(queue)  # two minutes are planned
    queue.schedules.set("by cron", "work", cron="1 12 * * *")
    with without_cronsim():
        run_due(queue)
    pass_time(queue, clock, 70)
    assert ("by cron", "12:01:00") in ran


def test_a_zone_that_a_worker_does_not_know_is_left_to_one_that_does(queue, ran, clock, monkeypatch):
    queue.schedules.set("s", "work", cron="* * * * *", tz="Europe/Berlin")
    with monkeypatch.context() as without:
        without.setattr("zoneinfo.ZoneInfo", lambda _: {}["no tzdata"])
        cron.zone.cache_clear()
        run_due(queue)
    pass_time(queue, clock, 60)
    assert ran == [("s", "12:01:00")]


def test_a_note_that_makes_no_sense_hinders_no_other_schedule(queue, ran, clock):
    queue.store.apply([SetNote("schedule:a", b'{"topic": "work", "every": "P1D"}')])
    queue.schedules.set("s", "work", every="10s")
    pass_time(queue, clock, 10)
    assert len(ran) == 1
    assert [each.schedule.name for each in queue.schedules.list()] == ["s"]


@pytest.mark.parametrize(
    ("topic", "words", "said"),
    [("a\0b", {}, "topic"), ("work", {"headers": {"x": "\0"}}, "header"), ("work", {"headers": {"\0": "x"}}, "header")],
)
def test_a_schedule_whose_jobs_no_store_takes_is_refused(queue, topic, words, said):
    with pytest.raises(BadJob, match=f"{said} must be text without NUL"):
        queue.schedules.set("s", topic, every="1m", **words)
    assert queue.schedules.list() == []


def test_a_schedule_whose_jobs_no_store_takes_hinders_no_other(queue, ran, clock, caplog, monkeypatch):
    monkeypatch.setattr("pywheel.worker.schedules._TOGETHER", 1)
    good = queue.schedules.set("a", "work", every="1m")
    for name, topic in (("m", "a\0b"), ("z", "work")):
        bad = replace(good, name=name, topic=topic)
        ScheduleNotes(queue.store).change(name, as_said(bad, queue.store))
    pass_time(queue, clock, 300)
    assert ran == [(name, f"12:0{minute}:00") for minute in range(1, 6) for name in "az"]
    assert "a tick that no store takes: m: topic must be text without NUL" in caplog.text
    [planner] = [job for job in queue.jobs.list() if job.key == "plan" and job.state is State.DELAYED]
    assert planner.attempt == 0


def test_a_tick_that_came_late_by_lot_and_failed_is_tried_again_though_its_schedule_has_changed(queue, clock):
    @queue.handler("fails", retry=Fixed(60, attempts=5))
    def fails(job):
        raise ValueError

    schedule = queue.schedules.set("s", "fails", every="10m", jitter="9m")
    late = schedule.due(schedule.after(NOON))
    pass_time(queue, clock, (late - NOON) / 1_000)
    [failed] = [job for job in queue.jobs.list("fails") if job.attempt]
    queue.schedules.set("s", "fails", b"new", every="10m", jitter="9m")
    assert queue.get(failed.id).state is State.DELAYED


def test_a_tick_whose_lot_is_yet_to_come_is_not_missed(queue, ran, clock):
    schedule = queue.schedules.set("s", "work", every="1h", jitter="50m")
    assert schedule.due(schedule.after(clock.wall())) > clock.wall() + 3_600_000 + 300_000
    clock.advance(3_600 + 120)
    pass_time(queue, clock, 3_300)
    assert times(ran) == ["13:00:00"]


# ---- what has changed -----------------------------------------------------------------------------------------------


@pytest.fixture
def planned(queue, ran, clock, monkeypatch):
    """The planner of a queue; each call says how often it has listed all schedules."""
    plans, listed = Planner(queue), []
    when_asked(monkeypatch, queue.store, ListNotes, listed.append)

    def plan():
        [job] = queue.reserve(PLAN[0])
        listed.clear()
        plans(job)
        queue.calls.apply(Ack(job.id, job.claims))
        return sum(query.prefix == "schedule:" and query.limit > 1 for query in listed)

    queue.schedules.set("a", "work", every="10s")
    queue.schedules.set("b", "work", every="10s")
    assert plan() == 1
    return plan


def ticks(queue, name):
    return sum(
        job.headers["pywheel-schedule"] == name for job in queue.jobs.list("work", state=State.DELAYED, limit=1_000)
    )


def test_a_planner_reads_only_what_has_changed(queue, planned):
    queue.schedules.set("a", "work", every="20s")
    queue.schedules.set("c", "work", every="10s")
    assert planned() == 0
    assert [ticks(queue, name) for name in "abc"] == [5, 11, 11]
    queue.schedules.delete("b")
    queue.schedules.pause("c")
    assert planned() == 0
    assert [ticks(queue, name) for name in "abc"] == [5, 0, 0]
    queue.schedules.resume("c")
    assert planned() == 0
    assert [ticks(queue, name) for name in "abc"] == [5, 0, 11]


def test_a_planner_reads_all_if_it_cannot_know_what_has_changed(queue, planned):
    queue.calls.apply(SetNote("schedules:changed", b"a token of an older pywheel"))
    queue.reschedule(PLAN, 0)
    assert planned() == 1
    notes = ScheduleNotes(queue.store)
    notes.change_many({f"{n:02}": as_said(Schedule(f"{n:02}", "work", every=10_000), queue.store) for n in range(51)})
    assert planned() == 1
    assert [ticks(queue, name) for name in ("a", "50")] == [11, 11]


def test_who_writes_over_a_change_that_he_did_not_see_has_all_read(queue, planned, monkeypatch):
    def change(before):
        if not before.paused:  # in between what he reads and writes
            queue.calls.apply(SetNote(_LOCK, None))
            queue.schedules.set("c", "work", every="10s")
        return replace(before, paused=True)

    notes = ScheduleNotes(queue.store)
    old = queue.store.ask(GetNote("schedules:changed"))
    with monkeypatch.context() as stale:
        stale.setattr(notes, "_last_changes", lambda: old)
        notes.change("a", change)
    assert planned() == 1
    assert [ticks(queue, name) for name in "abc"] == [0, 11, 11]


def test_the_last_changes_are_known_by_name():
    note, tokens = None, [""]
    for number in range(300):
        note = Changes.read(note).and_then([f"{number} {'long' * 40}"])
        tokens.append(Changes.read(note).token)
    last = Changes.read(note)
    assert len(note) <= 16_000
    assert last.since(tokens[-1]) == set()
    assert {name.split()[0] for name in last.since(tokens[-4])} == {"297", "298", "299"}
    assert last.since(tokens[1]) is last.since("another") is None
    assert Changes.read(Changes.without_past()).since(last.token) is None


def test_what_was_changed_while_the_clock_was_ahead_begins_when_it_is_set_back(queue, ran, clock):
    """Also what was resumed then, and what had another rule before."""
    for name in ("changed", "resumed", "same"):
        queue.schedules.set(name, "work", every="1m" if name == "changed" else "5m")
    queue.schedules.pause("resumed")
    pass_time(queue, clock, 30)
    clock.step(86_400)
    queue.schedules.set("new", "work", every="5m")
    queue.schedules.resume("resumed")
    for period in ("2m", "5m"):
        queue.schedules.set("changed", "work", every=period)
    run_due(queue)
    ran.clear()  # ticks of the day ahead
    clock.step(-86_400)
    queue.reschedule(PLAN, 0)  # as a worker does that sees it
    run_due(queue)
    pass_time(queue, clock, 600)
    assert sorted(ran) == [(n, at) for n in ("changed", "new", "resumed", "same") for at in ("12:05:00", "12:10:00")]
