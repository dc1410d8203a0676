"""What a process knows of the ends of leases without asking: the earliest, in a room that does not grow."""

import pickle
import time

from pywheel.stores.relational.presence import Leases

FOREVER = float("inf")


def test_the_earliest_end_counts_of_those_read_and_given():
    leases = Leases()
    assert leases.first(lambda: (50, 0)) == 50
    leases.gave(70)
    leases.gave(30)
    leases.gave(40)
    assert leases.first(lambda: (60, 0)) == 30


def test_what_was_read_after_a_lease_was_given_counts_instead():
    leases = Leases()
    leases.gave(30)
    leases.found(80, FOREVER)
    assert leases.first(lambda: (1, 0)) == 80
    leases.found(None, FOREVER)
    assert leases.first(lambda: (1, 0)) is None


def test_a_lease_given_after_what_was_read_counts():
    leases = Leases()
    leases.first(lambda: (80, 0))
    before = time.monotonic()
    leases.gave(30)
    leases.found(80, before)
    assert leases.first(lambda: (90, 0)) == 30


def test_many_leases_take_no_more_room_than_one():
    leases = Leases()
    leases.gave(10**12)
    size = len(pickle.dumps(leases))
    for number in range(1_000):
        leases.gave(10**12 + number)
    assert len(pickle.dumps(leases)) <= size + 10
