"""What keeps a store on MySQL from working: one line that says what to do, and nothing half-done."""

import contextlib
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pywheel import BadJob, NotAStore, StoreAway, StoreBusy, StoreReadOnly, StoreTooNew
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, ListWorkers
from pywheel.stores import open
from pywheel.stores.mysql.connection import _check_version
from pywheel.stores.mysql.dialect import MysqlDialect
from pywheel.stores.mysql.migrate import Migration
from tests.stores import servers

SECRET = "s3cr3t-w0rd"
DOCUMENTED = Path(__file__).parents[3] / "docs" / "stores-mysql.md"
RIGHTS = "GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO {user};"


@pytest.fixture(scope="module")
def server():
    """One that takes few connections."""
    yield from servers.started(servers.MariaDB, settings={"max_connections": 10})


def run(server, *texts, **options):
    with contextlib.closing(server.connect(**options)) as connection, connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return cursor.fetchall()


@pytest.fixture
def user(server):
    """A user who may connect, and no more."""
    name = f"guest{os.urandom(4).hex()}"
    run(server, f"CREATE USER {name}@localhost IDENTIFIED BY '{SECRET}'")
    yield name
    run(server, f"DROP USER {name}@localhost")


def of(url, user, password=SECRET):
    return url.replace("root@", f"{user}:{password}@")


def database_of(url):
    return url.split("/")[3].split("?")[0]


def put(store, body=b"x", topic="t", **options):
    [outcome] = store.apply([ops.Put((NewJob(topic, body, 0, **options),))])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


def refused(kind, match, call, *arguments):
    """Call; what it says is one line."""
    with pytest.raises(kind, match=match) as caught:
        call(*arguments)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_socket_that_is_not_there_says_what_to_look_at():
    refused(
        StoreAway,
        "No such file.*is the server up, and the address right",
        open,
        "mysql://root@/db?unix_socket=/nowhere",
    )


def test_a_database_that_is_not_there_is_to_be_created(server):
    url = server.url()
    refused(NotAStore, "Unknown database 'nowhere'.*create", open, url.replace(database_of(url), "nowhere"))


def test_an_address_without_a_database_is_told_so(server):
    url = server.url()
    refused(NotAStore, "create the database, or give another", open, url.replace(database_of(url), ""))


def test_a_wrong_password_and_none_are_said(server, user):
    refused(NotAStore, "Access denied.*password", open, of(server.url(), user, "wrong"))
    refused(NotAStore, "Access denied.*password", open, server.url(user=user))


def test_who_may_not_use_the_database_is_told_what_to_grant(server, user):
    refused(StoreReadOnly, "grant what docs/stores-mysql.md lists", open, of(server.url(), user))


def test_the_least_rights_that_are_documented_are_enough(server, user):
    url = server.url()
    open(url).close()
    assert RIGHTS.format(database="shop", user="shop") in DOCUMENTED.read_text()
    run(server, RIGHTS.format(database=database_of(url), user=f"{user}@localhost"))
    with open(of(url, user)) as store, open(url) as other:
        id = put(store, key="k")
        notifier, ears = store.notifier("w"), other.notifier("w")
        store.apply([ops.Announce(notifier.worker, ("t",)), ops.Announce(ears.worker, ("t",))])
        notifier.beat(0)
        ears.beat(0)
        for workers in (ears.members(), store.ask(ListWorkers())):
            assert {member.worker for member in workers if member.silent < 10} == {notifier.worker, ears.worker}
        [[job]] = store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1_000, 3), "w")])
        outcomes = store.apply([ops.Ack(job.id, job.claims), ops.Pause("t", True), ops.Delete(id)])
        assert outcomes == [True, True, ops.Change.MADE]
        notifier.close()
        ears.close()


def test_who_may_read_only_is_told_so(server, user):
    url = server.url()
    with open(url) as store:
        id = put(store)
    run(server, f"GRANT SELECT ON {database_of(url)}.* TO {user}@localhost")
    with open(of(url, user)) as store:
        assert store.ask(GetJob(id)).id == id
        refused(StoreReadOnly, "denied.*grant", put, store)


def test_a_replica_is_told_from_the_primary(server, user):
    url = server.url()
    with open(url):
        run(server, f"GRANT ALL ON {database_of(url)}.* TO {user}@localhost", "SET GLOBAL read_only = 1")
        try:
            with open(of(url, user)) as store:
                refused(StoreReadOnly, "give the primary's address", put, store)
        finally:
            run(server, "SET GLOBAL read_only = 0")
        with open(of(url, user)) as store:
            put(store)


def test_what_a_dba_has_sessions_begin_with_changes_nothing(server):
    try:
        run(server, "SET GLOBAL autocommit = 0", "SET GLOBAL completion_type = 1")
        with open(server.url()) as store:
            id = put(store)
            assert store.ask(GetJob(id)).body == b"x"
            assert run(server, f"SELECT id FROM {database_of(store.url)}.pywheel_job") == ((id,),)
            with store._use() as connection:
                assert connection.ready  # in no transaction
            assert store._puts.writing(time.monotonic() + 5).ready
    finally:
        run(server, "SET GLOBAL autocommit = 1", "SET GLOBAL completion_type = 0")


def test_too_many_connections_are_busy(server):
    url = server.url()
    with open(url) as store, contextlib.ExitStack() as stack:
        put(store)
        with contextlib.suppress(Exception):
            while True:
                stack.enter_context(contextlib.closing(server.connect()))
        refused(StoreBusy, "max_connections", open, url)


def test_a_body_that_the_server_does_not_take_is_refused_alone_and_all_others_are_stored(server):
    url = server.url()
    before = run(server, "SELECT @@global.max_allowed_packet")[0][0]
    run(server, "SET GLOBAL max_allowed_packet = 1048576")
    try:
        with open(url) as store:
            put(store)
            refused(BadJob, "let max_allowed_packet be larger", put, store, b"x" * 2**20)
            ids = store.apply([ops.Put(tuple(NewJob("t", b"x" * 200_000, 0) for _ in range(20)))])[0]
            assert [len(store.ask(GetJob(id)).body) for id in ids] == [200_000] * 20
            assert store.ask(CountJobs())["t"].delayed == 21
    finally:
        run(server, f"SET GLOBAL max_allowed_packet = {before}")


def test_a_store_of_a_newer_pywheel_is_refused(server):
    url = server.url()
    open(url).close()
    run(server, "UPDATE pywheel_number SET value = 99 WHERE name IN ('schema', 'least')", database=database_of(url))
    refused(StoreTooNew, r"has version 99, this pywheel knows \d+: install a newer one", open, url)


def test_what_was_begun_to_be_made_is_made_again(server):
    url = server.url()
    open(url).close()
    run(
        server,
        "DROP TABLE pywheel_nonce",
        "DELETE FROM pywheel_number WHERE name = 'schema'",
        database=database_of(url),
    )
    with open(url) as store:
        put(store)


def test_a_store_is_not_made_where_it_is_not_to_be(server):
    url = server.url()
    with pytest.raises(NotAStore, match="put a job first"):
        open(url, create=False)


def test_the_statements_for_a_dba_make_a_store(server, user):
    url = server.url(prefix="jobs_")
    database = database_of(url)
    connection = SimpleNamespace(mariadb=not server.is_mysql)
    statements = Migration(connection, MysqlDialect("jobs_")).script(0).split(";\n")
    run(server, *filter(str.strip, statements), database=database)
    run(server, RIGHTS.format(database=database, user=f"{user}@localhost"))
    with open(of(url, user), create=False) as store:
        put(store)


@pytest.mark.parametrize(
    ("version", "right"),
    [
        ("5.5.5-10.11.6-MariaDB-log", True),
        ("10.6.1-MariaDB", True),
        ("11.4.2-MariaDB-ubu2404", True),
        ("8.0.36", True),
        ("9.1.0-commercial", True),
        ("5.7.44-log", False),
        ("5.5.5-10.5.23-MariaDB-1:10.5.23+maria~deb11", False),
        ("10.3.39-MariaDB", False),
    ],
)
def test_servers_that_are_too_old_are_refused(version, right):
    with contextlib.nullcontext() if right else pytest.raises(NotAStore, match=r"needs MySQL 8\.0 or MariaDB 10\.6"):
        _check_version(version)
