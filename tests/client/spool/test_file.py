"""The spool's own file."""

import random
from contextlib import closing
from datetime import timedelta

import pytest

from pywheel import Change, JobExists, NoSuchJob, StoreError
from pywheel.client.spool import TOPIC, Spool, spooled_job
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import NONCES_KEPT, Claim, ClaimPolicy, Pause, Put
from pywheel.stores import open as open_store
from pywheel.testing import ManualClock
from tests.client.spool.spooled import back, bodies, forwarded
from tests.jobs.waiting import until
from tests.often import often
from tests.stores.files import connection_of


def puts(spool, count, **more):
    return spool.add([Put((NewJob("t", b"%d" % n, 0, **more),), f"n{n}") for n in range(count)])


def test_two_processes_do_not_forward_at_once_and_nothing_is_overtaken(spool, tmp_path):
    clock = ManualClock()
    with open_store(f"sqlite:///{tmp_path}/other.db"):
        first, second = Spool(spool, clock=clock), Spool(spool, clock=clock)
    assert first.take() == []
    puts(first, 3)
    batch = first.take()
    assert [waiting.put.nonce for waiting in batch] == ["n0", "n1", "n2"]
    first.add([Put((NewJob("t", b"3", 0),), "n3")])
    assert second.take() is None
    assert first.take() is None
    first.settle(batch[:1], [[1]])
    assert second.take() is None
    clock.advance(timedelta(seconds=15))  # the first one was killed
    again = second.take()
    assert [waiting.put.nonce for waiting in again] == ["n1", "n2", "n3"]
    first.settle(batch[1:], [[2], [3]])  # or it was not: too late, its claims are over
    assert second.counts().running == 3
    second.settle(again, [[2], [3], [4]])
    assert second.take() == first.take() == []
    assert second.counts().done == 4
    first.close()
    second.close()


def test_a_failed_put_is_forwarded_though_the_clock_was_set_back(spool):
    clock = ManualClock()
    file = Spool(spool, clock=clock)
    puts(file, 2)
    failed, other = file.take()
    file.failed(failed, StoreError("the packet is too large"))
    file.give_back([other])
    clock.step(-3_600)
    again = file.take()
    assert [(waiting.put.nonce, waiting.rows[0].attempt) for waiting in again] == [("n0", 2), ("n1", 1)]
    file.close()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def two(spool, clock):
    """One file, as two processes have it."""
    with closing(Spool(spool, clock=clock)) as first, closing(Spool(spool, clock=clock)) as second:
        yield first, second


def test_a_put_whose_lease_ended_is_forwarded_though_the_clock_was_set_back(two, clock):
    killed, file = two
    puts(killed, 2)
    killed.take()
    clock.advance(timedelta(seconds=15))
    file.give_back(file.take())
    clock.step(-3_600)
    assert [waiting.put.nonce for waiting in file.take()] == ["n0", "n1"]


def test_what_a_killed_process_was_forwarding_is_forwarded_though_the_clock_was_set_back(two, clock):
    killed, file = two
    puts(killed, 2)
    killed.take()
    clock.step(-3_600)
    for _ in range(2):  # it may be alive: what it forwards is not overtaken
        assert file.take() is None
        clock.advance(timedelta(seconds=15))
    assert [waiting.put.nonce for waiting in file.take()] == ["n0", "n1"]


def test_who_forwards_while_the_clock_is_set_back_goes_on_and_is_alone(two, clock):
    first, second = two
    puts(first, 2)
    batch = first.take()
    clock.step(-3_600)
    assert second.take() is first.take() is second.take() is None
    first.settle(batch, [[1], [2]])
    puts(first, 1)
    assert second.take() is None
    assert [waiting.put.nonce for waiting in first.take()] == ["n0"]
    assert first.counts().done == 2


def test_puts_that_nobody_can_claim_are_looked_at_a_few_times_and_left(spool):
    file = Spool(spool, clock=ManualClock())
    puts(file, 1)
    file.file.apply([Pause(TOPIC, True)])
    assert file.take() is None
    file.file.apply([Pause(TOPIC, False)])
    assert [waiting.put.nonce for waiting in file.take()] == ["n0"]
    file.close()


FOREIGN = (b"1", b"", b"{}\n", b"[]\nx", b"\xff\n", b"[" * 100_000 + b"\n", b'{"nonce": null}\n')


@pytest.mark.parametrize("before", [0, 2])
def test_rows_that_somebody_else_wrote_into_the_file_are_refused_and_the_rest_is_forwarded(spool, before):
    file = Spool(spool, clock=ManualClock())
    puts(file, before)
    [foreign] = file.file.apply([Put(tuple(NewJob(TOPIC, body, 5) for body in FOREIGN))])
    puts(file, 2)
    shown = [spooled_job(row) for row in file.rows(State.DELAYED)][before : before + len(FOREIGN)]
    assert [(job.id, job.topic, job.body) for job in shown] == [
        (-id, TOPIC, body) for id, body in zip(foreign, FOREIGN, strict=True)
    ]
    batch = file.take()
    assert [waiting.put.nonce for waiting in batch] == [f"n{n}" for n in [*range(before), 0, 1]]
    assert [file.place(row)[0] for row in file.rows(State.DEAD)] == [None] * len(FOREIGN)
    assert {row.last_error for row in file.rows(State.DEAD)} == {
        "BadJob: it was not put by a queue with this spool: delete it"
    }
    assert all(file.forget(-id) for id in foreign)
    file.settle(batch, [[1]] * len(batch))
    assert file.take() == []
    file.close()


def test_a_queue_finds_its_store_again_though_somebody_else_wrote_into_its_spool(queue, store):
    store.away = True
    queue.put("t", 1)
    [[foreign]] = queue.store._spool.file.apply([Put((NewJob(TOPIC, b"1", 0),))])
    queue.put("t", 2)
    back(queue, store)
    assert bodies(store) == [1, 2]
    assert queue.get(-foreign).state is State.DEAD
    assert queue.jobs.retry(-foreign)
    until(lambda: forwarded(queue))
    assert queue.get(-foreign).state is State.DEAD
    assert queue.jobs.delete(-foreign)


def test_many_jobs_are_taken_in_steps_and_a_put_of_many_comes_whole(spool):
    file = Spool(spool, clock=ManualClock())
    many = Put(tuple(NewJob("t", b"", 0) for _ in range(1_200)), "many")
    puts(file, 600)
    file.add([many, Put((NewJob("t", b"last", 0),), "last")])
    sizes = []
    while batch := file.take():
        sizes.append([len(waiting.put.jobs) for waiting in batch])
        file.settle(batch, [[1] * len(waiting.put.jobs) for waiting in batch])
    assert [sum(size) for size in sizes] == [500, 1_300, 1]
    assert sizes[1] == [1] * 100 + [1_200]
    file.close()


def test_large_bodies_are_taken_a_few_at_a_time(spool):
    file = Spool(spool, clock=ManualClock())
    file.add([Put((NewJob("t", bytes(1 << 20), 0),), f"n{n}") for n in range(9)])
    sizes = []
    while batch := file.take():
        sizes.append(len(batch))
        file.settle(batch, [[1]] * len(batch))
    assert sizes == [4, 4, 1]
    file.close()


def test_what_was_forwarded_is_known_for_31_days_and_then_forgotten(spool):
    clock = ManualClock()
    file = Spool(spool, clock=clock)
    [[first], [refused], [cancelled]] = puts(file, 3)
    assert file.cancel(cancelled)
    file.settle(file.take(), [[1], JobExists("taken", 5)])
    clock.advance(timedelta(milliseconds=NONCES_KEPT - 1))
    file.prune()
    assert None not in (file.find(first), file.find(refused), file.find(cancelled))
    file._look_at = 0.0
    clock.advance(timedelta(milliseconds=1))
    file.prune()
    assert file.find(first) is file.find(cancelled) is None
    assert file.find(refused).state is State.DEAD
    file.close()


def test_a_store_that_forgot_a_put_has_no_such_job(queue, store):
    store.away = True
    id = queue.put("t", 1)
    back(queue, store)
    nonces = connection_of(store.inner)
    nonces.execute("DELETE FROM nonce")
    assert queue.cancel(id) is Change.NOT_FOUND
    with pytest.raises(NoSuchJob):
        queue.get(id)
    assert bodies(store) == [1]


def test_the_spools_own_jobs_are_no_workers_business(queue, store):
    store.away = True
    id = queue.put("t", 1)
    [claimed] = queue.store._spool.file.apply([Claim("t", (-id,), ClaimPolicy(1_000, 3), "w", 1)])
    assert claimed.jobs == []
    assert queue.store._spool.find(10**9) is None


@pytest.mark.parametrize("rounds", often([40, 200]))
def test_who_has_puts_to_forward_has_the_oldest_whatever_others_do_in_between(spool, monkeypatch, rounds):
    monkeypatch.setattr("pywheel.client.spool._ROWS", 5)
    first, second = Spool(spool), Spool(spool)
    first.add([Put((NewJob("t", b"%d" % n, 0),), f"n{n}") for n in range(40)])
    draw, ask, held = random.Random(7), second.file.ask, []

    def asked(query):
        """Another process takes puts, or gives them back, before each answer."""
        while draw.random() < 0.5:
            if held:
                first.give_back(held.pop())
            elif batch := first.take():
                held.append(batch)
        return ask(query)

    second.file.ask = asked
    taken = 0
    for _ in range(rounds):
        if batch := second.take():
            assert not held
            assert batch[0].rows[0].id == 1
            second.give_back(batch)
            taken += 1
    assert taken
    first.close()
    second.close()
