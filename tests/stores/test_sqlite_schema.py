"""What the file holds: upgrades of old ones, sums that are kept, ids that are not used again, rules that SQL has."""

import sqlite3
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pywheel.jobs import NewJob, Outcome, State, lifecycle
from pywheel.jobs import commands as c
from pywheel.jobs.commands import Terms
from pywheel.jobs.job import Counts
from pywheel.stores import Filter, open
from pywheel.stores.sqlite import connection
from pywheel.stores.sqlite.statements import SQL
from pywheel.stores.sqlite.tally import TAIL

NOW = 1_700_000_000_000


def apply(store, command):
    [outcome] = store.apply([command])
    return outcome


def put(store, topic="t", count=1, **more):
    return apply(store, c.Put(tuple(NewJob(topic, b"b", NOW, **more) for _ in range(count))))


# ---- upgrades -------------------------------------------------------------------------------------------------------


@pytest.fixture
def old_file(path):
    """A file of version 2 with a job in every state, one that was retried, and the newest one purged."""
    old = sqlite3.connect(path, isolation_level=None)
    old.execute("PRAGMA journal_mode = WAL")
    for number in range(2):
        connection._step(old, number)
    old.executescript(f"""
        INSERT INTO topic (id, name) VALUES (1, 't'), (2, 'u'), (3, 'empty');
        INSERT INTO worker (id, name) VALUES (1, 'w');
        INSERT INTO job (id, topic, due, ahead, state, claims, forgiven, key, body) VALUES
            (1, 1, {NOW}, 5, NULL, NULL, NULL, 'k', CAST('delayed' AS BLOB)),
            (2, 1, {NOW}, 5, NULL, 1, NULL, NULL, CAST('running' AS BLOB)),
            (3, 1, {NOW}, 5, 0, 1, NULL, NULL, CAST('done' AS BLOB)),
            (4, 1, {NOW}, 5, 1, 1, 1, NULL, CAST('cancelled' AS BLOB)),
            (5, 1, {NOW}, 5, 2, 3, NULL, 'k', CAST('dead' AS BLOB)),
            (6, 2, {NOW}, 5, NULL, 1, 1, NULL, CAST('retried' AS BLOB)),
            (9, 1, {NOW}, 5, 0, 1, NULL, NULL, x'');
        DELETE FROM job WHERE id = 9;
        INSERT INTO run VALUES (2, 2, 2, {NOW}, {NOW + 1000}, 3, 70, 1);
        INSERT INTO history VALUES (2, 1, 1, {NOW}, {NOW}, 2, 1, 'boom'), (3, 1, 1, {NOW}, {NOW}, 0, 1, NULL),
            (4, 1, 0, NULL, {NOW}, 1, NULL, NULL), (5, 3, 3, {NOW}, {NOW}, 2, 1, 'bad'),
            (6, 1, 1, {NOW}, {NOW}, 0, 1, NULL);
        INSERT INTO shard VALUES (0, 'w', 1, 0);
    """)
    old.close()
    return path


@pytest.fixture
def upgraded(old_file, clock):
    with open(f"sqlite:///{old_file}", clock=clock) as store:
        yield store


def test_an_upgrade_keeps_jobs_in_every_state(upgraded, clock):
    states = [State.DELAYED, State.RUNNING, State.DONE, State.CANCELLED, State.DEAD, State.DELAYED]
    jobs = upgraded.jobs(Filter(), 0, 100)
    assert [(job.id, job.state) for job in jobs] == list(enumerate(states, 1))
    assert [job.body for job in jobs] == [b"delayed", b"running", b"done", b"cancelled", b"dead", b"retried"]
    assert {job.created for job in jobs} == {NOW - 5}
    assert upgraded.counts() == {"empty": Counts(), "t": Counts(1, 1, 1, 1, 1), "u": Counts(delayed=1)}
    assert upgraded.get(("t", "k")).id == 1
    assert [row.outcome for row in upgraded.history(6)] == [Outcome.DONE]
    assert upgraded.get(2).last_error == "boom"


def test_a_claim_from_before_an_upgrade_goes_on(upgraded, clock):
    job = upgraded.get(2)
    assert (job.claims, job.attempt, job.lease_until) == (2, 2, NOW + 1_000)
    clock.advance(timedelta(seconds=1))
    lost = upgraded.get(2)
    assert (lost.state, lost.due, lost.lost) == (State.DELAYED, NOW + 1_070, lifecycle.LOST_BEGUN)
    assert apply(upgraded, c.Expire(9)).ended == 1


def test_what_finished_before_an_upgrade_is_purged_after_it(upgraded):
    states = (State.DONE, State.CANCELLED, State.DEAD)
    assert [apply(upgraded, c.Purge(state, 0, None, 9)) for state in states] == [1, 1, 1]
    assert [job.id for job in upgraded.jobs(Filter(), 0, 9)] == [1, 2, 6]
    assert apply(upgraded, c.Ack(2, 2)) is True
    assert upgraded.counts()["t"] == Counts(delayed=1, done=1)


def test_an_upgrade_remembers_the_id_of_a_purged_job(upgraded):
    assert put(upgraded) == [10]


# ---- sums -----------------------------------------------------------------------------------------------------------


def counted(store):
    return store._connection.execute("SELECT job FROM counted").fetchone()[0]


def test_a_single_put_writes_no_sum_and_is_counted_all_the_same(store):
    put(store, count=TAIL)
    before = counted(store)
    assert before == TAIL
    for number in range(1, 6):
        [id] = put(store)
        assert counted(store) == before
        assert store.counts() == {"t": Counts(delayed=TAIL + number)}
    apply(store, c.Cancel(id))
    assert counted(store) == id
    assert store.counts() == {"t": Counts(delayed=TAIL + 4, cancelled=1)}


def test_the_uncounted_tail_stays_short(store):
    put(store, count=TAIL - 3)
    for number in range(10):
        put(store, key=f"k{number}" if number % 2 else None)
    assert counted(store) >= TAIL
    put(store, topic="u", count=3 * TAIL)
    assert counted(store) == 4 * TAIL + 7
    assert store.counts() == {"t": Counts(delayed=TAIL + 7), "u": Counts(delayed=3 * TAIL)}


def test_a_job_that_is_forgotten_from_the_tail_is_not_counted(store):
    ids = [put(store)[0] for _ in range(3)]
    outcomes = store.apply([c.Put((NewJob("t", b"", NOW),)), c.Delete(ids[1]), c.Delete(ids[2] + 1), c.Cancel(ids[0])])
    assert outcomes[1:] == [True, True, True]
    assert store.counts() == {"t": Counts(delayed=1, cancelled=1)}


# ---- ids ------------------------------------------------------------------------------------------------------------


def test_the_newest_job_leaves_a_ghost_that_goes_with_the_next(store):
    ids = put(store, count=3, headers={"h": "1"})
    for id in ids:
        assert apply(store, c.Delete(id)) is True
    ghosts = "SELECT id, topic, state, body FROM job"
    assert store._connection.execute(ghosts).fetchall() == [(ids[-1], 0, 3, b"")]
    assert store.jobs(Filter(), 0, 9) == []
    assert store.get(ids[-1]) is None
    assert apply(store, c.Delete(ids[-1])) is apply(store, c.Retry(ids[-1], NOW)) is False
    assert store.counts() == {"t": Counts()}
    [id] = put(store)
    assert id == ids[-1] + 1
    assert apply(store, c.Delete(id)) is True
    assert store._connection.execute(ghosts).fetchall() == [(id, 0, 3, b"")]


# ---- rules that stand in SQL too ------------------------------------------------------------------------------------


@given(
    claims=st.none() | st.integers(0, 8),
    forgiven=st.none() | st.integers(0, 8),
    ttr=st.sampled_from((None, 0, 70)),
    limit=st.sampled_from((None, 0, 5)),
    delays=st.lists(st.integers(0, 10**6), max_size=4),
    jitter=st.sampled_from((0.0, 0.1, 1.0)),
    begun=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_claim_is_stored_as_lifecycle_has_it(store, claims, forgiven, ttr, limit, delays, jitter, begun):
    if not claims:
        forgiven = None
    forgiven = forgiven and min(forgiven, claims)
    raw = store._connection
    for table in ("run", "job", "topic"):
        raw.execute(f"DELETE FROM {table}")
    raw.execute("INSERT INTO topic (id, name) VALUES (1, 't')")
    row = (NOW, claims, forgiven, ttr, limit)
    raw.execute("INSERT INTO job VALUES (7, 1, ?, 0, NULL, ?, ?, NULL, NULL, ?, ?, NULL, NULL, x'', NULL)", row)
    claimed = apply(store, c.Claim("t", (7,), Terms(1_000, 3, tuple(delays), jitter, 30, 200), "w", int(begun)))
    stored = raw.execute("SELECT claim, attempt, begun, lease, max_attempts, backoff FROM run").fetchone()
    [job] = claimed.jobs
    attempt = lifecycle.attempts((claims or 0) + 1, forgiven or 0)
    lease = NOW + ((ttr or 1_000) + 30 if begun else 200)
    assert stored[:5] == ((claims or 0) + 1, attempt, int(begun), lease, limit or 3)
    assert (job.claims, job.attempt, job.lease_until) == (stored[0], stored[1], stored[3])
    bounds = [lifecycle.backoff(delays, attempt, jitter, draw) for draw in (-1, 1)]
    assert bounds[0] <= stored[5] <= bounds[1]


@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 2), st.integers(1, 4)), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_running_jobs_are_counted_as_lifecycle_sees_them(store, runs):
    raw = store._connection
    raw.execute("DELETE FROM run")
    raw.execute("DELETE FROM job")
    raw.execute("INSERT OR IGNORE INTO topic (id, name) VALUES (1, 't')")
    raw.execute("UPDATE topic SET live = ?", (len(runs),))
    states = []
    for id, (begun, left, attempt) in enumerate(runs, 1):
        raw.execute("INSERT INTO job (id, topic, due, ahead, body) VALUES (?, 1, ?, 0, x'')", (id, NOW))
        raw.execute("INSERT INTO run VALUES (?, 1, 1, ?, ?, ?, ?, 2, 70, 1)", (id, attempt, begun, NOW, NOW + left))
        states.append(lifecycle.seen(lifecycle.Run(1, attempt, begun, NOW + left, 2, 70), NOW))
    raw.execute("UPDATE counted SET job = ?", (len(runs),))
    assert store.counts()["t"] == Counts(*(states.count(state) for state in State))
    assert [job.state for job in store.jobs(Filter(), 0, 99)] == states
    for state in State:
        assert len(store.jobs(Filter("t", state), 0, 99)) == states.count(state)


# ---- plans ----------------------------------------------------------------------------------------------------------


def plan(store, name, **parameters):
    rows = store._connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", parameters).fetchall()
    return [row[3] for row in rows]


def test_a_page_of_a_window_begins_where_the_last_one_ended(store):
    found = plan(store, "windows", spans="[]", within="[]", limit=1)
    assert "SEARCH j USING INDEX job_due (topic=? AND due=? AND rowid>?)" in found
    assert "SEARCH j USING INDEX job_due (topic=? AND due>? AND due<?)" in found
    assert not any("ORDER BY" in step for step in found)


def test_a_purge_reads_only_what_ended_long_ago(store):
    found = plan(store, "purgeable", topic=None, state=0, until=0, limit=1)
    assert any("history_ended (topic=? AND outcome=? AND ended<?)" in step for step in found)
