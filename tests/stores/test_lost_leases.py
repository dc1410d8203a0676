"""After an outage thousands of leases are over at once: on every store the jobs come again, each once, in order."""

import pytest

from pywheel.jobs import State
from pywheel.jobs.commands import ClaimPolicy, Expire, Reserve
from pywheel.jobs.job import Counts, NewJob
from pywheel.jobs.queries import CountJobs, GetStates
from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.stores import calls

JOBS = 5_000
PRIORITIES = (-9, 0, 3, 0, 5)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "redis", "redis-4"])
def store(clock, request, tmp_path):
    name, _, stores = request.param.partition("-")
    if name == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        url = request.getfixturevalue(f"{name}_server").url(**({"stores": stores} if stores else {}))
    with open(url, clock=clock) as store:
        yield store


def put(store, topic, jobs, due, **options):
    new = [NewJob(topic, b"", due, priority=PRIORITIES[place % len(PRIORITIES)], **options) for place in range(jobs)]
    ids = [id for first in range(0, jobs, 500) for id in calls.put(store, *new[first : first + 500])]
    return {id: job.priority for id, job in zip(ids, new, strict=True)}


def claim_all(store, topic, ttr=60_000):
    """Return the ids of all that can be claimed, in order."""
    found = []
    while jobs := store.apply([Reserve(topic, 500, ClaimPolicy(ttr, 3), "w")])[0]:
        found += [job.id for job in jobs]
    return found


def test_all_jobs_of_lost_leases_are_claimed_again_once_each_by_priority(store, clock):
    priorities = put(store, "t", JOBS, clock.wall())
    in_order = sorted(priorities, key=lambda id: (-priorities[id], id))
    assert sorted(claim_all(store, "t")) == sorted(in_order)
    clock.advance(61)
    found = claim_all(store, "t")
    if store.ids_grow:
        assert found == in_order
    assert sorted(found) == sorted(in_order)
    assert sorted(found, key=priorities.__getitem__, reverse=True) == found
    assert store.ask(CountJobs()) == {"t": Counts(running=JOBS)}


def test_lost_jobs_of_a_higher_priority_come_before_all_others(store, clock):
    urgent = calls.put(store, *(NewJob("t", b"", clock.wall(), priority=5) for _ in range(3_000)))
    claim_all(store, "t")
    clock.advance(61)
    for _ in range(8):
        calls.put(store, *(NewJob("t", b"", clock.wall() - 50_000) for _ in range(100)))
    [jobs] = store.apply([Reserve("t", 2_000, ClaimPolicy(60_000, 3), "w")])
    assert {job.priority for job in jobs} == {5}
    assert [job.id for job in jobs] == urgent[:2_000]


def test_many_jobs_that_run_and_many_that_are_lost_are_counted_each_in_its_state(store, clock):
    put(store, "lost", 700, clock.wall())
    last = put(store, "last", 600, clock.wall(), max_attempts=1)
    put(store, "last", 50, clock.wall() + 1_000_000)
    put(store, "runs", 800, clock.wall())
    claim_all(store, "lost")
    claim_all(store, "last")
    claim_all(store, "runs", ttr=600_000)
    clock.advance(61)
    expected = {"last": Counts(delayed=50, dead=600), "lost": Counts(delayed=700), "runs": Counts(running=800)}
    assert store.ask(CountJobs()) == expected
    [expired] = store.apply([Expire(10**6)])
    assert (expired.ended, expired.dead) == (1_300, tuple(sorted(last)))
    assert store.ask(CountJobs()) == expected
    assert store.ask(GetStates(list(last))) == [State.DEAD] * len(last)
