"""Puts inside a transaction of the caller's own: the part of MySQL and its driver."""

import contextlib
import threading

import pytest

from pywheel import JobQueue, StoreBusy
from pywheel.jobs.queries import GetJob


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


def test_a_deadlock_says_that_the_transaction_is_gone(queue, connect):
    queue.put_many([queue.job("order", key="a"), queue.job("order", key="b")])
    mine, other = connect(), connect()
    hundred = ",".join(["(1, 0, 0, 0, 0)"] * 100)
    run(other, f"INSERT INTO pywheel_tally (topic, live, done, cancelled, dead) VALUES {hundred}")  # the heavier one
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


@pytest.fixture
def strict(queue, connect, mariadb_server):
    """A connection whose snapshot MariaDB holds it to, as it does from 11.6.2 on."""
    if mariadb_server.is_mysql:
        pytest.skip("MySQL has no innodb_snapshot_isolation")
    queue.put("order", b"old", key="before")
    connection = connect()
    run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    run(connection, "SET SESSION innodb_snapshot_isolation = ON")
    run(connection, "SELECT 1 FROM pywheel_job")
    return connection


@pytest.mark.parametrize("key", ["before", "since"])
@pytest.mark.parametrize("replace", [False, True], ids=["plain", "replace"])
def test_a_transaction_that_the_server_ended_for_its_snapshot_says_so(queue, strict, key, replace):
    first = queue.put("order", key="mine", connection=strict)
    id = queue.put("order", b"theirs", key=key, replace=True)
    with pytest.raises(StoreBusy, match=r"has ended this transaction.*begin anew"):
        queue.put("order", b"mine", key=key, replace=replace, connection=strict)
    strict.commit()
    assert queue.store.ask(GetJob(first)) is None
    assert queue.put("order", b"mine", key=key, replace=True, connection=strict) == id
    strict.commit()
    assert queue.get(id).body == b"mine"
