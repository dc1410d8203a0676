"""A process's record of the ends of leases: it knows the earliest without a query, in bounded memory."""

import time

from pywheel.stores.checks import FURTHEST
from pywheel.stores.relational.presence import Leases
from pywheel.stores.sql.transaction import Heads, Names

FOREVER = float("inf")


def test_the_earliest_end_counts_of_those_read_and_given():
    leases = Leases()
    assert leases.first(lambda: (50, 0)) == 50
    leases.gave(70)
    leases.gave(30)
    leases.gave(40)
    assert leases.first(lambda: (60, 0)) == 30


def test_a_lease_given_after_what_was_read_counts():
    leases = Leases()
    leases.first(lambda: (80, 0))
    before = time.monotonic()
    leases.gave(30)
    leases.found(80, before)
    assert leases.first(lambda: (90, 0)) == 30


# ---- what is not looked at ------------------------------------------------------------------------------------------


def test_leases_are_looked_at_from_the_last_look_on_less_what_may_be_under_way():
    leases, moment = Leases(), time.monotonic()
    assert leases.since() == -FURTHEST
    leases.looked(None, 1_000_000, moment)
    assert leases.since() == 1_000_000 - 10_000
    patient = Leases(5.0)
    patient.since()
    patient.looked(None, 1_000_000, moment)
    assert patient.since() == 1_000_000 - 15_000
    leases.looked(900_000, 1_000_500, moment)  # it is over, and nobody has ended it
    assert leases.since() == 900_000 - 10_000
    leases.looked(None, 500_000, moment)  # the server's clock went back
    assert leases.since() == 500_000 - 10_000


def test_all_leases_are_looked_at_once_in_a_while(monkeypatch):
    monkeypatch.setattr("pywheel.stores.relational.presence._ALL_AGAIN", 0.0)
    leases = Leases()
    leases.looked(None, 1_000_000, time.monotonic())
    assert leases.since() == leases.since() == -FURTHEST


def claimed(heads, seconds=0.0, usual=0.0):
    now = time.monotonic()
    heads.found(1, 0, 1, 50_000, 0, now - usual)
    heads.found(1, 0, None, 50_000, 3_000, now - seconds)
    return heads


def test_claims_begin_behind_what_has_gone_by_until_all_is_looked_at_again(monkeypatch):
    assert claimed(Heads()).first(1, 0) == 49_000
    assert Heads().first(1, 0) is None
    monkeypatch.setattr("pywheel.stores.sql.transaction._ALL_AGAIN", (0.0, 15.0))
    assert claimed(Heads(), seconds=-1).first(1, 0) is None
    assert claimed(Heads(), seconds=0.1).first(1, 0) == 49_000  # 10 s: it takes a hundredth of the time
    assert claimed(Heads(), seconds=0.1, usual=0.2).first(1, 0) is None  # the disk is slow, and not the look


def test_lost_leases_are_ended_once_a_second_however_seldom_all_is_looked_at(monkeypatch):
    heads = claimed(Heads(), seconds=10)
    assert heads.first(1, 0) is not None
    assert [heads.leases_wait(1) for _ in range(3)] == [False, True, True]
    monkeypatch.setattr("pywheel.stores.sql.transaction._ALL_AGAIN", (0.0, 15.0))
    assert heads.leases_wait(1) is False
    assert Heads().leases_wait(1) is Heads().leases_wait(1) is False  # of few claimed jobs


def test_a_job_of_which_others_tell_is_looked_at_at_once():
    names = Names("topic")
    names.learn({"t": 1})
    claimed(names.heads)
    assert names.head_of("t") == 49_000
    names.changed("t", 7_000)
    assert (names.heads.first(1, 0), names.head_of("t")) == (7_000, 7_000)
    names.changed("unknown", 1)
    assert names.head_of("unknown") == -FURTHEST
