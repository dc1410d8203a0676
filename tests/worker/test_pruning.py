"""The jobs that a worker forgets: by default done and cancelled ones after a day, dead ones after a month."""

import random
from datetime import timedelta

import pytest

from pywheel import Fixed, JobQueue, State, StoreAway, Worker
from pywheel.jobs.commands import Ack, Announce, Claim, Purge, SetNote
from pywheel.testing import FaultyStore
from pywheel.worker.chores import Pruning, retention
from tests.jobs.fixtures import NOW

DAY, MONTH = 86_400_000, 30 * 86_400_000


@pytest.fixture
def steps():
    """The commands of each transaction."""
    return []


@pytest.fixture
def queue(clock, steps):
    def note(when, commands):
        if when == "before":
            steps.append(list(commands))

    inner = JobQueue("memory:", clock=clock).store
    with JobQueue(FaultyStore(inner, note)) as queue:
        queue.handler("t")(print)
        yield queue


def purges(steps):
    return [[command for command in step if isinstance(command, Purge)] for step in steps]


@pytest.mark.parametrize(("keep", "short", "long"), [("1d", DAY, MONTH), ("60d", 2 * MONTH, 2 * MONTH), (0, 0, MONTH)])
def test_dead_jobs_are_kept_for_a_month_or_as_long_as_the_others(keep, short, long):
    assert retention(keep) == {State.DONE: short, State.CANCELLED: short, State.DEAD: long}


def finished(queue):
    """Make a job of each state that is kept; return them."""
    done, cancelled, dead = (queue.put("t") for _ in range(3))
    queue.cancel(cancelled)
    for job in queue.reserve("t", 2):
        queue.ack(job) if job.id == done else queue.bury(job)
    return done, cancelled, dead


def left(queue):
    return {job.id for job in queue.jobs.list("t")}


def step(worker, clock, times=10):
    for _ in range(times):
        worker.dispatcher.step()
        clock.advance(timedelta(milliseconds=20))


def test_a_worker_that_is_told_nothing_forgets_after_a_day_and_a_month(queue, clock):
    done, cancelled, dead = finished(queue)
    worker = Worker(queue)
    clock.advance(timedelta(hours=23))
    step(worker, clock)
    assert left(queue) == {done, cancelled, dead}
    clock.advance(timedelta(hours=2))
    step(worker, clock)
    assert left(queue) == {dead}
    clock.advance(timedelta(days=29))
    step(worker, clock)
    assert left(queue) == set()


def test_pruning_has_a_transaction_of_its_own(queue, clock, steps):
    queue.handler("u", retry=Fixed(0, attempts=1))(print)
    finished(queue)
    worker = Worker(queue, keep=0)
    step(worker, clock, times=30)  # longer than a round
    found = [step for step, mine in zip(steps, purges(steps), strict=True) if mine]
    assert found
    assert all(len(step) == 1 and step[0].limit <= 500 for step in found)
    assert not any(isinstance(command, Ack) for step in found for command in step)


def test_pruning_waits_while_jobs_are_overdue_but_not_for_ever(queue, clock, steps):
    pruning = Pruning(queue.store, "w", retention("1d"))
    pruning.work(NOW + 40_000, busy=True, in_charge=True)  # a round of its own has passed by then
    assert not any(purges(steps))
    pruning.work(NOW + 45_000, busy=True, in_charge=True)
    assert sum(map(len, purges(steps))) == 1


@pytest.mark.parametrize("took", [0, 500, 9_000])
def test_pruning_rests_for_four_times_as_long_as_it_took_even_if_it_found_nothing(clock, took):
    def slow(when, commands):
        if when == "before" and isinstance(commands[0], Purge):
            clock.advance(took / 1000)

    pruning = Pruning(FaultyStore(JobQueue("memory:", clock=clock).store, slow), "w", dict.fromkeys([State.DONE], 1))
    pruning.work(NOW + 300, busy=False, in_charge=True)
    assert pruning.due_at == NOW + 300 + max(250, 4 * took)


def test_workers_that_begin_together_prune_at_different_moments(queue, clock):
    several = [Pruning(queue.store, "w", retention("1d")) for _ in range(20)]
    for pruning in several:
        pruning.work(NOW - 1, busy=False, in_charge=True)
        pruning.work(NOW, busy=False, in_charge=True)  # which asks what others keep
    first = {pruning.due_at for pruning in several}
    assert len(first) > 10
    assert min(first) >= NOW


def test_who_is_not_in_charge_looks_seldom(queue, clock, steps, monkeypatch):
    monkeypatch.setattr(random, "random", lambda: 0.0)  # of the first round
    for in_charge in (True, False):
        pruning, before = Pruning(queue.store, "w", retention("1d")), len(purges(steps))
        for now in range(NOW, NOW + 300_000, 1_000):
            pruning.work(now, busy=False, in_charge=in_charge)
        assert sum(map(len, purges(steps)[before:])) == (30 if in_charge else 3)


def test_of_all_workers_the_one_counts_that_keeps_jobs_for_the_longest(queue, clock):
    done, cancelled, dead = finished(queue)
    long, short = Worker(queue, keep="9d"), Worker(queue, keep=0)
    step(long, clock, times=1)
    step(short, clock, times=30)
    assert left(queue) == {done, cancelled, dead}
    clock.advance(timedelta(days=9))
    step(long, clock, times=1_600)
    assert left(queue) == {dead}


def test_a_worker_that_keeps_jobs_for_ever_counts_for_all(queue, clock):
    jobs = finished(queue)
    assert retention(None) == {}
    for keep in (None, 0):
        step(Worker(queue, keep=keep), clock, times=30)
    assert left(queue) == {*jobs}


def test_what_a_worker_keeps_is_said_as_it_announces_itself_and_not_in_a_write_after_its_first_claim(queue, steps):
    worker = Worker(queue)
    queue.put("t")
    worker.dispatcher.announce()
    assert [type(command) for command in steps[-1]] == [Announce, SetNote]
    del steps[:]
    worker.dispatcher.step()
    assert [type(command) for step in steps for command in step] == [Claim]


def test_what_a_worker_keeps_counts_no_more_once_it_drains(queue, clock):
    _, _, dead = finished(queue)
    ends, stays = Worker(queue, keep=None), Worker(queue, keep=0)
    step(ends, clock, times=1)
    ends.dispatcher.draining = True
    ends.dispatcher.announce()
    step(stays, clock, times=30)
    assert left(queue) == {dead}


def test_what_a_killed_worker_keeps_counts_for_an_hour(queue, clock):
    jobs = finished(queue)
    step(Worker(queue, keep=None), clock, times=1)
    clock.advance(timedelta(minutes=59))
    other = Worker(queue, keep=0)
    step(other, clock, times=30)
    assert left(queue) == {*jobs}
    clock.advance(timedelta(minutes=11))
    step(other, clock, times=30)
    assert left(queue) == {jobs[2]}


def test_a_worker_counts_behind_the_notes_of_thousands_that_were_killed(queue, clock):
    jobs = finished(queue)
    queue.store.apply([SetNote(f"keep:host{n:05}", b"1", 3_600_000) for n in range(1_500)])
    step(Worker(queue, keep=None, name="zz"), clock, times=1)
    step(Worker(queue, keep=0), clock, times=30)
    assert left(queue) == {*jobs}


def test_one_that_begins_later_counts_within_a_second(queue, clock):
    short = Worker(queue, keep=0)
    step(short, clock, times=30)
    step(Worker(queue, keep=None), clock, times=1)
    clock.advance(timedelta(seconds=1))
    jobs = finished(queue)
    step(short, clock, times=30)
    assert left(queue) == {*jobs}


def test_nothing_is_forgotten_while_the_store_does_not_say_what_others_keep(clock):
    away = [StoreAway("away")]

    def fail(when, commands):
        if when == "before" and away and isinstance(commands[0], SetNote):
            raise away.pop()

    store = JobQueue("memory:", clock=clock).store
    with JobQueue(FaultyStore(store, fail)) as queue, JobQueue(store) as other:
        for one in (queue, other):
            one.handler("t")(print)
        step(Worker(other, keep=None), clock, times=1)
        jobs = finished(queue)
        step(Worker(queue, keep=0), clock, times=60)
        assert not away
        assert left(queue) == {*jobs}
