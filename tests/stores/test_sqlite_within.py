"""Puts inside a transaction of the caller's own, on the store's file: a job exists exactly if that commits."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import aiosqlite
import pytest

from pywheel import AsyncJobQueue, BadJob, JobQueue, State, StoreBusy, StoreError, StoreFull
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores.sqlite.connection import translated
from tests.stores.files import locked


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


def test_a_connection_to_another_file_is_refused(queue, tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db")) as other, pytest.raises(BadJob, match=r"one to .*x\.db"):
        queue.put("order", connection=other)
    with closing(sqlite3.connect(":memory:")) as memory, pytest.raises(BadJob, match="one to no file"):
        queue.put("order", connection=memory)
    assert queue.store.ask(CountJobs()) == {}


def test_a_connection_of_another_thread_is_an_error_of_ours(queue, path, pool):
    connection = pool.submit(sqlite3.connect, path).result()
    with pytest.raises(StoreError, match="can only be used in that same thread"):
        queue.put("order", connection=connection)
    assert queue.store.ask(CountJobs()) == {}


def test_a_cursor_stands_for_its_connection(queue, connection):
    cursor = connection.execute("BEGIN IMMEDIATE")
    id = queue.put("order", connection=cursor)
    assert queue.store.ask(GetJob(id)) is None
    connection.commit()
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_a_connection_of_a_class_of_the_program_is_one_of_sqlite3(queue, path):
    class Mine(sqlite3.Connection): ...

    with closing(sqlite3.connect(path, factory=Mine)) as connection:
        id = queue.put("order", connection=connection)
        connection.commit()
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_the_error_of_a_put_beside_the_transaction_says_how_to_put_inside_it(queue, connection, path):
    connection.execute("BEGIN IMMEDIATE")
    refused = pytest.raises(StoreBusy, match="takes connection=")
    with closing(sqlite3.connect(path, timeout=0)) as beside, refused, translated(str(path)):
        beside.execute("BEGIN IMMEDIATE")


def test_a_session_without_a_database_is_refused(queue):
    from sqlalchemy.orm import Session

    with Session() as session, pytest.raises(BadJob, match="connection= cannot be used: This session is not bound"):
        queue.put("order", connection=session)


def test_a_transaction_that_has_not_read_yet_waits_for_another_writer(queue, connection, path):
    connection.execute("BEGIN")  # deferred, as Django's
    with locked(path) as other:
        other.execute("CREATE TABLE mine (n)")
        ends = threading.Timer(0.3, other.commit)
        ends.start()
        id = queue.put("order", connection=connection)
        connection.commit()
        ends.join()
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_a_transaction_that_has_read_what_others_changed_since_is_to_begin_anew(queue, connection):
    queue.put("order")
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM topic").fetchall()
    queue.put("order", key="k")
    with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
        queue.put("order", connection=connection)


def fill(connection):
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")  # stands for a full disk


def interrupted_soon(connection):
    connection.set_progress_handler(lambda: 1, 2_000)


def put_until_it_fails(queue, connection, jobs):
    for _ in range(100):
        queue.put_many([queue.job("order", bytes(3_000)) for _ in range(jobs)], connection=connection)


@pytest.mark.parametrize(("fail", "jobs", "kind"), [(fill, 1, StoreFull), (interrupted_soon, 300, StoreError)])
def test_the_error_of_a_put_says_that_sqlite_has_rolled_back_the_whole_transaction(queue, connection, fail, jobs, kind):
    connection.execute("CREATE TABLE orders(number)")
    connection.execute("INSERT INTO orders VALUES (1)")
    fail(connection)
    with pytest.raises(StoreError, match="SQLite has rolled back the whole transaction") as caught:
        put_until_it_fails(queue, connection, jobs)
    assert type(caught.value) is kind
    assert not connection.in_transaction
    assert queue.store.ask(CountJobs()) == {}


def test_the_error_of_a_put_by_aiosqlite_says_that_sqlite_has_rolled_back_the_whole_transaction(queue, path):
    async def main():
        async with AsyncJobQueue(queue.store.url) as same, aiosqlite.connect(path) as theirs:
            await theirs.execute("CREATE TABLE orders(number)")
            await theirs.commit()
            await theirs.execute("INSERT INTO orders VALUES (1)")
            async with theirs.execute("PRAGMA page_count") as cursor:
                [pages] = await cursor.fetchone()
            await theirs.execute(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StoreFull, match="SQLite has rolled back the whole transaction"):
                [await same.put("order", bytes(3_000), connection=theirs) for _ in range(100)]
            assert not theirs.in_transaction

    asyncio.run(main())
