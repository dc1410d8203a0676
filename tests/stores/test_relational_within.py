"""Changes inside a transaction of the caller's own, on a server: what others hold, have taken or have changed since."""

import contextlib
import re
import threading
from urllib.parse import quote, urlsplit

import pytest

from pywheel import BadJob, JobExists, JobQueue, StoreAway, StoreBusy
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores.mysql.connection import LockWait
from pywheel.stores.sql.statement import Select
from pywheel.stores.sql.transaction import Taken
from pywheel.testing import ManualClock
from tests.stores.emptied import emptied

on_postgres, on_mysql = (
    pytest.mark.parametrize("sql_server", [name], indirect=True) for name in ("postgres", "mariadb")
)
before_and_since = pytest.mark.parametrize("key", ["before", "since"])


@pytest.fixture
def queue(sql_server):
    with JobQueue(emptied(sql_server)) as queue:
        yield queue


@pytest.fixture
def connect(sql_server, queue):
    """Makes connections to the store's database, by its own driver."""
    with contextlib.ExitStack() as stack:

        def connect(**options):
            if sql_server.program == "mariadbd":
                options["database"] = queue.store.address.database
            return stack.enter_context(contextlib.closing(sql_server.connect(**{"autocommit": False, **options})))

        yield connect


@pytest.fixture
def connection(connect):
    return connect()


def run(connection, *texts):
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)


def test_a_connection_to_another_database_is_refused(sql_server, queue):
    """It may have the same tables: there the job would be nobody's."""
    name = "another" if sql_server.program == "mariadbd" else "postgres"
    if name == "another":
        sql_server.run("CREATE DATABASE IF NOT EXISTS another")
        url, options = re.sub("/db[0-9]+", "/another", queue.store.address.url), {"database": name}
    else:
        url, options = queue.store.address.url.replace("/pywheel?", "/postgres?"), {"dbname": name}
    with JobQueue(url) as other, contextlib.closing(sql_server.connect(autocommit=False, **options)) as connection:
        other.put("order")
        queue.put_many([queue.job("order")] * 100)  # so that its ids are others
        for _ in range(2):
            with pytest.raises(BadJob, match=f"the database {name}, and the jobs are in {queue.store.database}"):
                queue.put("order", connection=connection)
        run(connection, "SELECT 1")
        connection.commit()
        assert len(other.jobs.list("order")) == 1


def test_a_job_goes_to_its_own_store_wherever_the_connection_looks_for_tables(sql_server):
    """Another schema, or a database that it uses since an earlier put, may have a store with the same names."""
    if sql_server.program == "mariadbd":
        urls = [sql_server.url() for _ in range(2)]
        places = [urlsplit(url).path[1:] for url in urls]
        away, options = f"USE {places[1]}", {"database": places[0]}
    else:
        places = ['"he.re"', "elsewhere"]
        sql_server.run(*(f"CREATE SCHEMA {place}" for place in places))
        paths = [f"search_path={place}" for place in places]
        urls = [re.sub("schema=[^&]*", f"options=-c{quote(path)}", sql_server.url()) for path in paths]
        away, options = f"SET {paths[1]}", {"options": f"-c{paths[0]}"}
    with (
        JobQueue(urls[0]) as queue,
        JobQueue(urls[1]) as other,
        contextlib.closing(sql_server.connect(autocommit=False, **options)) as connection,
    ):
        queue.put("order")
        other.put("mail")  # the topic has the number that the other has there
        queue.put("order", connection=connection)
        run(connection, away)
        id = queue.put("order", connection=connection)
        assert queue.cancel(id, connection=connection)
        connection.commit()
        assert (len(queue.jobs.list("order")), len(other.jobs.list("mail"))) == (3, 1)
        assert queue.store.verify() == other.store.verify() == []


@on_mysql
@pytest.mark.parametrize("name", ["a`b", "50%", "x :now y", "{now}"])
def test_a_database_may_have_any_name(sql_server, name):
    sql_server.run(f"CREATE DATABASE `{name.replace('`', '``')}`")
    url = re.sub("/db[0-9]+", f"/{quote(name)}", sql_server.url())
    with JobQueue(url) as queue, contextlib.closing(sql_server.connect(autocommit=False, database=name)) as connection:
        queue.put("order")  # the topic is known
        jobs = [queue.job("order"), queue.job("order", b"new", key="k", replace=True)]
        for _ in range(2):
            *_, id = queue.put_many(jobs, connection=connection)
        assert queue.cancel(("order", "k"), connection=connection)
        connection.commit()
        assert queue.get(id).state is State.CANCELLED


@pytest.mark.parametrize("by", ["id", "key"])
@pytest.mark.parametrize("here", [False, True], ids=["elsewhere", "here"])
def test_what_has_ended_is_not_moved_and_that_is_told(queue, connection, by, here):
    id = queue.put("order", key="k")
    ref = id if by == "id" else ("order", "k")
    assert queue.cancel(ref, **({"connection": connection} if here else {}))
    for command in (ops.Cancel(ref), ops.Edit(ref, 5)):
        assert queue.store.apply_within(connection, command) is ops.Change(State.CANCELLED)
    connection.commit()
    assert queue.get(id).state is State.CANCELLED


def test_what_is_no_connection_is_refused(queue):
    said = r": give the session or connection whose transaction is open, of \w+"
    for what in (object(), 1, "text"):
        with pytest.raises(BadJob, match=f"connection= is no {type(what).__name__}{said}"):
            queue.put("order", connection=what)


def test_a_put_that_others_were_sooner_than_each_time_says_so(queue, connection, monkeypatch):
    def taken(*_):
        raise Taken

    monkeypatch.setattr(queue.store, "_step_within", taken)
    with pytest.raises(StoreBusy, match="other puts kept taking the same keys: try again"):
        queue.put("order", connection=connection)


def test_a_connection_that_is_lost_says_what_the_server_said(queue, connection, monkeypatch):
    def away(text):
        raise StoreAway("the connection is lost")

    def lost(session, tx, command, new):
        session.send([Select("SELECT 1")])
        monkeypatch.setattr(session, "_execute", away)
        raise StoreAway("terminating connection due to administrator command")

    monkeypatch.setattr(queue.store, "_step_within", lost)
    with pytest.raises(StoreAway, match="administrator command"):
        queue.put("order", connection=connection)


def test_a_store_in_no_database_refuses():
    with pytest.raises(BadJob, match="connection="):
        JobQueue("memory:").put("order", connection=object())


@on_postgres
def test_the_tests_clock_counts_there_too(queue, connection):
    clock = ManualClock()
    with JobQueue(queue.store.secret_url, clock=clock) as queue:
        id = queue.put("order", delay=5, connection=connection)
        connection.commit()
        job = queue.get(id)
        assert (job.created, job.due) == (clock.wall(), clock.wall() + 5_000)


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


@on_mysql
def test_a_deadlock_says_that_the_transaction_is_gone(queue, connect):
    queue.put_many([queue.job("order", key="a"), queue.job("order", key="b")])
    mine, other = connect(), connect()
    hundred = ",".join(["(1, 0, 0, 0, 0)"] * 100)
    run(other, f"INSERT INTO pywheel_tally (topic, live, done, cancelled, dead) VALUES {hundred}")  # the heavier one
    queue.put("order", key="a", replace=True, connection=mine)
    queue.put("order", key="b", replace=True, connection=other)
    more = {"key": "a", "replace": True, "connection": other}
    thread = threading.Thread(target=queue.put, args=("order",), kwargs=more)
    thread.start()
    with pytest.raises(StoreBusy, match="begin anew"):
        queue.put("order", key="b", replace=True, connection=mine)
    thread.join()
    other.commit()


@on_mysql
def test_a_wait_for_a_lock_that_rolled_back_the_whole_transaction_says_so(queue, connection, monkeypatch):
    """As by `innodb_rollback_on_timeout`, with which a server must start."""

    def waited(session, tx, command, new):
        session.send([Select("SELECT 1")])
        connection.rollback()
        raise LockWait("Lock wait timeout exceeded")

    monkeypatch.setattr(queue.store, "_step_within", waited)
    with pytest.raises(StoreBusy, match=r"has ended this transaction.*begin anew"):
        queue.put("order", connection=connection)


@on_mysql
@pytest.mark.parametrize("most", [0, 1])
def test_a_connection_that_reads_few_rows_by_default_puts_and_cancels_all_the_same(queue, connection, most):
    run(connection, f"SET SESSION sql_select_limit = {most}")
    jobs = [queue.job("order", b"old", key=f"k{n}", replace=True, delay="1h") for n in range(3)]
    ids = queue.put_many(jobs, connection=connection)
    assert queue.put_many(jobs, connection=connection) == ids
    assert queue.cancel(("order", "k1"), connection=connection)
    connection.commit()
    assert [queue.get(id).state for id in ids] == [State.DELAYED, State.CANCELLED, State.DELAYED]
    assert queue.store.verify() == []


# ---- since a snapshot -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("running", [False, True], ids=["delayed", "running"])
@pytest.mark.parametrize("replace", [False, True], ids=["plain", "replace"])
def test_a_key_taken_since_a_snapshot_is_refused_and_the_transaction_goes_on(queue, connection, running, replace):
    queue.put("order")  # the topic is known
    scope = "SESSION" if hasattr(connection, "get_autocommit") else ""
    look = f"SELECT count(*) FROM {queue.store.dialect.tables}job"
    run(connection, f"SET {scope} TRANSACTION ISOLATION LEVEL REPEATABLE READ", look)
    second = queue.put("order", key="second", connection=connection)
    first = queue.put("order", key="k")
    if running:
        queue.store.apply([ops.Claim("order", (first,), ops.ClaimPolicy(60_000, 3), "w", 1)])
    if running or not replace:
        jobs = [queue.job("order"), queue.job("order", b"new", key="k", replace=replace)]
        with pytest.raises(JobExists) as caught:
            queue.put_many(jobs, connection=connection)
        assert caught.value.id == first
    third = queue.put("order", key="third", connection=connection)
    connection.commit()
    assert [queue.get(("order", key)).id for key in ("second", "k", "third")] == [second, first, third]
    assert sum(queue.store.ask(CountJobs())["order"]) == 4


@pytest.fixture(params=["REPEATABLE READ", "SERIALIZABLE"])
def fixed(request, queue, connection):
    """A connection whose transaction sees what there was when it began, whatever others commit."""
    queue.put("order", b"old", key="before")
    run(connection, f"SET TRANSACTION ISOLATION LEVEL {request.param}", "SELECT 1 FROM pg_class")
    return connection


@on_postgres
@before_and_since
def test_a_key_that_another_took_or_changed_since_the_snapshot_is_refused(queue, fixed, key):
    id = queue.put("order", b"theirs", key=key, replace=True)
    with pytest.raises(JobExists) as caught:
        queue.put("order", key=key, connection=fixed)
    assert caught.value.id == id
    other = queue.put("order", key="other", connection=fixed)
    fixed.commit()
    assert queue.get(other).key == "other"
    assert queue.get(id).body == b"theirs"


@on_postgres
@before_and_since
@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
def test_what_a_snapshot_cannot_decide_says_to_begin_anew(queue, fixed, key, ended):
    queue.put("order", b"theirs", key=key, replace=True)
    if ended:
        assert queue.cancel(("order", key))
    if key == "before" or not ended:
        with pytest.raises(StoreBusy, match="begin it anew, or let it be READ COMMITTED") as caught:
            queue.put("order", b"mine", key=key, replace=True, connection=fixed)
        assert "\n" not in str(caught.value)
        fixed.execute("SELECT 1")
        fixed.rollback()
    id = queue.put("order", b"mine", key=key, replace=True, connection=fixed)
    fixed.commit()
    assert queue.get(id).body == b"mine"


@on_postgres
def test_a_successor_whose_parent_began_since_the_snapshot_is_no_job_too_many(queue, fixed):
    [job] = queue.reserve("order", 1)
    successor = ops.Put((NewJob("order", b"next", 0, "before", parent=(job.id, job.claims)),))
    with pytest.raises(StoreBusy, match="begin it anew"):
        queue.store.apply_within(fixed, successor)
    fixed.rollback()
    [id] = queue.store.apply_within(fixed, successor)
    fixed.commit()
    assert queue.get(id).body == b"next"


@on_mysql
@before_and_since
@pytest.mark.parametrize("replace", [False, True], ids=["plain", "replace"])
def test_a_transaction_that_the_server_ended_for_its_snapshot_says_so(sql_server, queue, connection, key, replace):
    """MariaDB holds a transaction to its snapshot from 11.6.2 on, and before if it is told to."""
    if sql_server.is_mysql:
        pytest.skip("MySQL has no innodb_snapshot_isolation")
    queue.put("order", b"old", key="before")
    run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    run(connection, "SET SESSION innodb_snapshot_isolation = ON", "SELECT 1 FROM pywheel_job")
    first = queue.put("order", key="mine", connection=connection)
    id = queue.put("order", b"theirs", key=key, replace=True)
    with pytest.raises(StoreBusy, match=r"has ended this transaction.*begin anew"):
        queue.put("order", b"mine", key=key, replace=replace, connection=connection)
    connection.commit()
    assert queue.store.ask(GetJob(first)) is None
    assert queue.put("order", b"mine", key=key, replace=True, connection=connection) == id
    connection.commit()
    assert queue.get(id).body == b"mine"
