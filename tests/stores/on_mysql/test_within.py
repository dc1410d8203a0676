"""Puts inside a transaction of the caller's own: what is MySQL's, and its driver's."""

import contextlib
import threading

import pytest

from pywheel import JobQueue, StoreBusy


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


def run(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)


def test_rows_may_be_whatever_the_caller_likes(queue, connect):
    from pymysql.cursors import DictCursor

    connection = connect(cursorclass=DictCursor, sql_mode="ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
    id = queue.put("a\0b\\", key="c\0d'", connection=connection)
    connection.commit()
    job = queue.store.get(id)
    assert (job.topic, job.key) == ("a\0b\\", "c\0d'")


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
