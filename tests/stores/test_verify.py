"""What is wrong with a file, or with a store in memory, is found, told, and mended."""

import sqlite3

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListJobs
from pywheel.stores import Filter, open
from pywheel.stores import verify as faults
from pywheel.stores.sqlite import dialect
from pywheel.testing import ManualClock
from tests.stores.damaged import NOW, Jobs, beside, found, mended


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture(autouse=True)
def _no_tail(monkeypatch):
    """All jobs are in the counts, none are counted by who reads: so counts can be wrong."""
    monkeypatch.setattr(dialect, "TAIL", 1)


def ids(*pairs):
    return {fault.what: list(some) for fault, some in pairs}


@pytest.fixture
def sqlite(tmp_path, clock):
    with open(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store:
        yield store


def damage(store, *statements):
    """Write past the store."""
    connection = sqlite3.connect(store.path, isolation_level=None)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
    connection.close()


def test_sqlite_a_state_that_is_none_is_delayed_again(sqlite):
    jobs = Jobs(sqlite)
    damage(
        sqlite,
        ("UPDATE job SET state = 9 WHERE id = ?", (jobs.keyed,)),
        ("UPDATE finished SET state = 9 WHERE id = ?", (jobs.dead,)),
    )
    expected = ids((faults.NOWHERE, [jobs.keyed, jobs.dead]), (faults.COUNTS, ["t"]))
    assert found(sqlite) == expected
    assert mended(sqlite) == expected
    for id in (jobs.dead, jobs.keyed):
        job = sqlite.ask(GetJob(id))
        assert (job.state, job.due, job.attempt) == (State.DELAYED, NOW, 0)
    assert [attempt.error for attempt in sqlite.ask(GetHistories([jobs.dead]))[0]] == ["e"]
    assert sqlite.ask(GetJob(("t", "key"))).id == jobs.keyed


def test_sqlite_a_job_that_is_delayed_again_leaves_its_key_to_the_live_job_that_has_it(sqlite):
    jobs = Jobs(sqlite)
    sqlite.apply([ops.Put((NewJob("t", b"new", NOW, "old"),))])
    damage(sqlite, ("UPDATE finished SET state = 9 WHERE id = ?", (jobs.done,)))
    assert mended(sqlite) == ids((faults.NOWHERE, [jobs.done]), (faults.COUNTS, ["t"]))
    assert sqlite.ask(GetJob(jobs.done)).state is State.DELAYED
    assert sqlite.ask(GetJob(("t", "old"))).body == b"new"


def test_sqlite_a_job_that_is_live_and_finished_is_finished(sqlite):
    jobs = Jobs(sqlite)
    columns = "topic, due, created, body"
    again = f"INSERT INTO job (id, next, {columns}) SELECT id, due, {columns} FROM finished WHERE id = ?"
    damage(sqlite, (again, (jobs.done,)))
    expected = ids((faults.TWICE, [jobs.done]), (faults.COUNTS, ["t"]))
    assert found(sqlite) == expected
    assert mended(sqlite) == expected
    assert sqlite.ask(GetJob(jobs.done)).state is State.DONE


@pytest.mark.parametrize("wrong", ["unspent = 5", "unspent = -1", "started = NULL"])
def test_sqlite_a_claim_that_cannot_be_is_void(sqlite, wrong):
    jobs = Jobs(sqlite)
    damage(sqlite, f"UPDATE job SET {wrong} WHERE state = 1")
    assert mended(sqlite) == ids((faults.LEASES, [jobs.running]))
    assert sqlite.apply([ops.Ack(jobs.running, 1)]) == [False]
    sqlite.clock.advance(61)
    assert sqlite.ask(GetJob(jobs.running)).state is State.DELAYED


def test_sqlite_history_beyond_the_claims_is_kept_and_claims_go_on_behind_it(sqlite):
    jobs = Jobs(sqlite)
    row = "INSERT INTO attempt (job, claim, attempt, ended, outcome) VALUES (?, 4, 4, 0, 2)"
    damage(sqlite, *((row, (id,)) for id in (jobs.again, jobs.running, jobs.dead)))
    assert found(sqlite) == ids((faults.CLAIMS, [jobs.running, jobs.dead, jobs.again]))
    mended(sqlite)
    assert (sqlite.ask(GetJob(jobs.again)).claims, sqlite.ask(GetJob(jobs.again)).attempt) == (4, 1)
    assert (sqlite.ask(GetJob(jobs.running)).claims, sqlite.ask(GetJob(jobs.running)).attempt) == (5, 1)
    assert [attempt.claim for attempt in sqlite.ask(GetHistories([jobs.dead]))[0]] == [4, 5]
    sqlite.clock.advance(10**4)
    [job] = [
        job for job in sqlite.apply([ops.Reserve("t", 100, ops.ClaimPolicy(9, 9), "w")])[0] if job.id == jobs.again
    ]
    assert sqlite.apply([ops.Ack(job.id, job.claims)]) == [True]


def test_sqlite_history_of_no_job_is_dropped(sqlite):
    Jobs(sqlite)
    damage(sqlite, "INSERT INTO attempt (job, claim, attempt, ended, outcome) VALUES (999, 1, 1, 0, 2)")
    assert mended(sqlite) == ids((faults.HISTORY, [999]))


def test_sqlite_counts_are_made_anew_with_what_is_put_behind_them(sqlite):
    Jobs(sqlite)
    damage(sqlite, "UPDATE counts SET live = 77, dead = dead - 1", "UPDATE counted SET job = 2")
    sqlite.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert found(sqlite) == ids((faults.COUNTS, ["t"]))
    mended(sqlite)
    sqlite.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert sqlite.ask(CountJobs())["u"].delayed == 2
    assert sqlite.ask(CountJobs())["t"].delayed == 3


def test_sqlite_an_index_that_lacks_a_job_is_made_anew(sqlite):
    jobs = Jobs(sqlite)
    name = "job_next"
    connection = sqlite3.connect(sqlite.path, isolation_level=None)
    row = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = ?", (name,))
    saved = row.fetchone()
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("UPDATE job SET next = next + 5 WHERE id = ?", (jobs.plain,))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", saved)
    connection.close()
    [[what, examples]] = found(sqlite).items()
    assert what == faults.INDEXES.what
    assert "job_next" in examples[0]
    mended(sqlite)


def test_sqlite_a_job_of_no_topic_is_told_and_left(sqlite):
    jobs = Jobs(sqlite)
    damage(sqlite, ("UPDATE job SET topic = 55 WHERE id = ?", (jobs.plain,)))
    assert found(sqlite) == ids((faults.COUNTS, ["t"]), (faults.TOPICS, [jobs.plain]))
    findings = sqlite.verify(repair=True)
    assert [(one.what, one.repaired) for one in findings] == [(faults.TOPICS.what, False), (faults.COUNTS.what, True)]
    assert sqlite.verify() == [finding for finding in findings if not finding.repaired]
    assert sqlite.ask(CountJobs())["t"].delayed == len(sqlite.ask(ListJobs(Filter("t", State.DELAYED), 0, 9))) == 2


def test_sqlite_what_is_only_looked_at_stays_as_it_is(sqlite):
    Jobs(sqlite)
    damage(sqlite, "UPDATE counts SET live = 77")
    assert sqlite.verify() == sqlite.verify() != []
    assert sqlite.ask(CountJobs())["t"].delayed == 76


def test_in_memory_all_that_is_found_in_a_file_is_found_and_mended(clock):
    with open("memory:", clock=clock) as store:
        jobs = Jobs(store)
        store._connection.execute("UPDATE counts SET live = 77")
        store._connection.execute("UPDATE job SET started = NULL WHERE state = 1")
        expected = ids((faults.LEASES, [jobs.running]), (faults.COUNTS, ["t"]))
        assert found(store) == expected
        assert mended(store) == expected
        assert store.apply([ops.Put((NewJob("t", b"", NOW),))]) == [[8]]


@pytest.mark.parametrize("place", ["memory:", "sqlite"])
def test_beside_others_at_work_nothing_is_wrong_and_a_repair_harms_nobody(place, tmp_path):
    beside(place if place == "memory:" else f"sqlite:///{tmp_path}/jobs.db")
