"""Wake-ups and presence of the SQLite store: rings, hints and members."""

import math

import pytest

from pywheel.jobs.job import SHARDS, SLICE, Due
from tests.stores.notifying import FAR, by_owner, ids, settle, settled

# ---- rings and hints ------------------------------------------------------------------------------------------------


def test_only_the_owner_is_rung_and_gets_the_hint(host, other):
    workers = [host.notifier("t"), other.notifier("t"), host.notifier("t")]
    settled(*workers)
    for worker in workers:
        worker.publish(FAR)
    put = other.put_all_over()
    owned = by_owner(put, workers)
    assert all(owned)
    for worker, mine in zip(workers, owned, strict=True):
        assert worker.wait(0) is True
        assert ids(worker.hints()) == mine
        assert worker.wait(0) is False
        assert worker.hints() == ([], False)


def test_a_put_whose_writer_died_before_it_rang_is_found_by_the_next_looks(host, other):
    workers = [one.notifier("t") for one in (host, other)]
    settled(*workers)
    for worker in workers:
        worker.publish(FAR)
    with other.begun() as turn:
        turn.insert("t", 10)
    for worker in workers:
        look(worker)
        assert worker.wait(0) is False  # it may ring yet
        look(worker)
        assert worker.wait(0) is True
        assert worker.hints() == ([], True)
        look(worker)
        look(worker)
        assert worker.wait(0) is True  # again, as nobody has told yet
    turn.tell()
    settled(*workers)
    for worker in workers:
        look(worker)
        look(worker)
        assert worker.wait(0) is False


def test_a_put_whose_writer_died_in_its_turn_is_told_by_the_next_writer(host, other):
    worker = host.notifier("t")
    settle(worker)
    worker.publish(FAR)
    with other.transaction() as turn:
        turn.insert("t", 10)
        turn.tell = lambda: None
    assert worker.wait(0) is False
    host.put(FAR + 1)
    assert worker.wait(0) is True
    assert worker.hints().reload


def test_looks_for_such_puts_ask_nothing(host):
    worker = host.notifier("t")
    worker.publish(FAR)
    host.put(10)
    settled(worker)
    before = host.queries
    look(worker)
    look(worker)
    assert worker.wait(0) is False
    assert host.queries == before


def look(worker):
    worker._look_at = 0
    worker.beat(0)


def test_a_horizon_that_moves_during_the_commit_causes_a_reload(host):
    worker = host.notifier("t")
    worker.publish(100)
    with host.begun() as turn:
        turn.insert("t", 200)
        assert turn.telling
        worker.publish(300)
    assert worker.wait(0) is False
    turn.tell()
    assert worker.wait(0) is True
    assert worker.hints() == ([], True)
    assert worker.hints() == ([], False)


def test_a_worker_that_comes_while_a_put_commits_reads_again(host, other):
    """It may have read its shards before the commit; the putter knew only the owner before it."""
    first = host.notifier("t")
    host.put(1)
    settle(first)
    first.publish(FAR)
    with host.begun() as turn:
        for slot in range(SHARDS):
            turn.insert("t", 10 + slot * SLICE)
        assert turn.telling
        late = other.presence.notifier("w")
        late.publish(FAR)
        # The same as its Announce, except the row: the lock is taken.
        turn.execute("INSERT INTO member (worker, topics) VALUES (?, ?)", (late.worker, '["t"]'))
        late.hints()
    late.wait(0)
    other.presence.stir()
    late.wait(0)
    turn.tell()
    assert late.wait(0) is True
    assert late.hints().reload


@pytest.mark.parametrize(("transactions", "jobs"), [(1, 300), (30, 100)])
def test_hints_that_are_too_many_cause_a_reload(host, transactions, jobs):
    worker = host.notifier("t")
    worker.publish(FAR)
    for _ in range(transactions):
        with host.transaction() as turn:
            id, number = turn.insert("t", 1)
            for _ in range(jobs):
                turn.changes.due(number, id, 1)
    assert worker.hints().reload
    assert worker.hints() == ([], False)
    host.put(1)
    assert not worker.hints().reload


# ---- who is there ---------------------------------------------------------------------------------------------------


def test_members_cost_no_query_unless_one_came_or_went(host, other):
    worker = host.notifier("t")
    host.presence.audience(1)
    worker.members()
    worker._look_at = math.inf  # what is asked a few times a second is another test's
    before = host.queries
    for _ in range(10):
        worker.wait(0)
        worker.beat(0)
        worker.members()
    assert host.queries == before
    other.notifier("t")
    assert len(worker.members()) == 2
    assert host.queries == before + 1


def test_a_silent_worker_owns_nothing_until_it_speaks_again(host, other, clock):
    """SIGSTOP looks like this: the beats end, the bell and the slot stay."""
    a, b = host.notifier("t"), other.notifier("t")
    settled(a, b)
    a.publish(FAR)
    b.publish(FAR)
    clock.advance(1.1)
    a.beat(0)
    assert a.hints().reload  # it was silent itself: another might have owned its shards
    put = {host.put(1) for _ in range(SHARDS)}
    assert ids(a.hints()) == put
    b.beat(0)
    assert b.wait(0) is True
    assert b.hints().reload
    put = host.put_all_over()
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])


def test_an_owner_that_falls_silent_during_the_commit_is_replaced(host, other, clock):
    a, b = host.notifier("t"), other.notifier("t")
    host.put(1)
    a.publish(FAR)
    b.publish(FAR)
    clock.advance(0.9)
    settled(a, b)
    with host.begun() as turn:
        for _ in range(SHARDS):
            turn.insert("t", 1)
        assert turn.telling
        clock.advance(0.05)
        a.beat(0)
        clock.advance(0.1)
    turn.tell()
    assert a.wait(0) is True
    assert a.hints().reload


def test_a_worker_that_others_took_for_silent_while_it_beat_reads_all_again(host, other, clock, monkeypatch):
    """It was held up between its look at the time and its heartbeat: what was put meanwhile was told to others."""
    a, b = host.notifier("t"), other.notifier("t")
    for worker in (a, b):
        worker.publish(FAR)
    clock.advance(0.6)
    b.beat(0)
    settled(a, b)
    now, put = host.presence.now, []

    def held_up():
        seen = now()
        if not put:
            clock.advance(0.001)
            put.extend(other.put(1) for _ in range(SHARDS))
        return seen

    monkeypatch.setattr(host.presence, "now", held_up)
    a.beat(0)
    assert a.wait(0) is True
    assert a.hints().reload


def test_a_worker_alone_is_the_owner_however_rarely_it_beats(host, clock):
    worker = host.notifier("t")
    worker.publish(FAR)
    host.put(1)
    settle(worker)
    for _ in range(3):
        clock.advance(1.5)
        id = host.put(1)
        assert worker.hints() == ([Due(1, id, "t")], False)
        worker.beat(0)
        assert worker.wait(0) is True  # of the put
        assert worker.wait(0) is False


def test_the_next_announce_forgets_those_that_are_long_gone(host, other, clock):
    gone, here = host.notifier("t"), other.notifier("t")
    clock.advance(61)
    here.beat(0)
    assert gone.worker in host.members()
    other.announce(here.worker, "t", "u")
    assert gone.worker not in host.members()
    assert here.worker in host.members()


def test_a_foreign_worker_does_no_harm(host, clock):
    with host.begun() as turn:
        turn.execute("INSERT INTO member (worker, topics) VALUES (?, ?)", ("somebody", '["t"]'))
    worker = host.notifier("t")
    assert [member.worker for member in worker.members()] == [worker.worker]
    worker.ring("somebody")
    worker.ring("x@y.z")


def test_puts_of_one_program_out_of_turn_alarm_nobody_who_is_not_concerned(host, other):
    mine, theirs = host.notifier("t"), host.notifier("u")
    settled(mine, theirs)
    mine.publish(FAR)
    with other.begun() as first:
        first.insert("t", 10)
    with other.begun() as second:
        second.insert("t", 11)
    assert theirs.wait(0) is False
    with host.begun() as third:  # another program: the first one may be dead
        third.insert("t", 12)
    assert theirs.wait(0) is True
    for turn in (first, second, third):
        turn.tell()


def test_a_transaction_that_was_undone_is_looked_for_ever_more_seldom(host, other):
    worker = host.notifier("t")
    settle(worker)
    with other.begun() as turn:
        turn.insert("t", 10)
    reads = 0
    for _ in range(65):
        look(worker)
        reads += worker.hints().reload
    assert reads == 7
