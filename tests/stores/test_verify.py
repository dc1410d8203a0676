"""Defects of a file, a database, or a store in memory are found, reported, and repaired."""

import sqlite3

import pytest

from pywheel import StoreCorrupt
from pywheel.jobs import NewJob, State, limits
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListJobs
from pywheel.stores import Filter, open
from pywheel.stores import verify as faults
from pywheel.stores.sql import verify as tables
from pywheel.stores.sqlite import dialect
from pywheel.testing import ManualClock
from tests.stores.damaged import NOW, Jobs, beside, found, ids, mended
from tests.stores.emptied import emptied


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture(autouse=True)
def _no_tail(monkeypatch):
    """All jobs are in the counts, none are counted by who reads: so counts can be wrong."""
    monkeypatch.setattr(dialect, "TAIL", 1)


@pytest.fixture(params=["memory", "sqlite", "postgres", "mariadb"])
def url(request, tmp_path):
    local = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    return local.get(request.param) or emptied(request.getfixturevalue(f"{request.param}_server"))


in_sqlite, on_servers = (
    pytest.mark.parametrize("url", kinds, indirect=True) for kinds in (["memory", "sqlite"], ["postgres", "mariadb"])
)


@pytest.fixture
def store(url, clock):
    with open(url, clock=clock) as store:
        yield store


@pytest.fixture
def jobs(store):
    return Jobs(store)


@pytest.fixture
def damage(store):
    """Writes past the store."""
    if hasattr(store, "lanes"):
        connection, prefix = store._connect(float("inf")), store.dialect.tables
        execute = getattr(connection, "execute", lambda text: connection.ask([text]))
        yield lambda statement, *values: execute(statement.replace("{p}", prefix) % values)
        connection.end()
    else:
        in_memory = store.url.startswith("memory:")
        connection = store._connection if in_memory else sqlite3.connect(store.path, isolation_level=None)
        yield lambda statement, *values: connection.execute(statement.replace("{p}", "") % values)
        if not in_memory:
            connection.close()


def test_a_state_that_is_none_is_delayed_again(store, jobs, damage):
    damage("UPDATE {p}job SET state = 9 WHERE id = %s", jobs.keyed)
    damage("UPDATE {p}finished SET state = 9 WHERE id = %s", jobs.dead)
    expected = ids((faults.NOWHERE, [jobs.keyed, jobs.dead]), (faults.COUNTS, ["t"]))
    assert found(store) == expected
    assert mended(store) == expected
    for id in (jobs.dead, jobs.keyed):
        job = store.ask(GetJob(id))
        assert (job.state, job.due, job.attempt) == (State.DELAYED, NOW, 0)
    assert [attempt.error for attempt in store.ask(GetHistories([jobs.dead]))[0]] == ["e"]
    assert store.ask(GetJob(("t", "key"))).id == jobs.keyed


def test_a_job_that_is_delayed_again_leaves_its_key_to_the_live_job_that_has_it(store, jobs, damage):
    store.apply([ops.Put((NewJob("t", b"new", NOW, "old"),))])
    damage("UPDATE {p}finished SET state = 9 WHERE id = %s", jobs.done)
    assert mended(store) == ids((faults.NOWHERE, [jobs.done]), (faults.COUNTS, ["t"]))
    assert store.ask(GetJob(jobs.done)).state is State.DELAYED
    assert store.ask(GetJob(("t", "old"))).body == b"new"


def test_a_job_that_is_live_and_finished_is_finished(store, jobs, damage):
    columns = "id, topic, due, created, body"
    damage(f"INSERT INTO {{p}}job (next, {columns}) SELECT due, {columns} FROM {{p}}finished WHERE id = %s", jobs.done)
    expected = ids((faults.TWICE, [jobs.done]), (faults.COUNTS, ["t"]))
    assert found(store) == expected
    assert mended(store) == expected
    assert store.ask(GetJob(jobs.done)).state is State.DONE


@pytest.mark.parametrize("wrong", ["unspent = 5", "unspent = -1", "started = NULL"])
def test_a_claim_that_cannot_be_is_void(store, jobs, damage, wrong):
    damage(f"UPDATE {{p}}job SET {wrong} WHERE state = 1")
    assert mended(store) == ids((faults.LEASES, [jobs.running]))
    assert store.apply([ops.Ack(jobs.running, 1)]) == [False]
    store.clock.advance(61)
    assert store.ask(GetJob(jobs.running)).state is State.DELAYED


def test_history_beyond_the_claims_is_kept_and_claims_go_on_behind_it(store, jobs, damage):
    those = (jobs.again, jobs.running, jobs.dead)
    for id in those:
        damage("INSERT INTO {p}attempt (job, claim, attempt, ended, outcome) VALUES (%s, 4, 4, 0, 2)", id)
    assert found(store) == ids((faults.CLAIMS, [jobs.running, jobs.dead, jobs.again]))
    mended(store)
    assert [store.ask(GetJob(id)).claims for id in those] == [4, 5, 5]
    assert {store.ask(GetJob(id)).attempt for id in those} == {1}
    assert [attempt.claim for attempt in store.ask(GetHistories([jobs.dead]))[0]] == [4, 5]
    assert store.apply([ops.Retry(jobs.dead)]) == [ops.Change.MADE]
    store.clock.advance(10**4)
    [claimed] = store.apply([ops.Reserve("t", 100, ops.ClaimPolicy(9, 9), "w")])
    assert store.apply([ops.Ack(job.id, job.claims) for job in claimed]) == [True] * 5


def test_history_of_no_job_is_dropped(store, jobs, damage):
    damage("INSERT INTO {p}attempt (job, claim, attempt, ended, outcome) VALUES (999999, 1, 1, 0, 2)")
    assert mended(store) == ids((faults.HISTORY, [999999]))


def test_a_priority_that_its_topic_has_forgotten_is_known_to_it_again(store, damage):
    [[low, other, high, plain]] = store.apply(
        [ops.Put(tuple(NewJob("t", b"", NOW, priority=p) for p in (-9, 5, 9, 0)))]
    )
    [[twin]] = store.apply([ops.Put((NewJob("t", b"", NOW, priority=9),))])
    damage("UPDATE {p}topic SET lanes = lanes - %s", limits.lane(9) + limits.lane(-9))
    assert found(store) == ids((faults.LANES, [low, high, twin]))
    assert mended(store) == ids((faults.LANES, [low, high, twin]))
    [claimed] = store.apply([ops.Reserve("t", 9, ops.ClaimPolicy(9, 9), "w")])
    assert [job.id for job in claimed] == [high, twin, other, plain, low]


@pytest.mark.parametrize("garbled", ["{x", "[]"])
def test_jobs_with_garbled_headers_are_told_and_left(store, jobs, damage, garbled):
    [[sound]] = store.apply([ops.Put((NewJob("t", b"", NOW, headers={"a": "b"}),))])
    damage("UPDATE {p}job SET headers = '%s' WHERE id IN (%s, %s)", garbled, jobs.plain, jobs.running)
    damage("UPDATE {p}finished SET headers = '%s' WHERE id = %s", garbled, jobs.done)
    expected = ids((faults.HEADERS, [jobs.plain, jobs.running, jobs.done]))
    assert found(store) == expected
    assert [finding.repaired for finding in store.verify(repair=True)] == [False]
    assert found(store) == expected
    assert store.ask(GetJob(sound)).headers == {"a": "b"}


def test_headers_are_read_page_by_page(store, damage, monkeypatch):
    monkeypatch.setattr(tables, "_PAGE", 2)
    [put] = store.apply([ops.Put(tuple(NewJob("t", b"", NOW, headers={"a": "b"}) for _ in range(6)))])
    damage("UPDATE {p}job SET headers = '{x' WHERE id IN (%s, %s, %s)", put[1], put[2], put[5])
    assert found(store) == ids((faults.HEADERS, [put[1], put[2], put[5]]))


def test_a_job_with_garbled_headers_keeps_its_topic_from_claims_until_it_is_cancelled(store, damage):
    [[garbled, sound]] = store.apply([ops.Put((NewJob("t", b"", NOW), NewJob("t", b"", NOW)))])
    damage("UPDATE {p}job SET headers = '{x' WHERE id = %s", garbled)
    assert store.apply([ops.Cancel(garbled)]) == [ops.Change.MADE]
    [claimed] = store.apply([ops.Reserve("t", 9, ops.ClaimPolicy(9, 9), "w")])
    assert [job.id for job in claimed] == [sound]


@in_sqlite
def test_sqlite_headers_that_are_no_text_are_told(store, jobs, damage):
    damage("UPDATE job SET headers = CAST(x'7bff' AS TEXT) WHERE id = %s", jobs.plain)
    damage("UPDATE job SET headers = x'7bff' WHERE id = %s", jobs.keyed)
    assert found(store) == ids((faults.HEADERS, [jobs.plain, jobs.keyed]))


@in_sqlite
def test_sqlite_a_due_time_that_is_no_number_is_told_and_left(store, jobs, damage):
    damage("UPDATE job SET next = 'soon' WHERE id = %s", jobs.plain)
    assert found(store) == ids((faults.TIMES, [jobs.plain]))
    assert [finding.repaired for finding in store.verify(repair=True)] == [False]


@on_servers
def test_counts_and_ids_are_made_anew(store, jobs, damage):
    damage("INSERT INTO {p}tally (topic, live, done, cancelled, dead) SELECT id, 5, -1, 0, 0 FROM {p}topic")
    mysql = store.url.startswith("mysql")
    damage("UPDATE {p}number SET value = %s WHERE name = 'id'" if mysql else "SELECT setval('{p}id', %s)", jobs.keyed)
    assert found(store) == ids((faults.COUNTS, ["t"]), (faults.IDS, list(jobs)[2:]))
    mended(store)
    with open(store.secret_url, clock=store.clock) as other:
        [[id]] = other.apply([ops.Put((NewJob("t", b"", NOW),))])
    assert id > max(jobs)


@on_servers
def test_a_job_of_no_topic_is_told_and_left(store, jobs, damage):
    damage("DELETE FROM {p}topic")
    with open(store.secret_url, clock=store.clock) as other:
        [finding] = [one for one in other.verify(repair=True) if one.what == faults.TOPICS.what]
        assert (finding.number, finding.repaired) == (7, False)


@on_servers
def test_a_store_says_which_server_it_is_and_how_much_room_it_takes(store):
    before = store.about()
    store.apply([ops.Put(tuple(NewJob("t", bytes(1_000), 0) for _ in range(2_000)))])
    after = store.about()
    assert before.keys() == after.keys() == {"version", "table_bytes", "index_bytes"}
    assert int(after["version"].partition(".")[0]) >= 10
    assert before["table_bytes"] > 0
    assert after["table_bytes"] >= before["table_bytes"] + 1_500_000 or "MariaDB" in after["version"]  # it counts later


@in_sqlite
def test_sqlite_counts_are_made_anew_with_what_is_put_behind_them(store, jobs, damage):
    damage("UPDATE counts SET live = 77, dead = dead - 1")
    damage("UPDATE counted SET job = 2")
    store.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert found(store) == ids((faults.COUNTS, ["t"]))
    mended(store)
    store.apply([ops.Put((NewJob("u", b"", NOW),))])
    assert store.ask(CountJobs())["u"].delayed == 2
    assert store.ask(CountJobs())["t"].delayed == 3


@in_sqlite
def test_sqlite_counts_that_are_no_numbers_are_made_anew(store, jobs, damage):
    damage("UPDATE counts SET live = 'x', dead = '5 or so'")
    assert store.ask(CountJobs())["t"].dead == 5
    assert found(store) == ids((faults.COUNTS, ["t"]))
    assert mended(store) == ids((faults.COUNTS, ["t"]))
    assert store.ask(CountJobs())["t"] == (3, 1, 1, 1, 1)


@in_sqlite
def test_sqlite_the_lost_row_of_the_highest_id_is_told_by_puts_and_written_anew(store, jobs, damage, monkeypatch):
    monkeypatch.setattr(dialect, "TAIL", 1_024)
    [[last]] = store.apply([ops.Put((NewJob("t", b"", NOW),))])  # not in the counts yet
    damage("DELETE FROM counted")
    store._forget()  # as a process does that begins
    with pytest.raises(StoreCorrupt, match="run pywheel verify --repair"):
        store.apply([ops.Put((NewJob("t", b"", NOW),))])
    expected = ids((faults.ROWS, ["counted"]), (faults.COUNTS, ["t"]))
    assert found(store) == expected
    assert mended(store) == expected
    assert store.apply([ops.Put((NewJob("t", b"", NOW),))]) == [[last + 1]]
    assert store.verify() == []


@in_sqlite
def test_sqlite_an_index_that_lacks_a_job_is_made_anew(store, jobs, damage):
    [saved] = damage("SELECT name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = 'job_next'")
    damage("PRAGMA writable_schema = ON")
    damage("DELETE FROM sqlite_schema WHERE name = 'job_next'")
    damage("PRAGMA writable_schema = RESET")
    damage("UPDATE job SET next = next + 5 WHERE id = %s", jobs.plain)
    damage("PRAGMA writable_schema = ON")
    damage("INSERT INTO sqlite_schema VALUES ('index', '%s', '%s', %s, '%s')", *saved)
    damage("PRAGMA writable_schema = RESET")
    [[what, examples]] = found(store).items()
    assert what == faults.INDEXES.what
    assert "job_next" in examples[0]
    mended(store)


@in_sqlite
def test_sqlite_a_job_of_no_topic_is_told_and_left(store, jobs, damage):
    damage("UPDATE job SET topic = 55 WHERE id = %s", jobs.plain)
    assert found(store) == ids((faults.COUNTS, ["t"]), (faults.TOPICS, [jobs.plain]))
    findings = store.verify(repair=True)
    assert [(one.what, one.repaired) for one in findings] == [(faults.TOPICS.what, False), (faults.COUNTS.what, True)]
    assert store.verify() == [finding for finding in findings if not finding.repaired]
    assert store.ask(CountJobs())["t"].delayed == len(store.ask(ListJobs(Filter("t", State.DELAYED), 0, 9))) == 2


@in_sqlite
def test_sqlite_what_is_only_looked_at_stays_as_it_is(store, jobs, damage):
    damage("UPDATE counts SET live = 77")
    assert store.verify() == store.verify() != []
    assert store.ask(CountJobs())["t"].delayed == 76


def test_beside_others_at_work_nothing_is_wrong_and_a_repair_harms_nobody(any_url):
    beside(any_url)
