"""Puts inside a transaction of the caller's own: the part of PostgreSQL and its drivers."""

import psycopg
import pytest

from pywheel import BadJob, JobExists, JobQueue, StoreBusy
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob
from pywheel.testing import ManualClock


@pytest.fixture
def url(postgres_server):
    return postgres_server.url()


@pytest.fixture
def queue(url):
    queue = JobQueue(url)
    yield queue
    queue.store.close()


@pytest.fixture
def connection(postgres_server):
    with postgres_server.connect(autocommit=False) as connection:
        yield connection


def test_a_connection_that_breaks_leaves_nothing(queue, connection, postgres_server):
    id = queue.put("order", connection=connection)
    with postgres_server.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    assert queue.store.ask(GetJob(id)) is None


LEVELS = ["REPEATABLE READ", "SERIALIZABLE"]


@pytest.fixture(params=LEVELS)
def fixed(request, queue, connection):
    """A connection whose transaction sees what there was when it began, whatever others commit."""
    queue.put("order", b"old", key="before")
    connection.execute(f"SET TRANSACTION ISOLATION LEVEL {request.param}")
    connection.execute("SELECT 1 FROM pg_class")
    return connection


@pytest.mark.parametrize("key", ["before", "since"])
def test_a_key_that_another_took_or_changed_since_the_snapshot_is_refused(queue, fixed, key):
    id = queue.put("order", b"theirs", key=key, replace=True)
    with pytest.raises(JobExists) as caught:
        queue.put("order", key=key, connection=fixed)
    assert caught.value.id == id
    other = queue.put("order", key="other", connection=fixed)
    fixed.commit()
    assert queue.get(other).key == "other"
    assert queue.get(id).body == b"theirs"


@pytest.mark.parametrize("key", ["before", "since"])
@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
def test_what_a_snapshot_cannot_decide_says_to_begin_anew(queue, fixed, key, ended):
    queue.put("order", b"theirs", key=key, replace=True)
    if ended:
        assert queue.store.apply([ops.Cancel(("order", key))]) == [ops.Change.MADE]
    if key == "before" or not ended:
        with pytest.raises(StoreBusy, match="begin it anew, or let it be READ COMMITTED") as caught:
            queue.put("order", b"mine", key=key, replace=True, connection=fixed)
        assert "\n" not in str(caught.value)
        fixed.execute("SELECT 1")
        fixed.rollback()
    id = queue.put("order", b"mine", key=key, replace=True, connection=fixed)
    fixed.commit()
    assert queue.get(id).body == b"mine"


def test_a_successor_whose_parent_began_since_the_snapshot_is_no_job_too_many(queue, fixed):
    [[job]] = queue.store.apply([ops.Reserve("order", 1, ops.ClaimPolicy(60_000, 3), "w")])
    successor = ops.Put((NewJob("order", b"next", 0, "before", parent=(job.id, job.claims)),))
    with pytest.raises(StoreBusy, match="begin it anew"):
        queue.store.apply_within(fixed, successor)
    fixed.rollback()
    [id] = queue.store.apply_within(fixed, successor)
    fixed.commit()
    assert queue.get(id).body == b"next"


def test_a_store_in_no_database_refuses():
    with pytest.raises(BadJob, match="connection="):
        JobQueue("memory:").put("order", connection=object())


def test_the_tests_clock_counts_there_too(url, connection):
    clock = ManualClock()
    queue = JobQueue(url, clock=clock)
    id = queue.put("order", delay=5, connection=connection)
    connection.commit()
    job = queue.store.ask(GetJob(id))
    assert (job.created, job.due) == (clock.wall(), clock.wall() + 5_000)
    queue.store.close()
