"""What is wrong with the tables of a database is found, told, and mended."""

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.stores import verify as faults
from pywheel.testing import ManualClock
from tests.stores.damaged import NOW, Jobs, beside, found, mended
from tests.stores.on_mysql.emptied import emptied


class PostgresDamage:
    """Writes past the store."""

    def __init__(self, store):
        self._store = store
        self._connection = store._connect(float("inf"))

    def __call__(self, statement, *values):
        self._connection.execute(statement.replace("{p}", self._store.dialect.tables) % values)

    def last_id(self, id):
        self("SELECT setval('{p}id', %s)", id)

    def close(self):
        self._connection.close()


class MysqlDamage(PostgresDamage):
    def __call__(self, statement, *values):
        self._connection.ask([statement.replace("{p}", self._store._prefix) % values])

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


_MOVED = "id, topic, due, created, body"


def test_a_state_that_is_none_is_delayed_again(store, jobs, damage):
    damage("UPDATE {p}job SET state = 9 WHERE id = %s", jobs.keyed)
    damage("UPDATE {p}finished SET state = 9 WHERE id = %s", jobs.dead)
    expected = ids((faults.NOWHERE, [jobs.keyed, jobs.dead]), (faults.COUNTS, ["t"]))
    assert found(store) == expected
    assert mended(store) == expected
    for id in (jobs.keyed, jobs.dead):
        assert (store.ask(GetJob(id)).state, store.ask(GetJob(id)).due, store.ask(GetJob(id)).attempt) == (
            State.DELAYED,
            NOW,
            0,
        )
    assert store.ask(GetJob(("t", "key"))).id == jobs.keyed


def test_a_job_in_two_places_is_where_it_got_furthest(store, jobs, damage):
    damage(f"INSERT INTO {{p}}job (next, {_MOVED}) SELECT due, {_MOVED} FROM {{p}}finished WHERE id = %s", jobs.done)
    assert found(store) == ids((faults.TWICE, [jobs.done]), (faults.COUNTS, ["t"]))
    mended(store)
    assert store.ask(GetJob(jobs.done)).state is State.DONE


def test_history_of_no_job_is_dropped(store, jobs, damage):
    damage("DELETE FROM {p}job WHERE id IN (%s, %s)", jobs.plain, jobs.running)
    damage("INSERT INTO {p}attempt (job, claim, attempt, ended, outcome) VALUES (999999, 1, 1, 0, 2)")
    assert found(store) == ids((faults.HISTORY, [999999]), (faults.COUNTS, ["t"]))
    mended(store)
    counts = store.ask(CountJobs())["t"]
    assert (counts.delayed, counts.running, counts.dead) == (2, 0, 1)


@pytest.mark.parametrize("wrong", ["unspent = 5", "unspent = -1", "started = NULL"])
def test_a_claim_that_cannot_be_is_void(store, jobs, damage, wrong):
    damage(f"UPDATE {{p}}job SET {wrong} WHERE state = 1")
    assert mended(store) == ids((faults.LEASES, [jobs.running]))
    assert store.apply([ops.Ack(jobs.running, 1)]) == [False]
    store.clock.advance(61)
    assert store.ask(GetJob(jobs.running)).state is State.DELAYED


def test_claims_go_on_behind_the_history(store, jobs, damage):
    for id in (jobs.again, jobs.running, jobs.dead):
        damage("INSERT INTO {p}attempt (job, claim, attempt, ended, outcome) VALUES (%s, 4, 4, 0, 2)", id)
    assert found(store) == ids((faults.CLAIMS, [jobs.running, jobs.dead, jobs.again]))
    mended(store)
    assert [store.ask(GetJob(id)).claims for id in (jobs.again, jobs.running, jobs.dead)] == [4, 5, 5]
    assert {store.ask(GetJob(id)).attempt for id in (jobs.again, jobs.running, jobs.dead)} == {1}
    assert store.apply([ops.Retry(jobs.dead)]) == [ops.Change.MADE]
    store.clock.advance(10**4)
    claimed = store.apply([ops.Reserve("t", 100, ops.ClaimPolicy(9, 9), "w")])[0]
    assert store.apply([ops.Ack(job.id, job.claims) for job in claimed]) == [True] * 5


def test_counts_and_ids_are_made_anew(store, jobs, damage):
    damage("INSERT INTO {p}tally (topic, live, done, cancelled, dead) SELECT id, 5, -1, 0, 0 FROM {p}topic")
    damage.last_id(jobs.keyed)
    assert found(store) == ids((faults.COUNTS, ["t"]), (faults.IDS, list(jobs)[2:]))
    mended(store)
    with open(store.secret_url, clock=store.clock) as other:
        [[id]] = other.apply([ops.Put((NewJob("t", b"", NOW),))])
    assert id > max(jobs)


def test_a_job_of_no_topic_is_told_and_left(store, jobs, damage):
    damage("DELETE FROM {p}topic")
    with open(store.secret_url, clock=store.clock) as other:
        [finding] = [one for one in other.verify(repair=True) if one.what == faults.TOPICS.what]
        assert (finding.number, finding.repaired) == (7, False)


def test_beside_others_at_work_nothing_is_wrong_and_a_repair_harms_nobody(url):
    beside(url)


def test_a_store_says_which_server_it_is_and_how_much_room_it_takes(store):
    before = store.about()
    store.apply([ops.Put(tuple(NewJob("t", bytes(1_000), 0) for _ in range(2_000)))])
    after = store.about()
    assert before.keys() == after.keys() == {"version", "table_bytes", "index_bytes"}
    assert int(after["version"].partition(".")[0]) >= 10
    assert before["table_bytes"] > 0
    assert after["table_bytes"] >= before["table_bytes"] + 1_500_000 or "MariaDB" in after["version"]  # it counts later
