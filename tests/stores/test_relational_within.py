"""Puts inside a transaction of the caller's own, by the drivers of databases: a job exists exactly if that commits."""

import contextlib
import re

import pytest

from pywheel import BadJob, JobExists, JobQueue
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from tests.stores.on_mysql.emptied import emptied


@pytest.fixture(params=["postgres", "mysql"])
def server(request):
    return request.getfixturevalue("mariadb_server" if request.param == "mysql" else "postgres_server")


@pytest.fixture
def queue(server):
    url = emptied(server) if server.program == "mariadbd" else server.url()
    with JobQueue(url) as queue:
        yield queue


@pytest.fixture
def connect(server, queue):
    """Makes connections to the store's database, by its own driver."""
    with contextlib.ExitStack() as stack:

        def connect(**options):
            if server.program == "mariadbd":
                options["database"] = queue.store.address.database
            return stack.enter_context(contextlib.closing(server.connect(**{"autocommit": False, **options})))

        yield connect


@pytest.fixture
def connection(connect):
    return connect()


def run(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)


def topics(queue):
    return {topic: sum(counts) for topic, counts in queue.store.ask(CountJobs()).items() if sum(counts)}


def test_a_connection_to_another_database_is_refused(server, queue):
    """It may have the same tables: there the job would be nobody's."""
    name = "another" if server.program == "mariadbd" else "postgres"
    if name == "another":
        with contextlib.closing(server.connect()) as connection:
            run(connection, "CREATE DATABASE IF NOT EXISTS another")
        url, options = re.sub("/db[0-9]+", "/another", queue.store.address.url), {"database": name}
    else:
        url, options = queue.store.address.url.replace("/pywheel?", "/postgres?"), {"dbname": name}
    with JobQueue(url) as other, contextlib.closing(server.connect(autocommit=False, **options)) as connection:
        other.put("order")
        queue.put_many([queue.job("order")] * 100)  # so that its ids are others
        for _ in range(2):
            with pytest.raises(BadJob, match=f"the database {name}, and the jobs are in {queue.store.database}"):
                queue.put("order", connection=connection)
        run(connection, "SELECT 1")
        connection.commit()
        assert len(other.jobs.list("order")) == 1


def fixed(queue, connection, level="REPEATABLE READ"):
    """Begin a transaction that sees what there is now, whatever others commit."""
    run(
        connection,
        f"SET {'SESSION' if hasattr(connection, 'get_autocommit') else ''} TRANSACTION ISOLATION LEVEL {level}",
    )
    run(connection, f"SELECT count(*) FROM {queue.store.dialect.tables}job")


@pytest.mark.parametrize("by", ["id", "key"])
@pytest.mark.parametrize("here", [False, True], ids=["elsewhere", "here"])
def test_what_has_ended_is_not_moved_and_that_is_told(queue, connection, by, here):
    id = queue.put("order", key="k")
    ref = id if by == "id" else ("order", "k")
    if here:
        assert queue.cancel(ref, connection=connection)
    else:
        queue.cancel(ref)
    for command in (ops.Cancel(ref), ops.Edit(ref, 5)):
        assert queue.store.apply_within(connection, command) is ops.Change(State.CANCELLED)
    connection.commit()
    assert queue.get(id).state is State.CANCELLED


@pytest.mark.parametrize("running", [False, True], ids=["delayed", "running"])
@pytest.mark.parametrize("replace", [False, True], ids=["plain", "replace"])
def test_a_key_taken_since_a_snapshot_is_refused_and_the_transaction_goes_on(queue, connection, running, replace):
    queue.put("order")  # the topic is known
    fixed(queue, connection)
    second = queue.put("order", key="second", connection=connection)
    first = queue.put("order", key="k")
    if running:
        queue.store.apply([ops.Claim("order", (first,), ops.ClaimPolicy(60_000, 3), "w", 1)])
    if running or not replace:
        with pytest.raises(JobExists) as caught:
            queue.put_many(
                [queue.job("order"), queue.job("order", b"new", key="k", replace=replace)], connection=connection
            )
        assert caught.value.id == first
    third = queue.put("order", key="third", connection=connection)
    connection.commit()
    assert [queue.get(("order", key)).id for key in ("second", "k", "third")] == [second, first, third]
    assert topics(queue) == {"order": 4}


@pytest.mark.parametrize("what", [object(), 1, "text"])
def test_what_is_no_connection_is_refused(queue, what):
    said = rf"connection= is no {type(what).__name__}: give the session or connection whose transaction is open, of \w+"
    with pytest.raises(BadJob, match=said):
        queue.put("order", connection=what)


@pytest.mark.parametrize("beside", [(), (ops.Expire(9),)], ids=["alone", "beside"])
def test_a_transaction_that_lasts_holds_up_no_other_job(queue, connection, beside):
    """What it has replaced is to be asked for again; with the rest a worker goes on."""
    held, free = queue.put("order", b"old", key="k"), queue.put("order")
    queue.put("order", b"new", key="k", replace=True, connection=connection)
    claim = ops.Claim("order", (held, free), ops.ClaimPolicy(60_000, 3), "w", 2)
    claimed, *_ = queue.store.apply([claim, *beside])
    assert [job.id for job in claimed.jobs] == [free]
    [left] = claimed.left
    assert (left.id, left.topic) == (held, "order")
    assert left.due > queue.store.ask(GetJob(held)).due
    connection.commit()
    claimed, *_ = queue.store.apply([claim, *beside])
    assert [(job.id, job.body) for job in claimed.jobs] == [(held, b"new")]
    assert claimed.left == []


def test_a_transaction_that_lasts_holds_up_no_put_with_another_key(queue, connection):
    queue.put("order")
    queue.put("order", key="mine", connection=connection)
    others = [queue.put("order", key=f"other-{n}") for n in range(8)]
    connection.commit()
    assert queue.put("order", key="other-7", replace=True, connection=connection) == others[7]
