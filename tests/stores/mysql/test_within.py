"""Puts inside a transaction of the caller's own: a job exists exactly if that commits."""

import contextlib
import threading

import pytest

from pywheel import BadJob, JobExists, JobQueue, StoreBusy, Worker


@pytest.fixture
def url(mariadb_server):
    return mariadb_server.url()


@pytest.fixture
def queue(url):
    queue = JobQueue(url)
    yield queue
    queue.store.close()


@pytest.fixture
def connect(queue, mariadb_server):
    with contextlib.ExitStack() as stack:

        def connect(**options):
            options = {"autocommit": False, "database": queue.store.address.database, **options}
            return stack.enter_context(contextlib.closing(mariadb_server.connect(**options)))

        yield connect


@pytest.fixture
def connection(connect):
    return connect()


def topics(queue):
    return {topic: sum(counts) for topic, counts in queue.store.counts().items()}


def run(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def test_a_job_exists_from_the_commit_on(queue, connection):
    id = queue.put("order", {"n": 1}, key="k", connection=connection)
    assert queue.store.get(id) is None
    connection.commit()
    job = queue.store.get(id)
    assert (job.topic, job.key, job.json()) == ("order", "k", {"n": 1})
    assert topics(queue) == {"order": 1}


def test_a_rollback_leaves_nothing(queue, connection):
    id = queue.put("order", key="k", connection=connection)
    connection.rollback()
    assert queue.store.get(id) is None
    assert topics(queue) == {}
    assert queue.put("order", key="k") != id


def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(queue, connection):
    run(connection, "SELECT 1 FROM pywheel_job")  # its snapshot is older than the key
    first = queue.put("order", key="k")
    with pytest.raises(JobExists):
        queue.put("order", key="k", connection=connection)
    second = queue.put("order", key="other", connection=connection)
    assert queue.put("order", b"new", key="k", replace=True, connection=connection) == first
    assert queue.store.get(first).body != b"new"
    connection.commit()
    assert queue.store.get(first).body == b"new"
    assert queue.store.get(second).key == "other"


def test_many_are_put_all_or_none(queue, connection):
    ids = queue.put_many([queue.job("order", key=f"k{n}") for n in range(50)], connection=connection)
    with pytest.raises(JobExists):
        queue.put_many([queue.job("order", key="new"), queue.job("order", key="k7")], connection=connection)
    connection.commit()
    assert [queue.store.get(id).key for id in ids] == [f"k{n}" for n in range(50)]
    assert queue.store.get(("order", "new")) is None


def test_rows_may_be_whatever_the_caller_likes(queue, connect):
    from pymysql.cursors import DictCursor

    connection = connect(cursorclass=DictCursor, sql_mode="ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
    id = queue.put("a\0b\\", key="c\0d'", connection=connection)
    connection.commit()
    job = queue.store.get(id)
    assert (job.topic, job.key) == ("a\0b\\", "c\0d'")


def test_a_connection_without_a_transaction_is_refused(queue, connect):
    connection = connect(autocommit=True)
    with pytest.raises(BadJob, match="begin one"):
        queue.put("order", connection=connection)
    connection.begin()
    id = queue.put("order", connection=connection)
    connection.commit()
    assert queue.store.get(id).topic == "order"


def test_what_is_no_connection_is_refused(queue):
    with pytest.raises(BadJob, match="connection="):
        queue.put("order", connection=object())


def test_a_deadlock_says_that_the_transaction_is_gone(queue, connect):
    queue.put_many([queue.job("order", key="a"), queue.job("order", key="b")])
    mine, other = connect(), connect()
    hundred = ",".join(["(1, 0)"] * 100)
    run(other, f"INSERT INTO pywheel_count (topic, live) VALUES {hundred}")  # the heavier one
    queue.put("order", key="a", replace=True, connection=mine)
    queue.put("order", key="b", replace=True, connection=other)
    thread = threading.Thread(
        target=queue.put, args=("order",), kwargs={"key": "a", "replace": True, "connection": other}
    )
    thread.start()
    with pytest.raises(StoreBusy, match="begin anew"):
        queue.put("order", key="b", replace=True, connection=mine)
    thread.join()
    other.commit()


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
