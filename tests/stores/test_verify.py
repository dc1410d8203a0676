"""What is wrong with a store in memory or in a file is found, told, and mended."""

import sqlite3

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores import verify as faults
from pywheel.testing import ManualClock
from tests.stores.damaged import NOW, Jobs, beside, found, mended


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


def ids(*pairs):
    return {fault.what: list(some) for fault, some in pairs}


# ---- in memory ------------------------------------------------------------------------------------------------------


@pytest.fixture
def memory(clock):
    with open("memory:", clock=clock) as store:
        yield store


def test_memory_an_index_without_its_job_or_with_a_wrong_time_is_made_anew(memory):
    jobs = Jobs(memory)
    memory._due["t"].clear()
    memory._due["t"].append((NOW, 999))
    del memory._running[jobs.running]
    memory._ended[State.DONE][:] = [(0, jobs.done)]
    expected = ids(
        (faults.NO_JOB, [999]),
        (faults.INDEXES, sorted([jobs.plain, jobs.keyed, jobs.running, jobs.done, jobs.again])),
    )
    assert found(memory) == expected
    assert mended(memory) == expected
    assert memory.get(jobs.plain).due == NOW + 10**6


def test_memory_keys_and_counts_are_those_of_the_jobs(memory):
    jobs = Jobs(memory)
    memory._keys.clear()
    memory._keys["t", "gone"] = jobs.done
    memory._tally["t"][State.DONE] += 3
    expected = ids((faults.KEYS, [jobs.done]), (faults.KEYLESS, [jobs.keyed, jobs.running]), (faults.COUNTS, ["t"]))
    assert found(memory) == expected
    assert mended(memory) == expected
    assert memory.get(("t", "key")).id == jobs.keyed


def test_memory_notes_are_over_when_they_say(memory):
    memory.apply([ops.Keep("stays", b"s"), ops.Keep("ends", b"e", 10), ops.Keep("lost", b"l", 10)])
    assert memory.verify() == []
    memory._notes_over[:] = [(NOW, "ends"), (NOW + 10, "stays"), (NOW, "none")]
    assert mended(memory) == ids((faults.NOTES, ["ends", "lost", "none", "stays"]))
    assert memory._notes_over == [(NOW + 10, "ends"), (NOW + 10, "lost")]


def test_memory_a_lease_that_is_not_of_the_last_claim_is_void(memory):
    jobs = Jobs(memory)
    entry = memory._jobs[jobs.running]
    entry.run = entry.run._replace(claim=7)
    assert mended(memory) == ids((faults.LEASES, [jobs.running]))
    assert memory.apply([ops.Ack(jobs.running, 7)]) == [False]
    assert memory.get(jobs.running).attempt == 1
    entry.state = State.DONE
    assert list(mended(memory)) == [fault.what for fault in (faults.TWICE, faults.INDEXES, faults.KEYS, faults.COUNTS)]


def test_memory_a_job_of_no_topic_is_told_and_left(memory):
    jobs = Jobs(memory)
    del memory._paused["t"]
    [finding] = memory.verify(repair=True)
    assert (finding.what, finding.number, finding.remedy, finding.repaired) == (faults.TOPICS.what, 7, "", False)
    assert finding.examples == tuple(jobs)[:5]


# ---- in a file ------------------------------------------------------------------------------------------------------


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
    damage(sqlite, ("UPDATE job SET state = 9 WHERE id IN (?, ?)", (jobs.dead, jobs.keyed)))
    expected = ids((faults.NOWHERE, [jobs.keyed, jobs.dead]), (faults.ENDS, [jobs.dead]), (faults.COUNTS, ["t"]))
    assert found(sqlite) == expected
    assert mended(sqlite) == expected
    for id in (jobs.dead, jobs.keyed):
        assert (sqlite.get(id).state, sqlite.get(id).due) == (State.DELAYED, NOW)
    assert sqlite.get(("t", "key")).id == jobs.keyed


def test_sqlite_a_claim_of_no_job_or_of_a_finished_one_is_dropped(sqlite):
    jobs = Jobs(sqlite)
    columns = "topic, claim, attempt, begun, started, lease, max_attempts, backoff, worker"
    run = f"INSERT INTO run SELECT ?, {columns} FROM run LIMIT 1"
    damage(sqlite, (run, (jobs.done,)), (run, (999,)))
    expected = ids((faults.TWICE, [jobs.done]), (faults.NO_JOB, [999]), (faults.LEASES, [jobs.done]))
    assert found(sqlite) == expected
    assert mended(sqlite) == expected
    assert sqlite.get(jobs.done).state is State.DONE


def test_sqlite_a_lease_that_is_not_of_the_last_claim_is_void(sqlite):
    jobs = Jobs(sqlite)
    damage(sqlite, "UPDATE run SET claim = 5")
    assert mended(sqlite) == ids((faults.LEASES, [jobs.running]))
    assert sqlite.apply([ops.Ack(jobs.running, 5), ops.Ack(jobs.running, 1)]) == [False, False]
    sqlite.clock.advance(61)
    assert sqlite.get(jobs.running).state is State.DELAYED


def test_sqlite_history_beyond_the_claims_is_kept_and_claims_go_on_behind_it(sqlite):
    jobs = Jobs(sqlite)
    row = "INSERT INTO history (job, claim, attempt, ended, outcome) VALUES (?, 4, 4, 0, 2)"
    damage(sqlite, (row, (jobs.again,)), (row, (jobs.running,)))
    assert found(sqlite) == ids((faults.CLAIMS, [jobs.running, jobs.again]))
    mended(sqlite)
    assert (sqlite.get(jobs.again).claims, sqlite.get(jobs.again).attempt) == (4, 1)
    assert (sqlite.get(jobs.running).claims, sqlite.get(jobs.running).attempt) == (5, 1)
    sqlite.clock.advance(10**4)
    [job] = [job for job in sqlite.apply([ops.Reserve("t", 100, ops.Terms(9, 9), "w")])[0] if job.id == jobs.again]
    assert sqlite.apply([ops.Ack(job.id, job.claims)]) == [True]


def test_sqlite_history_of_no_job_is_dropped(sqlite):
    Jobs(sqlite)
    damage(sqlite, "INSERT INTO history (job, claim, attempt, ended, outcome) VALUES (999, 1, 1, 0, 2)")
    assert mended(sqlite) == ids((faults.HISTORY, [999]))


def test_sqlite_what_finished_is_found_by_a_purge_again(sqlite):
    jobs = Jobs(sqlite)
    damage(sqlite, ("UPDATE history SET topic = NULL WHERE job = ?", (jobs.done,)))
    damage(sqlite, ("DELETE FROM history WHERE job = ?", (jobs.cancelled,)))
    damage(sqlite, ("UPDATE history SET topic = 1 WHERE job = ?", (jobs.again,)))
    assert mended(sqlite) == ids((faults.ENDS, sorted([jobs.done, jobs.cancelled, jobs.again])))
    assert sqlite.apply([ops.Purge(State.DONE, 0, None, 9), ops.Purge(State.CANCELLED, 0, None, 9)]) == [1, 1]


def test_sqlite_counts_are_made_anew_with_what_is_put_behind_them(sqlite):
    Jobs(sqlite)
    damage(sqlite, "UPDATE topic SET live = 77, dead = dead - 1", "UPDATE counted SET job = 2")
    sqlite.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert found(sqlite) == ids((faults.COUNTS, ["t"]))
    mended(sqlite)
    sqlite.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert sqlite.counts()["u"].delayed == 2
    assert sqlite.counts()["t"].delayed == 3


def test_sqlite_an_index_that_lacks_a_job_is_made_anew(sqlite):
    jobs = Jobs(sqlite)
    name = "job_due"
    connection = sqlite3.connect(sqlite.path, isolation_level=None)
    row = connection.execute("SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = ?", (name,))
    saved = row.fetchone()
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
    connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("UPDATE job SET due = due + 5 WHERE id = ?", (jobs.plain,))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", saved)
    connection.close()
    [[what, examples]] = found(sqlite).items()
    assert what == faults.INDEXES.what
    assert "job_due" in examples[0]
    mended(sqlite)


def test_sqlite_a_job_of_no_topic_is_told_and_left(sqlite):
    jobs = Jobs(sqlite)
    damage(sqlite, ("UPDATE job SET topic = 55 WHERE id = ?", (jobs.plain,)))
    assert found(sqlite) == ids((faults.COUNTS, ["t"]), (faults.TOPICS, [jobs.plain]))
    assert mended(sqlite) == found(sqlite) | ids((faults.COUNTS, ["t"]))


def test_sqlite_what_is_only_looked_at_stays_as_it_is(sqlite):
    Jobs(sqlite)
    damage(sqlite, "UPDATE topic SET live = 77")
    assert sqlite.verify() == sqlite.verify() != []
    assert sqlite.counts()["t"].delayed == 76


def test_sqlite_beside_others_at_work_nothing_is_wrong_and_a_repair_harms_nobody(tmp_path):
    beside(f"sqlite:///{tmp_path}/jobs.db")
