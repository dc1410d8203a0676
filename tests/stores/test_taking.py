"""Claims of due jobs in one statement, and beside a transaction that keeps the jobs that they leave."""

from __future__ import annotations

import time

import pytest

from pywheel.jobs import commands as ops
from pywheel.jobs.limits import Limits
from pywheel.jobs.queries import GetNextDues
from pywheel.stores import open
from tests.jobs.waiting import until
from tests.stores.calls import TERMS, put_many

LIMITED = TERMS._replace(limits=Limits(1_000))


@pytest.fixture
def store(sql_server):
    with open(sql_server.url()) as store:
        yield store


def claim(store, limit=100, begin=100, terms=TERMS):
    return store.apply([ops.Claim("t", (), terms, "w", begin, limit=limit)])[0]


def ack(store, claimed):
    return store.apply([ops.Ack(job.id, job.claims) for job in claimed.jobs])


def now_ms():
    return time.time_ns() // 1_000_000


def work_off(store, terms=TERMS):
    """Put thousands of jobs that are due, claim and end them: from then on claims begin behind them."""
    for _ in range(3):
        put_many(store, 1_000, due=now_ms())
        assert len(ack(store, claim(store, 1_000, 1_000, terms))) == 1_000


def put_by_another(store, **options):
    """Put a job by a store that tells this one nothing; return its id."""
    with open(store.secret_url) as other:
        return put_many(other, **options)[0]


def test_a_claim_says_that_none_of_its_jobs_has_begun(store):
    put_many(store, 5)
    claim(store, 1)
    for limit in (2, 100):  # as many as are wanted, and all that are left
        claimed = claim(store, limit, begin=0)
        assert (len(claimed.jobs), claimed.begun) == (2, 0)


def test_a_claim_that_may_have_left_due_jobs_is_followed_by_another_one_at_once(store):
    put_many(store, 5)
    claim(store, 1)
    assert claim(store, 2).next <= now_ms()
    assert (len(claim(store, 3).jobs), claim(store).next) == (2, None)


def test_of_several_priorities_together_as_many_begin_as_are_to(store):
    put_many(store, 3)
    put_many(store, 3, priority=5)
    claim(store, 1)
    claimed = claim(store, 5, begin=3)
    first = min(job.lease_until for job in claimed.jobs)
    assert [job.lease_until - first > 20_000 for job in claimed.jobs] == [True] * 3 + [False] * 2  # those are held
    assert claimed.begun == 3


def test_the_bodies_of_several_priorities_together_are_no_more_than_wanted(store):
    put_many(store, 3)
    put_many(store, 3, priority=5)
    claim(store, 1)
    [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 5, limit=5, bytes=4)])
    assert 2 <= len(claimed.jobs) <= 4  # of one byte each


@pytest.mark.parametrize("command", [ops.Claim("t", (), TERMS, "w", 9, limit=9), ops.Reserve("t", 9, TERMS, "w")])
def test_a_claim_tells_the_servers_time(store, command):
    """Else a worker whose own idea of it is late would take its jobs for early ones."""
    for _ in range(2):
        put_many(store)
        store.clock._known, store.clock._ahead = (-1e12, 1e12, time.monotonic()), 0.0
        store.apply([command])
        assert abs(store.clock.wall() - now_ms()) < 60_000


def test_another_priority_is_claimed_first_as_soon_as_it_is_there(store):
    put_many(store, 3)
    claim(store, 1)
    high = put_by_another(store, priority=5)
    assert claim(store, 2).jobs[0].id == high


def test_what_comes_after_a_claim_sees_what_it_has_chosen(store):
    _, second, third, _ = put_many(store, 4)
    ack(store, claim(store, 1))
    one_byte = ops.Claim("t", (), TERMS, "w", 1, 0, 1, 2)
    claimed, rest, expired = store.apply([one_byte, ops.Claim("t", (), TERMS, "w", 1, limit=1), ops.Expire(10)])
    assert [job.id for job in (*claimed.jobs, *rest.jobs)] == [second, third]
    assert expired.next_lease == min(claimed.jobs[0].lease_until, rest.jobs[0].lease_until)


@pytest.mark.parametrize("terms", [TERMS, LIMITED], ids=["free", "limited"])
def test_a_job_that_another_store_puts_before_the_first_is_claimed_within_a_second(store, terms):
    work_off(store, terms)
    early = put_by_another(store, due=now_ms() - 60_000)

    def taken():
        claimed = claim(store, terms=terms)
        assert claimed.jobs or claimed.next <= now_ms() + 1_100
        return claimed.jobs

    assert [job.id for job in until(taken)] == [early]


def test_a_job_of_ones_own_that_is_due_before_the_first_is_claimed_at_once(store):
    work_off(store)
    [early] = put_many(store, due=now_ms() - 60_000)
    assert [job.id for job in claim(store).jobs] == [early]


def test_reserving_begins_where_it_was_and_looks_at_all_within_a_second(store):
    """What others put that is due before, and a lease that is over."""
    work_off(store)
    [lost] = put_many(store, due=now_ms())
    assert len(store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1, 3, slack=0), "w")])[0]) == 1
    early = put_by_another(store, due=1)
    found = [until(lambda: store.apply([ops.Reserve("t", 1, TERMS, "w")])[0])[0].id for _ in range(2)]
    assert sorted(found) == [lost, early]


def test_a_look_at_due_times_finds_a_job_that_claims_have_passed_by(store, monkeypatch):
    """As its transaction stayed open for long, and was rolled back: nobody tells of it."""
    work_off(store)
    early = put_by_another(store, due=1)
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 3_600)  # no claim for an hour
    assert store.ask(GetNextDues(["t"])) == {"t": 1}
    assert [job.id for job in claim(store).jobs] == [early]


@pytest.fixture
def texts(store, monkeypatch):
    """The templates of the statements that go to the server."""
    texts, rendered = [], type(store.dialect).text
    monkeypatch.setattr(
        type(store.dialect), "text", lambda dialect, text: [texts.append(text), rendered(dialect, text)][1]
    )
    return texts


def test_claims_under_a_limit_pass_by_what_went_before(store, texts):
    bounded = []
    for _ in range(4):
        put_many(store, 1_000, due=now_ms())
        texts.clear()
        claimed = claim(store, 1_000, 1_000, terms=LIMITED)
        bounded.append(any("j.next >= :due" in text for text in texts))
        assert len(ack(store, claimed)) == 1_000
    assert bounded == [False, False, True, True]


def test_a_walk_through_groups_begins_at_the_first_job(store):
    """A worker believes that it has seen all that is due before the walk."""
    grouped = TERMS._replace(limits=Limits(1_000, "-"))
    work_off(store, grouped)
    early = put_by_another(store, due=now_ms() - 60_000)
    assert [job.id for job in claim(store, terms=grouped).jobs] == [early]


def test_reserving_passes_by_what_went_before(store, texts, monkeypatch):
    monkeypatch.setattr(
        "pywheel.stores.sql.transaction._ALL_AGAIN", (3_600.0, 3_600.0)
    )  # no lease is looked for meanwhile

    def reserve(count):
        put_many(store, count, due=now_ms())
        texts.clear()
        [jobs] = store.apply([ops.Reserve("t", count, TERMS, "w")])
        assert len(jobs) == count
        return any("j.next >= :due" in text for text in texts), any("j.state = 1" in text for text in texts)

    assert reserve(10) == (False, True)
    for _ in range(2):
        reserve(1_000)
    reserve(10)
    assert reserve(10) == (True, False)
