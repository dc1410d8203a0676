"""What the file holds: sums that are kept, ids that are not used again, rules that SQL has, plans."""

import random
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pywheel.jobs import NewJob, State, lifecycle
from pywheel.jobs import commands as c
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.job import Counts
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, GetNextDues, GetStates, ListJobs
from pywheel.stores import Filter
from pywheel.stores import open as open_store
from pywheel.stores.sql import claim, manage, read
from pywheel.stores.sql.transaction import Lookup, Names
from pywheel.stores.sqlite.dialect import TAIL, Carrier, Ids

NOW = 1_700_000_000_000


def apply(store, command):
    [outcome] = store.apply([command])
    return outcome


def put(store, topic="t", count=1, **more):
    return apply(store, c.Put(tuple(NewJob(topic, b"b", NOW, **more) for _ in range(count))))


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
        assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + number)}
    apply(store, c.Cancel(id))
    assert counted(store) == before
    assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + 4, cancelled=1)}


def test_the_uncounted_tail_stays_short(store):
    put(store, count=TAIL - 3)
    for number in range(10):
        put(store, key=f"k{number}" if number % 2 else None)
    assert counted(store) >= TAIL
    put(store, topic="u", count=3 * TAIL)
    assert counted(store) == 4 * TAIL + 7
    assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + 7), "u": Counts(delayed=3 * TAIL)}


def test_a_job_that_is_forgotten_from_the_tail_is_not_counted(store):
    ids = [put(store)[0] for _ in range(3)]
    outcomes = store.apply([c.Put((NewJob("t", b"", NOW),)), c.Delete(ids[1]), c.Delete(ids[2] + 1), c.Cancel(ids[0])])
    assert outcomes[1:] == [c.Change.MADE] * 3
    assert store.ask(CountJobs()) == {"t": Counts(delayed=1, cancelled=1)}


# ---- ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [c.Cancel, None])
def test_the_id_of_a_job_that_is_forgotten_is_not_given_again(store, end):
    ids = put(store, count=3, headers={"h": "1"})
    if end:
        assert store.apply([end(id) for id in ids]) == [c.Change.MADE] * 3
    for id in ids:
        assert apply(store, c.Delete(id))
    assert store.ask(ListJobs(Filter(), 0, 9)) == []
    assert apply(store, c.Delete(ids[-1])) is apply(store, c.Retry(ids[-1], NOW)) is c.Change.NOT_FOUND
    assert store.ask(CountJobs()) == {"t": Counts()}
    assert put(store) == [ids[-1] + 1]


def test_ids_of_jobs_that_were_purged_are_not_given_again(store):
    ids = put(store, count=3)
    store.apply([c.Cancel(id) for id in ids])
    assert apply(store, c.Purge(State.CANCELLED, 0, None, 9)) == 3
    assert put(store) == [ids[-1] + 1]


# ---- rules that stand in SQL too ------------------------------------------------------------------------------------


@given(
    claims=st.integers(0, 8),
    unspent=st.integers(0, 8),
    ttr=st.sampled_from((None, 0, 70)),
    limit=st.sampled_from((None, 0, 5)),
    delays=st.lists(st.integers(0, 10**6), max_size=4),
    jitter=st.sampled_from((0.0, 0.1, 1.0)),
    begun=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_claim_is_stored_as_lifecycle_has_it(store, claims, unspent, ttr, limit, delays, jitter, begun):
    unspent = min(unspent, claims)
    raw = store._connection
    for table in ("job", "topic"):
        raw.execute(f"DELETE FROM {table}")
    raw.execute("INSERT INTO topic (id, name) VALUES (1, 't')")
    columns = "id, topic, next, created, claims, unspent, ttr, max_attempts, body"
    row = (NOW, NOW, claims, unspent, ttr, limit)
    raw.execute(f"INSERT INTO job ({columns}) VALUES (7, 1, ?, ?, ?, ?, ?, ?, x'')", row)
    claimed = apply(store, c.Claim("t", (7,), ClaimPolicy(1_000, 3, tuple(delays), jitter, 30, 200), "w", int(begun)))
    stored = raw.execute("SELECT claims, claims - unspent, begun, next, due, backoff FROM job").fetchone()
    [job] = claimed.jobs
    attempt = lifecycle.attempts(claims + 1, unspent)
    lease = NOW + ((ttr or 1_000) + 30 if begun else 200)
    assert stored[:5] == (claims + 1, attempt, int(begun), lease, NOW)
    assert (job.claims, job.attempt, job.lease_until) == (stored[0], stored[1], stored[3])
    if attempt >= (limit or 3):
        assert stored[5] is None
        return
    bounds = [lifecycle.backoff(delays, attempt, jitter, draw) for draw in (-1, 1)]
    assert bounds[0] <= stored[5] <= bounds[1]


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(-2, 2), st.integers(1, 4), st.integers(0, 9), st.integers(0, 70)),
        max_size=12,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_running_jobs_are_seen_and_lost_as_lifecycle_says(store, runs):
    raw = store._connection
    for table in ("job", "finished", "attempt", "counts", "note"):
        raw.execute(f"DELETE FROM {table}")
    raw.execute("INSERT OR IGNORE INTO topic (id, name) VALUES (1, 't')")
    raw.execute("INSERT INTO counts VALUES (1, ?, 0, 0, 0)", (len(runs),))
    raw.execute("UPDATE counted SET job = ?", (len(runs),))
    columns = "id, topic, state, next, due, created, claims, unspent, started, begun, backoff, body"
    states, endings = [], {}
    for id, (begun, left, attempt, unspent, backoff) in enumerate(runs, 1):
        again = backoff if attempt < 2 else None
        values = (id, NOW + left, NOW - 9, NOW - 9, attempt + unspent, unspent, NOW - 5, begun, again)
        raw.execute(f"INSERT INTO job ({columns}) VALUES (?, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?, x'')", values)
        run = lifecycle.Run(attempt + unspent, attempt, begun, NOW + left, 2, backoff)
        states.append(lifecycle.seen(run, NOW))
        if left <= 0:
            endings[id] = lifecycle.lost(run)
    assert store.ask(CountJobs())["t"] == Counts(*(states.count(state) for state in State))
    before = store.ask(ListJobs(Filter(), 0, 99))
    assert [job.state for job in before] == states
    assert store.ask(GetStates([job.id for job in before])) == states
    for state in State:
        assert len(store.ask(ListJobs(Filter("t", state), 0, 99))) == states.count(state)
    histories = store.ask(GetHistories([job.id for job in before]))
    expired = apply(store, c.Expire(99))
    assert expired.ended == len(endings)
    assert store.ask(ListJobs(Filter(), 0, 99)) == before
    assert store.ask(GetHistories([job.id for job in before])) == histories
    for id, ending in endings.items():
        job, (begun, left, attempt, unspent, _) = store.ask(GetJob(id)), runs[id - 1]
        due = NOW - 9 if ending.due is None else ending.due
        assert (job.state, job.due, job.lost) == (ending.state, due, ending.lost)
        assert job.attempt == attempt - (not ending.spent)


# ---- plans ----------------------------------------------------------------------------------------------------------


def plans(store, steps):
    """Return how SQLite finds what these steps read, statement by statement."""
    connection, texts = store._connection, []
    connection.set_trace_callback(texts.append)
    try:
        Carrier(connection, NOW).drive(steps)
    finally:
        connection.set_trace_callback(None)
    return [[row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")] for text in texts]


def test_the_next_due_time_of_a_topic_is_the_first_of_the_index(store):
    put(store)
    found = plans(store, read.next_dues(Lookup(Names("topic"), Names("worker"), ()), GetNextDues(["t"])))[-1]
    assert any("INDEX job_next (state=? AND topic=? AND priority=?)" in step for step in found), found
    assert not any("ORDER BY" in step for step in found)


def test_a_claim_reads_only_what_is_due(store):
    put(store)
    policy = ClaimPolicy(1_000, 3)
    tx = store._transaction(Names("topic"), Names("worker"), Ids())
    for found in plans(store, claim.reserve(tx, [c.Reserve("t", 10, policy, "w")])):
        for step in found:
            assert "SCAN j " not in f"{step} ", found
            assert "ORDER BY" not in step, found


def test_a_purge_reads_only_what_ended_long_ago(store):
    [id] = put(store)
    apply(store, c.Cancel(id))
    tx = store._transaction(Names("topic"), Names("worker"), Ids())
    found = plans(store, manage.purge(tx, [c.Purge(State.CANCELLED, 0, None, 1)]))
    assert any("finished_ended (topic=? AND state=? AND ended<?)" in step for steps in found for step in steps), found


@pytest.mark.parametrize("change", [c.Cancel, partial(c.Edit, due=5), c.Delete], ids=["cancel", "edit", "delete"])
def test_a_change_by_key_reads_no_job_with_another(store, change):
    put(store, key="k")
    connection, texts = store._connection, []
    connection.set_trace_callback(texts.append)
    assert apply(store, change(("t", "k")))
    connection.set_trace_callback(None)
    selects = [text for text in texts if text.startswith("SELECT")]
    steps = [row[3] for text in selects for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert any("job_key" in step for step in steps), steps
    assert not {"SCAN j", "SCAN f"}.intersection(steps), steps


def test_a_waiting_job_with_a_body_of_128_bytes_takes_less_than_200(path):
    draw = random.Random(1)
    with open_store(f"sqlite:///{path}") as store:
        for _ in range(20):
            dues = [NOW + draw.randrange(5_000, 20_000) for _ in range(1_000)]
            store.apply([c.Put(tuple(NewJob("t", b"x" * 128, due) for due in dues))])
    assert path.stat().st_size < 200 * 20_000
