"""The next lease, and when a paused topic is quiet, as the workers' page knows them."""

import threading

import pytest

from tests.stores.notifying import LIMIT, run, settle, settled

# ---- leases ---------------------------------------------------------------------------------------------------------


def test_the_next_lease_is_read_once_for_a_new_page(host, other):
    run(host, lease=500)
    assert host.presence.next_lease() == 500
    with host.transaction() as turn:
        turn.leased(700)
    before = host.queries + other.queries
    assert host.presence.next_lease() == other.presence.next_lease() == 500
    assert host.queries + other.queries == before


def test_the_next_lease_is_lowered_by_a_lease_and_raised_by_an_expiry(host, other):
    with host.transaction() as turn:
        turn.expired(None)
    assert other.presence.next_lease() is None
    with host.transaction() as turn:
        turn.leased(900, 1_000)
    assert other.presence.next_lease() == 900
    with other.transaction() as turn:
        turn.expired(1_000)
        turn.leased(950)
    assert host.presence.next_lease() == 950


def test_an_expiry_that_was_rolled_back_raises_nothing(host):
    with host.transaction() as turn:
        turn.expired(700)

    def fails():
        with host.transaction() as turn:
            turn.expired(900)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert host.presence.next_lease() == 700


def test_a_lease_given_between_the_commit_of_an_expiry_and_its_news_is_not_forgotten(host, other):
    with host.transaction() as turn:
        turn.expired(100)
    with host.begun() as turn:
        turn.expired(900)
    with other.transaction() as second:
        second.leased(200)
    turn.tell()
    assert host.presence.next_lease() <= 200


# ---- pauses ---------------------------------------------------------------------------------------------------------


def pause(host, topic="t"):
    with host.transaction() as turn:
        number = turn.topic(topic)
        turn.execute("UPDATE topic SET paused = 1 WHERE id = ?", (number,))
        turn.changes.paused[number] = True


def test_a_pause_makes_all_read_again_and_rings_those_of_the_topic(host, other):
    mine, theirs = host.notifier("t"), other.notifier("u")
    settled(mine, theirs)
    pause(host)
    assert mine.wait(0) is True
    assert theirs.wait(0) is False
    assert mine.hints().reload
    assert theirs.hints().reload


def test_quiet_waits_for_all_that_handle_the_topic(host, other):
    a, b, c = host.notifier("t"), other.notifier("t"), other.notifier("u")
    settled(a, b, c)
    pause(host)
    assert host.presence.quiet("t", 0.01) is False
    for worker in (a, b):
        assert host.presence.quiet("t", 0) is False
        worker.quiet()  # of before the pause
        assert host.presence.quiet("t", 0) is False
        worker.hints()
        worker.quiet()
    assert host.presence.quiet("t", 0) is True


def test_quiet_returns_when_the_last_one_says_so(host, other):
    worker = other.notifier("t")
    settle(worker)
    pause(host)

    def work():
        while not worker.wait(LIMIT):
            pass
        worker.hints()
        worker.quiet()

    thread = threading.Thread(target=work)
    thread.start()
    assert host.presence.quiet("t", LIMIT) is True
    thread.join()


def test_quiet_does_not_wait_for_who_came_after_the_pause_nor_for_who_is_gone(host, other, clock):
    gone = host.notifier("t")
    pause(host)
    clock.advance(4)
    late = other.notifier("t")
    late.beat(0)
    assert gone.worker in host.members()
    assert host.presence.quiet("t", 0) is True


def test_quiet_is_false_for_a_topic_that_is_not_paused(host):
    host.put(1)
    assert host.presence.quiet("t", 0) is False
    assert host.presence.quiet("unheard of", 0) is False
