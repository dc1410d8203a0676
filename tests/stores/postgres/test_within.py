"""Puts inside a transaction of the caller's own: a job exists exactly if that commits."""

import threading

import psycopg
import pytest

from pywheel import BadJob, JobExists, JobQueue, Worker
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


def topics(queue):
    return {topic: sum(counts) for topic, counts in queue.store.counts().items()}


def test_a_job_exists_from_the_commit_on(queue, connection):
    id = queue.put("order", {"n": 1}, key="k", connection=connection)
    assert queue.store.get(id) is None
    connection.commit()
    job = queue.store.get(id)
    assert (job.topic, job.key, job.json()) == ("order", "k", {"n": 1})
    assert topics(queue) == {"order": 1}


def test_a_rollback_leaves_nothing(queue, connection):
    connection.execute("CREATE TEMP TABLE mine (n int)")
    id = queue.put("order", key="k", connection=connection)
    connection.rollback()
    assert queue.store.get(id) is None
    assert topics(queue) == {}
    assert queue.put("order", key="k") != id


def test_a_connection_that_breaks_leaves_nothing(queue, connection, postgres_server):
    id = queue.put("order", connection=connection)
    with postgres_server.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    assert queue.store.get(id) is None


def test_it_goes_together_with_what_else_the_transaction_does(queue, connection, postgres_server):
    with postgres_server.connect() as admin:
        admin.execute("CREATE TABLE IF NOT EXISTS orders (id bigint, job bigint)")
        admin.execute("TRUNCATE orders")
    with connection.transaction():
        connection.execute("INSERT INTO orders VALUES (1, NULL)")
        id = queue.put("order", connection=connection)
        connection.execute("UPDATE orders SET job = %s", (id,))
    connection.commit()
    assert connection.execute("SELECT job FROM orders").fetchall() == [(id,)]
    assert queue.store.get(id).topic == "order"


def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(queue, connection):
    first = queue.put("order", key="k")
    connection.execute("CREATE TEMP TABLE mine AS SELECT 1")
    with pytest.raises(JobExists):
        queue.put("order", key="k", connection=connection)
    second = queue.put("order", key="other", connection=connection)
    assert queue.put("order", b"new", key="k", replace=True, connection=connection) == first
    assert queue.store.get(first).body != b"new"
    connection.commit()
    assert queue.store.get(first).body == b"new"
    assert queue.store.get(second).key == "other"


def test_many_are_put_all_or_none(queue, connection):
    jobs = [queue.job("order", key=f"k{n}") for n in range(50)]
    ids = queue.put_many(jobs, connection=connection)
    with pytest.raises(JobExists):
        queue.put_many([queue.job("order", key="new"), queue.job("order", key="k7")], connection=connection)
    connection.commit()
    assert [queue.store.get(id).key for id in ids] == [f"k{n}" for n in range(50)]
    assert queue.store.get(("order", "new")) is None


def test_rows_may_be_whatever_the_caller_likes(queue, postgres_server):
    with postgres_server.connect(autocommit=False, row_factory=psycopg.rows.dict_row) as connection:
        id = queue.put("a\0b", key="c\0d", connection=connection)
        connection.commit()
    job = queue.store.get(id)
    assert (job.topic, job.key) == ("a\0b", "c\0d")


def test_a_connection_without_a_transaction_is_refused(queue, postgres_server):
    with postgres_server.connect(autocommit=True) as connection:
        with pytest.raises(BadJob, match="begin one"):
            queue.put("order", connection=connection)
        with connection.transaction():
            id = queue.put("order", connection=connection)
    assert queue.store.get(id).topic == "order"


@pytest.mark.parametrize("connection", [object(), 1, "text"])
def test_what_is_no_connection_is_refused(queue, connection):
    with pytest.raises(BadJob, match="connection="):
        queue.put("order", connection=connection)


def test_a_store_in_no_database_refuses():
    with pytest.raises(BadJob, match="connection="):
        JobQueue("memory:").put("order", connection=object())


def test_a_worker_hears_of_it_at_the_commit(queue, connection):
    handled = threading.Event()
    queue.handler("order")(lambda job: handled.set())
    worker = Worker(queue)
    worker.start()
    try:
        queue.put("order", connection=connection)
        assert not handled.wait(0.3)
        connection.commit()
        assert handled.wait(20)
    finally:
        worker.stop()
        assert worker.join(20)


def test_the_tests_clock_counts_there_too(url, connection):
    clock = ManualClock()
    queue = JobQueue(url, clock=clock)
    id = queue.put("order", delay=5, connection=connection)
    connection.commit()
    job = queue.store.get(id)
    assert (job.created, job.due) == (clock.wall(), clock.wall() + 5_000)
    queue.store.close()


def test_sqlalchemys_connection_and_session(queue, postgres_server):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.orm import Session

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: postgres_server.connect(autocommit=False)
    )
    with engine.begin() as connection:
        first = queue.put("order", connection=connection)
        assert queue.store.get(first) is None
    with Session(engine) as session:
        second = queue.put("order", connection=session)
        third = queue.put("order", connection=session)
        session.rollback()
        fourth = queue.put("order", connection=session)
        session.commit()
    engine.dispose()
    assert [queue.store.get(id) is not None for id in (first, second, third, fourth)] == [True, False, False, True]


def test_psycopg2s_connection(queue, postgres_server):
    psycopg2 = pytest.importorskip("psycopg2")
    connection = psycopg2.connect(host=str(postgres_server.folder), user="pywheel", dbname="pywheel")
    first = queue.put("order", b"\0\xff", key="k", headers={"a": "b"}, connection=connection)
    with pytest.raises(JobExists):
        queue.put("order", key="k", connection=connection)
    connection.commit()
    second = queue.put("order", connection=connection)
    connection.rollback()
    connection.close()
    assert queue.store.get(first).body == b"\0\xff"
    assert queue.store.get(second) is None
