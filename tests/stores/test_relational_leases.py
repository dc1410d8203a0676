"""A process's record of the ends of leases: it knows the earliest without a query, in bounded memory."""

import time
from itertools import pairwise

import pytest

from pywheel import ManualClock
from pywheel.jobs.checks import FURTHEST
from pywheel.jobs.queries import GetNextDues
from pywheel.stores.relational.presence import Leases
from pywheel.stores.sql.read import next_dues
from pywheel.stores.sql.transaction import Heads, Look, Lookup, Names

FOREVER = float("inf")


def test_the_earliest_end_counts_of_those_read_and_those_given_meanwhile():
    leases = Leases()
    assert leases.first(lambda: (80, 0)) == 80
    before = time.monotonic()
    for end in (70, 30, 40):
        leases.gave(end)
    leases.found(80, before)
    assert leases.first(lambda: (90, 0)) == 30


# ---- what is not looked at ------------------------------------------------------------------------------------------


def test_leases_are_looked_at_from_the_last_look_on_less_what_may_be_under_way():
    leases, patient = Leases(), Leases(5.0)
    assert leases.since() == patient.since() == -FURTHEST
    patient.looked(None, 1_000_000, time.monotonic())
    assert patient.since() == 1_000_000 - 15_000
    for first, now, since in (
        (None, 1_000_000, 1_000_000),
        (900_000, 1_000_500, 900_000),  # it is over, and nobody has ended it
        (None, 500_000, 500_000),  # the server's clock went back
    ):
        leases.looked(first, now, time.monotonic())
        assert leases.since() == since - 10_000


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
    heads.found(1, 0, Look(None, *part), due, jobs, time.monotonic() - seconds, earlier)


def part_of(heads):
    return heads.look(1, 0)[1:]


@pytest.fixture
def clock(monkeypatch):
    """A monotonic clock that stands still."""
    clock = ManualClock()
    monkeypatch.setattr(time, "monotonic", clock.time)
    return clock


@pytest.fixture
def heads(clock):
    """Heads after many claims."""
    heads = Heads()
    note(heads)
    note(heads, part=part_of(heads))
    return heads


@pytest.fixture
def far(heads):
    """Heads whose claims begin late, behind a long time in which nothing is due."""
    for due in range(60_000, 1_000_000, 10_000):
        note(heads, due=due, seconds=0.03)
    return heads


def next_part(heads, clock):
    while (part := part_of(heads)) == (0, 0):
        clock.advance(0.001)
    return part


def seen(heads, clock):
    """Return the parts that claims look at, from the first to the last."""
    parts = [next_part(heads, clock)]
    while parts[-1][1] != heads.first(1, 0):
        note(heads, jobs=0, due=heads.first(1, 0) + 1_000, part=parts[-1])
        parts.append(next_part(heads, clock))
    return parts


def test_claims_begin_behind_what_has_gone_by(heads):
    assert heads.first(1, 0) == 49_000
    assert (Heads().first(1, 0), part_of(Heads())) == (None, (0, 0))


def test_claims_look_at_what_is_earlier_a_part_at_a_time(far, clock):
    for _ in range(2):  # again and again
        parts = seen(far, clock)
        assert 60 < len(parts) < 130
        assert [since for since, _ in parts] == [-FURTHEST, *(until for _, until in parts[:-1])]
        note(far, jobs=0, due=far.first(1, 0) + 1_000, part=parts[-1])
    note(far, jobs=0, due=70_000)  # there is a job that is due earlier
    assert len(seen(far, clock)) < 10


def test_the_parts_stay_equal_however_many_jobs_are_claimed(heads, clock):
    for due in range(100_000, 3_000_000, 1_000):
        note(heads, jobs=1_000, due=due)
    ends = [until for _, until in seen(heads, clock)]
    parts = [until - since for since, until in pairwise(ends)]
    assert len(parts) > 60
    assert max(parts) <= 4 * (ends[-1] - ends[0]) / len(parts)


@pytest.mark.parametrize("seconds", [0.001, 0.02, 10])
def test_claims_that_come_seldom_look_at_all_in_time(far, clock, seconds):
    """Also where looks take long: an idle worker claims once a second."""
    reached, rounds = -FURTHEST, []
    for second in range(40):
        clock.advance(1)
        since, until = part_of(far)
        assert since in (-FURTHEST, reached)
        reached = until
        if until == far.first(1, 0):
            rounds.append(second)
        note(far, jobs=0, due=far.first(1, 0) + 1_000, part=(since, until), seconds=seconds)
    assert rounds[0] < 20
    assert all(later - earlier < 20 for earlier, later in pairwise(rounds))


def test_looks_of_claims_that_come_seldom_take_little_time(far, clock):
    """A look at a few parts may take less time than claims did while there were many jobs."""
    clock.advance(60)
    spent = 0.0
    for _ in range(60):
        since, until = part_of(far)
        seconds = 0.5 * (until - max(since, 0)) / 1_000_000  # half a second for a look at all
        note(far, jobs=0, due=far.first(1, 0) + 1_000, part=(since, until), seconds=seconds)
        spent += seconds
        clock.advance(1)
    assert spent < 4


def test_an_earlier_job_is_where_the_next_claim_begins(heads, clock):
    note(heads, part=next_part(heads, clock), earlier=7)
    assert heads.first(1, 0) == 7


@pytest.mark.parametrize(("earlier", "first"), [(None, 7_000), (20_000, 7_000), (6_000, 6_000)])
def test_a_claim_leaves_an_earlier_job_of_which_another_thread_told_meanwhile(heads, earlier, first):
    look = heads.look(1, 0)
    heads.changed(1, 7_000)
    heads.found(1, 0, look, 60_000, 1, 0.0, earlier)
    assert heads.first(1, 0) == first


@pytest.mark.parametrize(("seconds", "pause"), [(0.001, 0.5), (0.02, 1.9), (1, 7.5)])
def test_looks_at_two_parts_take_a_hundredth_of_the_time_and_a_second_to_15(heads, clock, seconds, pause):
    note(heads, jobs=0, seconds=0.001)  # a claim as usual
    note(heads, jobs=0, seconds=seconds, part=(0, 1))
    clock.advance(pause - 0.01)
    assert part_of(heads) == (0, 0)
    clock.advance(0.02)
    assert part_of(heads) != (0, 0)


class Number(int):
    """A topic's number that counts how often it is compared."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other):
        self.compared += 1
        return int(self) == other


def test_what_is_known_of_a_topic_is_found_without_a_look_at_others():
    heads, topic = Heads(), Number(70_000)
    for number in range(1_000):
        heads.found(number, 0, Look(None, 0, 0), 50_000, 3_000, 0.0, None)
    assert heads.of(topic) is None
    heads.changed(topic, 1)
    assert topic.compared < 10


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


def asked(names, *topics):
    [asked] = next(next_dues(Lookup(names, names, ()), GetNextDues(topics)))
    return asked.values["w"]


def test_the_first_due_time_is_looked_for_from_where_claims_begin(clock):
    names = Names("topic")
    names.learn({"new": 2, "t": 1})
    note(names.heads)
    note(names.heads, part=part_of(names.heads))
    assert asked(names, "t", "new", "t") == [(1, 49_000), (2, -FURTHEST)]
    clock.advance(15)  # nothing was claimed: so nobody has looked at what is earlier
    assert asked(names, "t") == [(1, -FURTHEST)]
