"""What is wrong with the tables of a database is found, told, and mended."""

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores import verify as faults
from pywheel.stores.contract import Span
from pywheel.testing import ManualClock
from tests.stores.damaged import NOW, Jobs, beside, found, mended
from tests.stores.on_mysql.emptied import emptied


class PostgresDamage:
    """Writes past the store."""

    key = "key"

    def __init__(self, store):
        self._store = store
        self._connection = store._connect(float("inf"))

    def __call__(self, statement, *values):
        self._connection.execute(statement.replace("{p}", self._store._tables).replace("{key}", self.key) % values)

    def last_id(self, id):
        self("SELECT setval('{p}id', %s)", id)

    def close(self):
        self._connection.close()


class MysqlDamage(PostgresDamage):
    key = "hash"

    def __call__(self, statement, *values):
        self._connection.ask([statement.replace("{p}", self._store._prefix).replace("{key}", self.key) % values])

    def last_id(self, id):
        self("UPDATE {p}number SET value = %s WHERE name = 'id'", id)

    def close(self):
        self._connection.end()


@pytest.fixture(params=["postgres", "mysql"])
def url(request):
    if request.param == "mysql":
        return emptied(request.getfixturevalue("mariadb_server"))
    return request.getfixturevalue("postgres_server").url()


@pytest.fixture
def store(url):
    with open(url, clock=ManualClock(wall=NOW)) as store:
        yield store


@pytest.fixture
def jobs(store):
    return Jobs(store)


@pytest.fixture
def damage(store):
    damage = (MysqlDamage if store.url.startswith("mysql") else PostgresDamage)(store)
    yield damage
    damage.close()


def ids(*pairs):
    return {fault.what: list(some) for fault, some in pairs}


def test_a_lane_that_says_another_due_time_than_the_job_is_made_right(store, damage):
    [[stale, gone]] = store.apply([ops.Put((NewJob("t", b"", NOW + 5, priority=1), NewJob("t", b"", NOW, priority=1)))])
    damage("UPDATE {p}lane SET due = 7 WHERE id = %s", stale)
    damage("UPDATE {p}lane SET id = 999 WHERE id = %s", gone)
    assert {finding.what: list(finding.examples) for finding in store.verify()} == ids((faults.INDEXES, (stale, 999)))
    assert all(finding.repaired for finding in store.verify(repair=True))
    assert store.verify() == []
    assert [due.id for due in store.windows([Span("t", 2**32 - 1, (-1, 0), NOW + 9, 1)], 9)] == [stale]
    assert store.get(gone).priority == 0


def test_a_job_that_an_older_process_has_moved_is_found_all_the_same(store, damage):
    [[id]] = store.apply([ops.Put((NewJob("t", b"", NOW - 5, priority=1),))])
    damage("UPDATE {p}lane SET due = NULL WHERE id = %s", id)  # as it stands after a nack by who knows no lanes
    spans = [Span("t", 2**32 - 1, (-1, 0), NOW, priority) for priority in (0, 1)]
    assert [due.id for due in store.windows(spans, 9)] == [id]
    [[job]] = store.apply([ops.Reserve("t", 9, ops.Terms(60_000, 3), "w")])
    store.apply([ops.Nack(id, job.claims, 0)])
    assert [(due.id, due.priority) for due in store.windows(spans, 9)] == [(id, 1)]


def test_a_job_that_is_nowhere_is_delayed_again_at_once(store, jobs, damage):
    damage("DELETE FROM {p}due WHERE id IN (%s, %s)", jobs.keyed, jobs.again)
    damage("DELETE FROM {p}finished WHERE id = %s", jobs.done)
    expected = ids(
        (faults.NOWHERE, [jobs.keyed, jobs.done, jobs.again]), (faults.KEYS, [jobs.keyed]), (faults.COUNTS, ["t"])
    )
    assert found(store) == expected
    assert mended(store) == expected
    assert {(store.get(id).state, store.get(id).due) for id in (jobs.keyed, jobs.done)} == {(State.DELAYED, NOW)}
    assert store.get(jobs.again).attempt == 0
    assert store.get(("t", "key")).id == jobs.keyed


def test_a_job_in_two_places_is_where_it_got_furthest(store, jobs, damage):
    damage("INSERT INTO {p}due (id, topic, due) SELECT id, topic, due FROM {p}run")
    damage("INSERT INTO {p}due (id, topic, due) SELECT id, topic, due FROM {p}finished WHERE id = %s", jobs.done)
    damage(
        "INSERT INTO {p}finished (id, due, ended, topic, claims, state, outcome)"
        " SELECT id, due, ended, topic, claims, 2, 3 FROM {p}finished WHERE id = %s",
        jobs.cancelled,
    )
    twice = [jobs.running, jobs.done, jobs.cancelled]
    assert found(store) == ids((faults.TWICE, twice), (faults.KEYLESS, [jobs.done]), (faults.COUNTS, ["t"]))
    mended(store)
    assert [store.get(id).state for id in twice] == [State.RUNNING, State.DONE, State.CANCELLED]


def test_a_place_without_its_job_and_history_of_no_job_are_dropped(store, jobs, damage):
    damage("DELETE FROM {p}job WHERE id IN (%s, %s, %s)", jobs.plain, jobs.running, jobs.dead)
    damage("INSERT INTO {p}history (job, claim, attempt, ended, outcome) VALUES (999999, 1, 1, 0, 2)")
    expected = ids(
        (faults.NO_JOB, [jobs.plain, jobs.running, jobs.dead]),
        (faults.HISTORY, [999999]),
        (faults.KEYS, [jobs.running]),
        *([] if damage.key == "key" else [(faults.INDEXES, [jobs.running])]),  # keys have names of their own there
    )
    assert found(store) == expected
    mended(store)
    counts = store.counts()["t"]
    assert (counts.delayed, counts.running, counts.dead) == (2, 0, 0)


def test_a_lease_that_is_not_of_the_last_claim_is_void(store, jobs, damage):
    damage("UPDATE {p}run SET claims = 5")
    assert mended(store) == ids((faults.LEASES, [jobs.running]))
    assert store.apply([ops.Ack(jobs.running, 5), ops.Ack(jobs.running, 1)]) == [False, False]
    assert store.get(jobs.running).attempt == 1
    store.clock.advance(61)
    assert store.get(jobs.running).state is State.DELAYED


def test_claims_go_on_behind_the_history(store, jobs, damage):
    for id in (jobs.again, jobs.running, jobs.dead):
        damage("INSERT INTO {p}history (job, claim, attempt, ended, outcome) VALUES (%s, 4, 4, 0, 2)", id)
    assert found(store) == ids((faults.CLAIMS, [jobs.running, jobs.dead, jobs.again]))
    mended(store)
    assert [store.get(id).claims for id in (jobs.again, jobs.running, jobs.dead)] == [4, 5, 5]
    assert {store.get(id).attempt for id in (jobs.again, jobs.running, jobs.dead)} == {1}
    assert store.apply([ops.Retry(jobs.dead)]) == [True]
    store.clock.advance(10**4)
    claimed = store.apply([ops.Reserve("t", 100, ops.Terms(9, 9), "w")])[0]
    assert store.apply([ops.Ack(job.id, job.claims) for job in claimed]) == [True] * 5


def test_keys_are_those_of_live_jobs(store, jobs, damage):
    damage("DELETE FROM {p}live_key")
    of_none = "INSERT INTO {p}live_key (topic, {key}, job) SELECT topic, 'k%s', %s FROM {p}job WHERE id = %s"
    damage(of_none, 1, jobs.done, jobs.done)
    damage(of_none, 2, 999999, jobs.done)
    [[other]] = store.apply([ops.Put((NewJob("t", b"", NOW, "key"),))])  # nobody seems to have it
    damage("DELETE FROM {p}live_key WHERE job = %s", other)
    expected = ids((faults.KEYS, [jobs.done, 999999]), (faults.KEYLESS, [jobs.keyed, jobs.running, other]))
    assert found(store) == expected
    mended(store)
    assert store.get(("t", "key")).id == other
    [outcome] = store.apply([ops.Put((NewJob("t", b"", NOW, "key"),))])
    assert outcome.id == other
    assert store.apply([ops.Cancel(other), ops.Cancel(jobs.keyed)]) == [True, True]


def test_counts_and_ids_are_made_anew(store, jobs, damage):
    damage("INSERT INTO {p}count (topic, live, done) SELECT id, 5, -1 FROM {p}topic")
    damage.last_id(jobs.keyed)
    assert found(store) == ids((faults.COUNTS, ["t"]), (faults.IDS, list(jobs)[2:]))
    mended(store)
    with open(store.secret_url, clock=store.clock) as other:
        [[id]] = other.apply([ops.Put((NewJob("t", b"", NOW),))])
    assert id > max(jobs)


def test_a_job_of_no_topic_is_told_and_left(store, jobs, damage):
    damage("DELETE FROM {p}topic")
    with open(store.secret_url, clock=store.clock) as other:
        [finding] = other.verify(repair=True)
        assert (finding.what, finding.number, finding.repaired) == (faults.TOPICS.what, 7, False)


def test_a_name_that_is_lost_is_found_again(store, jobs, damage):
    if damage.key == "key":
        pytest.skip("keys stand with their jobs")
    damage("DELETE FROM {p}name WHERE id = %s", jobs.keyed)
    assert mended(store) == ids((faults.INDEXES, [jobs.keyed]))


def test_beside_others_at_work_nothing_is_wrong_and_a_repair_harms_nobody(url):
    beside(url)
