"""Puts inside a transaction of the caller's own, on the store's file: a job exists exactly if that commits."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from pywheel import BadJob, JobExists, JobQueue, State, StoreBusy, StoreError, Worker
from pywheel.jobs.queries import CountJobs, GetJob


@pytest.fixture
def queue(path):
    queue = JobQueue(f"sqlite:///{path}")
    yield queue
    queue.store.close()


@pytest.fixture
def connection(path, queue):
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def test_a_job_exists_from_the_commit_on(queue, connection):
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, job INTEGER)")
    with connection:
        connection.execute("INSERT INTO orders VALUES (1, NULL)")
        id = queue.put("order", {"n": 1}, key="k", connection=connection)
        connection.execute("UPDATE orders SET job = ?", (id,))
        assert queue.store.ask(GetJob(id)) is None
    job = queue.store.ask(GetJob(id))
    assert (job.topic, job.key, job.json()) == ("order", "k", {"n": 1})
    assert connection.execute("SELECT job FROM orders").fetchall() == [(id,)]
    assert queue.store.ask(CountJobs())["order"].delayed == 1


def test_a_task_is_put_moved_and_cancelled_in_the_transaction(queue, connection):
    @queue.task("order.close", key=lambda order: f"order-{order}")
    def close(order: int): ...

    with connection:
        id = close.options(delay="1h", connection=connection).put(7)
    due = queue.get(id).due
    close.options(delay="2h", connection=connection).reschedule(7)
    close.options(connection=connection).cancel(7)
    connection.rollback()
    assert (queue.get(id).state, queue.get(id).due) == (State.DELAYED, due)
    with connection:
        assert close.options(connection=connection).cancel(7)
        assert not close.options(connection=connection).cancel(7)
        assert queue.get(id).state is State.DELAYED
    assert queue.get(id).state is State.CANCELLED


def test_a_queue_for_coroutines_takes_a_connection_that_blocks(queue, connection):
    async def put():
        return await queue.aio.put("order", connection=connection)

    id = asyncio.run(put())
    assert queue.store.ask(GetJob(id)) is None
    connection.commit()
    assert queue.get(id).state is State.DELAYED


def test_workers_hear_of_a_job_that_is_replaced_once_that_is_committed(queue, connection):
    """Told before, they would look, find the old one, and look again much later."""
    handled = threading.Event()
    queue.handler("order")(lambda job: handled.set())
    queue.put("order", delay="1h", key="k")
    worker = Worker(queue)
    worker.start()
    try:
        queue.put("order", key="k", replace=True, connection=connection)
        assert not handled.wait(0.3)
        connection.commit()
        assert handled.wait(60)
    finally:
        worker.stop()
        assert worker.join(60)


def test_a_rollback_leaves_nothing(queue, connection):
    id = queue.put("order", key="k", connection=connection)
    connection.rollback()
    assert queue.store.ask(GetJob(id)) is None
    assert queue.store.ask(CountJobs()) == {}
    queue.put("order", key="k")


def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(queue, connection):
    queue.put("order", key="k")
    first = queue.put("order", connection=connection)
    with pytest.raises(JobExists):
        queue.put_many([queue.job("order"), queue.job("order", key="k")], connection=connection)
    connection.commit()
    assert [job.id for job in queue.jobs.list("order")] == [1, first]


def test_rows_may_be_whatever_the_caller_likes(queue, connection):
    connection.row_factory = sqlite3.Row
    id = queue.put("order", key="k", connection=connection)
    assert isinstance(connection.execute("SELECT 1").fetchone(), sqlite3.Row)
    connection.commit()
    assert queue.store.ask(GetJob(id)).key == "k"


def test_a_connection_without_a_transaction_or_to_another_file_is_refused(queue, path, tmp_path):
    with closing(sqlite3.connect(path, isolation_level=None)) as alone, pytest.raises(BadJob, match="begin one"):
        queue.put("order", connection=alone)
    with closing(sqlite3.connect(tmp_path / "x.db")) as other, pytest.raises(BadJob, match=r"one to .*x\.db"):
        queue.put("order", connection=other)
    with closing(sqlite3.connect(":memory:")) as memory, pytest.raises(BadJob, match="one to no file"):
        queue.put("order", connection=memory)
    assert queue.store.ask(CountJobs()) == {}


def test_a_connection_that_is_closed_is_refused(queue, path):
    connection = sqlite3.connect(path)
    connection.close()
    with pytest.raises(BadJob, match=r"connection= cannot be used: Cannot operate on a closed database\."):
        queue.put("order", connection=connection)


def test_a_connection_of_another_thread_is_an_error_of_ours(queue, path):
    connections = []
    thread = threading.Thread(target=lambda: connections.append(sqlite3.connect(path)))
    thread.start()
    thread.join()
    with pytest.raises(StoreError, match="can only be used in that same thread"):
        queue.put("order", connection=connections[0])
    assert queue.store.ask(CountJobs()) == {}


def test_a_cursor_stands_for_its_connection(queue, connection):
    cursor = connection.execute("BEGIN IMMEDIATE")
    id = queue.put("order", connection=cursor)
    assert queue.store.ask(GetJob(id)) is None
    connection.commit()
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_a_session_without_a_database_is_refused(queue):
    from sqlalchemy.orm import Session

    with Session() as session, pytest.raises(BadJob, match="connection= cannot be used: This session is not bound"):
        queue.put("order", connection=session)


def test_a_file_that_another_writes_to_is_busy(queue, connection, path):
    with closing(sqlite3.connect(path, timeout=0.05)) as other:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            queue.put("order", connection=other)
    connection.rollback()
    assert queue.store.ask(CountJobs()) == {}


def test_a_transaction_that_has_not_read_yet_waits_for_another_writer(queue, connection, path):
    connection.execute("BEGIN")  # deferred, as Django's
    other = sqlite3.connect(path, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE mine (n)")
    ends = threading.Timer(0.3, other.commit)
    ends.start()
    id = queue.put("order", connection=connection)
    connection.commit()
    ends.join()
    other.close()
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_a_transaction_that_has_read_what_others_changed_since_is_to_begin_anew(queue, connection):
    queue.put("order")
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM topic").fetchall()
    queue.put("order", key="k")
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        queue.put("order", connection=connection)


def test_a_worker_hears_of_it_at_the_commit(queue, connection):
    handled = threading.Event()
    queue.handler("order")(lambda job: handled.set())
    queue.put("other")
    worker = Worker(queue)
    worker.start()
    try:
        queue.put("order", connection=connection)
        assert not handled.wait(0.2)
        connection.commit()
        assert handled.wait(60)
    finally:
        worker.stop()
        assert worker.join(60)


def test_sqlalchemys_session(queue, path):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.orm import Session

    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with Session(engine) as session:
        first = queue.put("order", connection=session)
        session.commit()
        second = queue.put("order", connection=session)
        session.rollback()
    engine.dispose()
    assert [queue.store.ask(GetJob(id)) is not None for id in (first, second)] == [True, False]
