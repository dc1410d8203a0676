"""The next lease, and when a paused topic is quiet, as the workers' page knows them."""

import threading
import time
from contextlib import suppress

import pytest

from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetNextLease
from pywheel.stores import open
from pywheel.stores.sqlite import page
from tests.jobs.waiting import until as until
from tests.stores.files import put
from tests.stores.notifying import run

# ---- leases ---------------------------------------------------------------------------------------------------------


def test_the_next_lease_is_read_once_for_a_new_page(host, other):
    run(host, lease=500)
    assert host.presence.next_lease() == 500
    with host.transaction() as turn:
        turn.leased(700)
    before = host.queries + other.queries
    assert host.presence.next_lease() == other.presence.next_lease() == 500
    assert host.queries + other.queries == before


def test_an_expiry_that_was_rolled_back_raises_nothing(host):
    with host.transaction() as turn:
        turn.leased(700)

    def fails():
        with host.transaction() as turn:
            turn.expired(700)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert host.presence.next_lease() == 700


class Stopped(BaseException):
    """A process was stopped, and then killed."""


class Stopping:
    """The words of a page, at whose so many-th look at LEASE something happens, and the process ends after it."""

    def __init__(self, words, at, meanwhile):
        self.words, self.left, self.meanwhile = words, at, meanwhile

    def __getitem__(self, place):
        return self.pass_by(place, lambda: self.words[place])

    def __setitem__(self, place, value):
        self.pass_by(place, lambda: self.words.__setitem__(place, value))

    def pass_by(self, place, look):
        self.left -= place == page.LEASE
        if place != page.LEASE or self.left:
            return look()
        self.meanwhile()
        look()
        raise Stopped


@pytest.mark.parametrize("at", range(1, 4))
def test_no_lease_is_forgotten_where_a_process_is_stopped_and_then_killed(path, at):
    """While it stands, another one gives a lease, if it is not kept from committing."""
    with open(f"sqlite:///{path}") as store, open(f"sqlite:///{path}") as other:
        put(store)
        [[job]] = store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1, 3), "w")])
        put(other)
        until(lambda: time.time() * 1_000 > job.lease_until)
        threads = []

        def give():
            thread = threading.Thread(
                target=other.apply, args=([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")],)
            )
            thread.start()
            thread.join(0.2)
            threads.append(thread)

        words = store._presence.page.words
        store._presence.page.words = Stopping(words, at, give)
        with suppress(Stopped):
            store.apply([ops.Expire(9)])
        store._presence.page.words = words
        if not threads:
            give()
        threads.pop().join(60)
        assert other.ask(GetNextLease()) is not None


# ---- pauses ---------------------------------------------------------------------------------------------------------


def pause(host, topic="t"):
    with host.transaction() as turn:
        number = turn.topic(topic)
        turn.execute("UPDATE topic SET paused = 1 WHERE id = ?", (number,))
        turn.changes.paused[number] = True


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
