"""Defects of the keys are found, reported, and repaired from the jobs."""

import struct

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.limits import Limits
from pywheel.jobs.queries import CountJobs, GetJob, GetNextLease, ListNotes
from pywheel.stores import verify as faults
from tests.stores.calls import TERMS, put
from tests.stores.damaged import NOW, Jobs, found, ids, mended
from tests.stores.on_redis import keys
from tests.stores.server import store_of


@pytest.fixture
def jobs(store):
    return Jobs(store)


@pytest.fixture
def client(client, store):
    """Keys by what follows the store's prefix; after the test the keys are looked at in another way too."""
    yield Prefixed(client, store.server.prefix)
    assert keys.faults(client, store_of(store.secret_url)) == []


class Prefixed:
    def __init__(self, client, prefix):
        self.client, self.prefix = client, prefix

    def __call__(self, command, key, *values):
        return self.client.execute_command(command, self.prefix + key.encode(), *values)

    def delete(self, *patterns):
        for pattern in patterns:
            for key in list(self.client.scan_iter(match=self.prefix + pattern.encode())):
                self.client.delete(key)


def packed(id):
    return struct.pack(">Q", id)[2:]


def test_all_sets_and_keys_are_made_anew_from_the_jobs(store, jobs, client):
    before = [store.ask(GetJob(id)) for id in jobs]
    client.delete(":d:*", ":f:*", ":k:*", ":o:*", ":x", ":t", ":l", ":l:*", ":g:*", ":f?")
    wrong = found(store)
    assert wrong[faults.NOWHERE.what] == [jobs.plain, jobs.keyed, jobs.again]
    assert wrong[faults.KEYLESS.what] == [jobs.keyed, jobs.running]
    assert mended(store) == wrong
    after = [store.ask(GetJob(id)) for id in jobs]
    assert [job.state for job in after] == [job.state for job in before]
    assert after[-1] == before[-1]  # a job that was claimed says when it is due
    assert [job.due for job in after[:2]] == [NOW, NOW]
    assert store.ask(CountJobs())["t"] == (3, 1, 1, 1, 1)
    assert store.ask(GetJob(("t", "key"))).id == jobs.keyed


def test_what_stands_where_it_should_not_is_dropped(store, jobs, client):
    client("ZADD", ":d:0:t", NOW, packed(jobs.done), NOW, packed(999), NOW, packed(jobs.running))
    client("ZADD", ":l:t", NOW, packed(jobs.plain))
    client("ZADD", ":f:2t", NOW, packed(jobs.cancelled))
    client("ZADD", ":d:0:u", NOW, packed(jobs.keyed))
    expected = ids(
        (faults.TWICE, sorted([jobs.plain, jobs.keyed, jobs.running, jobs.done, jobs.cancelled])),
        (faults.NO_JOB, [999]),
    )
    assert found(store) == expected
    assert mended(store) == expected


def test_a_time_that_is_not_the_jobs_own_is_mended(store, jobs, client):
    client("ZADD", ":l:t", NOW + 10**9, packed(jobs.running))
    client("ZADD", ":f:2t", 1, packed(jobs.done))
    assert mended(store) == ids((faults.INDEXES, [jobs.running, jobs.done]))


@pytest.fixture
def ranked(store):
    """One job of high priority and a suspect, which wait, and one of low priority that runs and has a key."""
    low, suspect, high = put(
        store,
        NewJob("r", b"", NOW - 5, "k", priority=-3),
        NewJob("r", b"", NOW - 4),
        NewJob("r", b"", NOW + 50, priority=7),
    )
    limited = ClaimPolicy(60_000, 3, limits=Limits(5, ":"))
    store.apply([ops.Claim("r", (low,), limited, "w", 1), ops.Claim("r", (suspect,), ClaimPolicy(5, 3), "w", 1)])
    store.clock.advance(0.005)
    assert store.apply([ops.Expire(10)])[0].ended == 1
    assert store.verify() == []
    return high, suspect, low


def test_lanes_are_made_anew_from_the_jobs(store, ranked, client):
    high, suspect, low = ranked
    client.delete(":d:*", ":g:*")
    expected = ids((faults.NOWHERE, [suspect, high]), (faults.INDEXES, [low]))
    assert found(store) == expected
    assert mended(store) == expected
    assert client("ZRANGE", ":g:r", 0, -1) == [b"k\0" + packed(low)]
    client.delete(":d:*")
    client("HSET", ":t", "r", "")  # which priorities it has
    assert mended(store) == ids((faults.NOWHERE, [suspect, high]))
    assert client("ZSCORE", ":d:0s:r", packed(suspect)) == NOW + 5
    assert client("ZRANGE", ":d:7:r", 0, -1) == [packed(high)]
    store.clock.advance(1)
    [jobs] = store.apply([ops.Reserve("r", 5, TERMS, "w")])
    assert [job.id for job in jobs] == [high, suspect]


def test_leases_that_nobody_would_end_are_listed(store, ranked, client):
    client.delete(":l")
    assert mended(store) == ids((faults.INDEXES, [ranked[2]]))
    assert store.ask(GetNextLease()) == NOW + 60_000


def test_ends_that_no_purge_would_look_for_are_listed(store, jobs, client):
    client.delete(":f?")
    store.clock.advance(1)
    assert mended(store) == ids((faults.INDEXES, list(jobs)[:5]))  # of seven
    assert [store.apply([ops.Purge(state, 1_000, None, 9)]) for state in (State.DONE, State.DEAD, State.CANCELLED)] == [
        [1], [1], [1],
    ]  # fmt: skip


def test_what_stands_wrongly_in_lanes_is_dropped(store, ranked, client):
    high, suspect, low = ranked
    client("ZADD", ":d:7:r", NOW, packed(low), NOW, packed(999))
    client("ZADD", ":d:5:r", NOW, packed(high))
    client("ZADD", ":d:0:r", NOW, packed(suspect))
    client("ZADD", ":g:r", 0, b"k\0" + packed(high), 0, b"other\0" + packed(low))
    expected = ids((faults.TWICE, [low, suspect, high]), (faults.NO_JOB, [999]))
    assert found(store) == expected
    assert mended(store) == expected


def test_keys_are_those_of_live_jobs(store, jobs, client):
    client("HSET", ":k:t", "old", packed(jobs.done), "gone", packed(999), "key", packed(jobs.plain))
    client("ZADD", ":o:t", 0, b"key\0" + packed(jobs.plain))
    expected = ids((faults.KEYS, [jobs.plain, jobs.done, 999]), (faults.KEYLESS, [jobs.keyed]))
    assert {what: some for what, some in found(store).items() if what in expected} == expected
    mended(store)
    [outcome] = store.apply([ops.Put((NewJob("t", b"", NOW, "key"),))])
    assert outcome.id == jobs.keyed


def test_states_history_and_results_of_no_job_are_dropped(store, jobs, client):
    client("HSET", ":s:" + "\0" * 5, packed(200), b"x")
    client("RPUSH", ":h:300", b"x")
    client("RPUSH", f":h:{jobs.plain}", b"x")
    client("HSET", ":r:" + "\0" * 5, packed(250), b"x", packed(jobs.done), b"x")
    assert mended(store) == ids((faults.HISTORY, [jobs.plain, jobs.done, 200, 250, 300]))


def test_ids_go_on_behind_the_last_job(store, jobs, client):
    client("SET", ":n", 2)
    assert mended(store) == ids((faults.IDS, list(jobs)[2:]))
    assert put(store) == [max(jobs) + 1]


def test_notes_are_listed_as_they_are(store, jobs, client):
    store.apply([ops.SetNote("stays", b"s"), ops.SetNote("ends", b"e", 10**6), ops.SetNote("lost", b"l", 10**6)])
    assert store.verify() == []
    client("ZREM", ":c", "stays")
    client("ZADD", ":c", 0, "none")
    client("ZADD", ":c:ends", NOW, "stays", NOW, "ends", NOW, "none either")
    client("ZREM", ":c:ends", "lost")
    assert mended(store) == {faults.NOTES.what: ["ends", "lost", "none", "none either", "stays"]}
    assert store.ask(ListNotes("")) == [("ends", b"e"), ("lost", b"l"), ("stays", b"s")]
    assert store.apply([ops.Purge(State.DONE, 0, "none", 100)]) == [0]
    assert store.ask(ListNotes("")) == [("ends", b"e"), ("lost", b"l"), ("stays", b"s")]


def test_a_thousand_jobs_are_made_anew_in_steps(store, client):
    ids = put(store, *(NewJob("t", b"", NOW, f"k{n}") for n in range(1_000)))
    [claimed] = store.apply([ops.Reserve("t", 400, TERMS, "w")])
    store.apply([ops.Ack(job.id, job.claims) for job in claimed[:240]])
    client.delete(":d:*", ":f:*", ":k:*", ":o:*", ":x", ":t", ":l", ":l:*", ":g:*", ":f?")
    assert {finding.number for finding in store.verify() if finding.what == faults.NOWHERE.what} == {600}
    mended(store)
    assert store.ask(CountJobs())["t"][:3] == (600, 160, 240)
    last = store.ask(GetJob(("t", "k999")))
    assert (last.id, last.state) == (ids[-1], State.DELAYED)
