"""A process's record of the ends of leases: it knows the earliest without a query, in bounded memory."""

import time

import pytest

from pywheel.jobs.queries import GetNextDues
from pywheel.stores.checks import FURTHEST
from pywheel.stores.relational.presence import Leases
from pywheel.stores.sql.read import next_dues
from pywheel.stores.sql.transaction import Heads, Lookup, Names

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


def test_beats_look_at_the_leases_twice_a_second(monkeypatch):
    leases = Leases()
    assert leases.due(100.0)
    leases.looked(None, 1_000_000, 100.0)
    assert [leases.due(moment) for moment in (100.2, 100.4, 100.5)] == [False, False, True]


def note(heads, jobs=3_000, due=50_000, seconds=0.0, part=(0, 0), earlier=None):
    heads.found(1, 0, due, jobs, time.monotonic() - seconds, part, earlier)


@pytest.fixture
def heads():
    """Heads after many claims."""
    heads = Heads()
    note(heads)
    return heads


@pytest.fixture
def at_once(monkeypatch):
    """Let no time go by between looks at parts."""
    monkeypatch.setattr("pywheel.stores.sql.transaction._ALL_AGAIN", (0.0, 0.0))


def seen(heads):
    """Return the parts that claims look at, from the first to the last."""
    parts = [heads.part(1, 0)]
    while parts[-1][1] != heads.first(1, 0):
        note(heads, jobs=0, due=heads.first(1, 0) + 1_000, part=parts[-1])
        parts.append(heads.part(1, 0))
    return parts


def test_claims_begin_behind_what_has_gone_by(heads):
    assert heads.first(1, 0) == 49_000
    assert (Heads().first(1, 0), Heads().part(1, 0)) == (None, (0, 0))


def test_claims_look_at_what_is_earlier_a_part_at_a_time(heads, at_once):
    for due in range(60_000, 1_000_000, 10_000):
        note(heads, due=due)
    for _ in range(2):  # again and again
        parts = seen(heads)
        assert 60 < len(parts) < 130
        assert [since for since, _ in parts] == [-FURTHEST, *(until for _, until in parts[:-1])]
        note(heads, jobs=0, due=heads.first(1, 0) + 1_000, part=parts[-1])
    note(heads, jobs=0, due=70_000)  # there is a job that is due earlier
    assert len(seen(heads)) < 10


def test_an_earlier_job_is_where_the_next_claim_begins(heads, at_once):
    note(heads, part=heads.part(1, 0), earlier=7)
    assert heads.first(1, 0) == 7


@pytest.mark.parametrize(("seconds", "pause"), [(0.001, 0.5), (0.02, 1.9), (1, 7.5)])
def test_looks_at_two_parts_take_a_hundredth_of_the_time_and_a_second_to_15(heads, monkeypatch, seconds, pause):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    note(heads, jobs=0, seconds=0.001)  # a claim as usual
    note(heads, jobs=0, seconds=seconds, part=(0, 1))
    for moment, looks in ((99.99, False), (100.01, True)):
        monkeypatch.setattr(time, "monotonic", lambda moment=moment: moment + pause)
        assert (heads.part(1, 0) != (0, 0)) is looks


def test_lost_leases_are_ended_once_a_second(heads, monkeypatch):
    assert [heads.leases_wait(1) for _ in range(3)] == [False, True, True]
    monkeypatch.setattr("pywheel.stores.sql.transaction._ALL_AGAIN", (0.0, 0.0))
    assert heads.leases_wait(1) is False
    assert Heads().leases_wait(1) is Heads().leases_wait(1) is False  # of few claimed jobs


def test_a_job_of_which_others_tell_is_looked_at_at_once():
    names = Names("topic")
    names.learn({"t": 1})
    note(names.heads)
    assert names.head_of("t") == 49_000
    names.changed("t", 7_000)
    assert (names.heads.first(1, 0), names.head_of("t")) == (7_000, 7_000)
    names.changed("unknown", 1)
    assert names.head_of("unknown") == -FURTHEST


def test_the_first_due_time_is_looked_for_from_where_claims_begin():
    names = Names("topic")
    names.learn({"new": 2, "t": 1})
    note(names.heads)
    [asked] = next(next_dues(Lookup(names, names, ()), GetNextDues(["t", "new", "t"])))
    assert asked.values["w"] == [(1, 49_000), (2, -FURTHEST)]
