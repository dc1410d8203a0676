"""Obstacles to a store on a database: one line of advice, and nothing half-done."""

import contextlib
import os
import re
import subprocess
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from pywheel import BadJob, NotAStore, StoreAway, StoreBusy, StoreFull, StoreReadOnly, StoreTooNew
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, ListWorkers
from pywheel.stores import open
from pywheel.stores.mysql.connection import _check_version
from pywheel.stores.mysql.dialect import MysqlDialect
from pywheel.stores.mysql.migrate import Migration
from pywheel.stores.sql.statement import Do
from tests.jobs.waiting import until
from tests.stores import servers
from tests.stores.calls import TERMS, in_threads, listening
from tests.stores.files import put
from tests.stores.refusing import SECRET, refused
from tests.stores.server import store_of

DOCS = Path(__file__).parents[2] / "docs"


class OfPostgres:
    server, settings = servers.Postgres, {"max_connections": 16, "superuser_reserved_connections": 1}
    rights = (
        "GRANT USAGE ON SCHEMA {store} TO {user};",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {store} TO {user};",
        "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {store} TO {user};",
    )
    documented, example = "stores-postgres.md", "jobs"
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    reading = ("GRANT USAGE ON SCHEMA {store} TO {user}", "GRANT SELECT ON ALL TABLES IN SCHEMA {store} TO {user}")
    new = "CREATE ROLE {user} LOGIN PASSWORD '{secret}'"
    gone = ("DROP OWNED BY {user} CASCADE", "DROP ROLE {user}")
    at = ""
    upgrade = "UPDATE {store}.pywheel_schema SET version = 99, least = 99"
    replica = ("ALTER ROLE {user} SET default_transaction_read_only = on", "SELECT 1", "replica")
    nowhere = (r"/pywheel\?", "/nowhere?")
    said: ClassVar = {
        "database": 'database "nowhere" does not exist.*create',
        "password": "password",
        "rights": "permission denied.*`pywheel migrate --sql`",
        "write": "permission denied.*grant",
        "busy": "too many clients.*max_connections",
        "missing": "there is no store at .*pywheel migrate",
    }


class OfMysql:
    server, settings = servers.MariaDB, {"max_connections": 18}
    rights = ("GRANT SELECT, INSERT, UPDATE, DELETE ON {store}.* TO {user};",)
    documented, example = "stores-mysql.md", "shop"
    sessions = "SELECT count(*) FROM information_schema.processlist WHERE command <> 'Daemon'"
    reading = ("GRANT SELECT ON {store}.* TO {user}",)
    new = "CREATE USER {user} IDENTIFIED BY '{secret}'"
    gone = ("DROP USER {user}",)
    at = "@localhost"
    upgrade = "UPDATE {store}.pywheel_number SET value = 99 WHERE name IN ('schema', 'least')"
    replica = ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "give the primary's address")
    nowhere = (r"/db\d+", "/nowhere")
    said: ClassVar = {
        "database": "Unknown database 'nowhere'.*create",
        "password": "Access denied.*password",
        "rights": "grant what docs/stores-mysql.md lists",
        "write": "denied.*grant",
        "busy": "max_connections",
        "missing": "put a job first",
    }


for_postgres, for_mysql = (
    pytest.mark.parametrize("database", [name], indirect=True) for name in ("postgres", "mariadb")
)


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def database(request):
    """What is said in its own words, and a server that takes few connections."""
    kind = OfPostgres() if request.param == "postgres" else OfMysql()
    with contextlib.contextmanager(servers.started)(kind.server, settings=kind.settings) as kind.running:
        yield kind


@pytest.fixture
def url(database):
    return database.running.url()


@pytest.fixture
def run(database, url):
    """Runs statements as an administrator."""

    def run(*texts, user=None):
        names = {"store": store_of(url), "user": f"{user}{database.at}", "secret": SECRET}
        return database.running.run(*(text.format_map(names) if "{" in text else text for text in texts))

    return run


@pytest.fixture
def user(database, run):
    """A user who may connect, and no more."""
    name = f"guest{os.urandom(4).hex()}"
    run(database.new, user=name)
    yield name
    run(*database.gone, user=name)


def of(url, user, password=SECRET):
    return re.sub(r"//\w+@", f"//{user}:{password}@", url)


def test_a_database_that_is_not_there_is_to_be_created(database, url):
    refused(NotAStore, database.said["database"], open, re.sub(*database.nowhere, url))


def test_a_missing_password_and_missing_rights_are_said(database, url, user):
    refused(NotAStore, database.said["password"], open, re.sub(r"//\w+@", f"//{user}@", url))
    refused(StoreReadOnly, database.said["rights"], open, of(url, user))


def test_the_least_rights_that_are_documented_are_enough(database, url, run, user):
    open(url).close()
    documented = (DOCS / database.documented).read_text()
    assert all(line.format(store=database.example, user="shop") in documented for line in database.rights)
    run(*database.rights, user=user)
    with open(of(url, user)) as store, open(url) as other:
        id = put(store, key="k")
        notifier, ears = listening(store), listening(other)
        notifier.beat(0)
        ears.beat(0)
        for workers in (ears.members(), store.ask(ListWorkers())):  # neither may see the other's session
            assert {member.worker for member in workers if member.silent < 10} == {notifier.worker, ears.worker}
        [[job]] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
        outcomes = store.apply([ops.Ack(job.id, job.claims), ops.Pause("t", True), ops.Delete(id)])
        assert outcomes == [True, True, ops.Change.MADE]


def test_who_may_read_only_is_told_so(database, url, run, user):
    with open(url) as store:
        id = put(store)
    run(*database.reading, user=user)
    with open(of(url, user)) as store:
        assert store.ask(GetJob(id)).id == id
        refused(StoreReadOnly, database.said["write"], put, store)


def test_a_server_that_only_reads_is_told_from_the_primary(database, url, run, user):
    with open(url) as store:
        id = put(store)
    sets, unsets, said = database.replica
    run(*database.rights, sets, user=user)
    try:
        with open(of(url, user)) as store:
            assert store.ask(GetJob(id)).body == b"b"
            refused(StoreReadOnly, said, put, store)
            refused(StoreReadOnly, said, store.apply, [ops.Cancel(id)])
    finally:
        run(unsets)


def test_too_many_connections_are_busy(database, url):
    with open(url) as store, contextlib.ExitStack() as stack:
        put(store)
        with contextlib.suppress(Exception):
            while True:
                stack.enter_context(contextlib.closing(database.running.connect()))
        refused(StoreBusy, database.said["busy"], open, f"{url}{'&' if '?' in url else '?'}timeout=2")

    def room():
        with contextlib.suppress(import_module(database.server.driver).OperationalError):  # there are still too many
            return database.running.run(database.sessions)[0][0] <= 8

    until(room)  # for the next test


def test_a_store_of_a_newer_pywheel_is_left_alone(database, url, run):
    open(url).close()
    run(database.upgrade)
    refused(StoreTooNew, r"has version 99, this pywheel knows \d+: install a newer one", open, url)


def test_without_create_nothing_is_made(database, url):
    for _ in range(2):
        refused(NotAStore, database.said["missing"], open, url, create=False)


def test_what_is_no_server_is_away(database, url, tmp_path):
    refused(StoreAway, "is the server up", open, url.replace(str(database.running.folder), str(tmp_path)))


# ---- on PostgreSQL --------------------------------------------------------------------------------------------------


@for_postgres
def test_those_that_open_an_empty_database_at_once_make_one_store(url):
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(store) for store in in_threads(*[partial(open, url)] * 3)]
        ids = {put(store) for store in stores}
        assert len(ids) == 3
        assert all(store.ask(GetJob(id)) for store in stores for id in ids)


@for_postgres
def test_tables_that_were_dropped_are_missed_by_name(url, run):
    with open(url) as store:
        put(store)
        run("DROP SCHEMA {store} CASCADE")
        refused(NotAStore, "pywheel migrate", put, store)
        refused(NotAStore, "pywheel migrate", store.ask, CountJobs())


@for_postgres
def test_a_statement_timeout_of_the_role_is_named(database, url, run, user):
    open(url).close()
    run(*database.rights, "ALTER ROLE {user} SET statement_timeout = '1s'", user=user)
    with open(of(url, user)) as store, database.running.connect(autocommit=False) as holder:
        put(store)
        holder.execute(f"LOCK TABLE {store_of(url)}.pywheel_job IN ACCESS EXCLUSIVE MODE")
        refused(StoreBusy, "statement timeout.*statement_timeout", store.ask, GetJob(1))


@for_postgres
def test_sessions_that_a_role_may_not_leave_idle_last_all_the_same(database, url, run, user):
    open(url).close()
    run(*database.rights, "ALTER ROLE {user} SET idle_session_timeout = 1000", user=user)
    pids = f"SELECT pid FROM pg_stat_activity WHERE usename = '{user}' ORDER BY pid"
    with (
        database.running.connect() as admin,
        open(of(url, user)) as store,
        contextlib.closing(store.notifier("w")),
    ):
        put(store)
        before = admin.execute(pids).fetchall()
        admin.execute("SELECT pg_sleep(2)")
        assert admin.execute(pids).fetchall() == before != []


@for_postgres
def test_a_name_that_no_index_takes_is_bad(url):
    with open(url) as store:
        refused(BadJob, "the server does not take it", put, store, topic=os.urandom(8_000).hex())
        assert put(store) > 0
        assert store.ask(CountJobs())["t"].delayed == 1


@pytest.mark.servers
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_is_said_and_it_goes_on_when_there_is_room():
    with servers.Postgres() as server:
        small = server.folder / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", small], check=False).returncode:
            pytest.skip("no file system may be mounted here")
        try:
            subprocess.run(["chown", "nobody", small], check=True)
            with contextlib.closing(server.connect()) as connection:
                connection.execute(f"CREATE TABLESPACE small LOCATION '{small}'")
                connection.execute("ALTER ROLE pywheel SET default_tablespace = small")
            with open(server.url()) as store:
                ids = []
                refused(StoreFull, "make room on the server", fill, store, ids)
                assert all(store.ask(GetJob(id)) for id in ids)
                assert sum(store.ask(CountJobs())["t"]) == len(ids)
                subprocess.run(["mount", "-o", "remount,size=48m", small], check=True)
                assert store.ask(GetJob(put(store))).body == b"b"
        finally:
            server.kill()
            subprocess.run(["umount", "-l", small], check=False)


def fill(store, ids):
    while True:
        ids.append(put(store, os.urandom(900_000)))


# ---- on MySQL -------------------------------------------------------------------------------------------------------


@for_mysql
def test_an_address_without_a_database_is_told_so(url):
    refused(NotAStore, "create the database, or give another", open, url.replace(store_of(url), ""))


@for_mysql
def test_what_a_dba_has_sessions_begin_with_changes_nothing(database, url, run):
    try:
        run("SET GLOBAL autocommit = 0", "SET GLOBAL completion_type = 1")
        with open(url) as store:
            id = put(store)
            assert store.ask(GetJob(id)).body == b"b"
            assert run("SELECT id FROM {store}.pywheel_job") == ((id,),)
            with store._use() as connection:
                assert connection.ready  # in no transaction
            assert store._puts.writing(time.monotonic() + 5).ready
    finally:
        run("SET GLOBAL autocommit = 1", "SET GLOBAL completion_type = 0")


@for_mysql
@pytest.mark.parametrize(
    ("setting", "usual"),
    [("group_concat_max_len = 56", 2**20), ("sql_select_limit = 1", 2**64 - 1), ("sql_safe_updates = 1", 0)],
)
def test_limits_of_the_server_for_people_who_type_cut_no_claim_and_no_put(url, run, setting, usual):
    """A list of ids that is cut ends with the beginning of one, which is the id of another job."""
    with open(url) as store:
        [late] = store.apply([ops.Put((NewJob("t", b"", 10**13),))])[0]
        run("UPDATE {store}.pywheel_number SET value = 1000000000 WHERE name = 'id'")
    run(f"SET GLOBAL {setting}")
    try:
        with open(url) as store:
            new = tuple(NewJob("t", b"", 0, key=f"k{n}") for n in range(20))
            [ids] = store.apply([ops.Put(new)])
            claims = [ops.Claim("t", (), TERMS, "w", most, limit=most) for most in (1, 19)]
            jobs = [job for claim in claims for job in store.apply([claim])[0].jobs]
            assert [job.id for job in jobs] == list(ids)
            store.apply([ops.Ack(job.id, job.claims) for job in jobs])
            store.run(Do(store.dialect.fold))
            counts = store.ask(CountJobs())["t"]
            assert (counts.done, counts.running, counts.delayed) == (20, 0, 1)
            assert store.ask(GetJob(late)).attempt == 0
    finally:
        run(f"SET GLOBAL {setting.split()[0]} = {usual}")


@for_mysql
def test_a_body_that_the_server_does_not_take_is_refused_alone_and_all_others_are_stored(url, run):
    [[before]] = run("SELECT @@global.max_allowed_packet")
    run("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with open(url) as store:
            put(store)
            refused(BadJob, "let max_allowed_packet be larger", put, store, b"x" * 2**20)
            ids = store.apply([ops.Put(tuple(NewJob("t", b"x" * 200_000, 0) for _ in range(20)))])[0]
            assert [len(store.ask(GetJob(id)).body) for id in ids] == [200_000] * 20
            assert store.ask(CountJobs())["t"].delayed == 21
    finally:
        run(f"SET GLOBAL max_allowed_packet = {before}")


@for_mysql
def test_what_was_begun_to_be_made_is_made_again(url, run):
    open(url).close()
    run("DROP TABLE {store}.pywheel_nonce", "DELETE FROM {store}.pywheel_number WHERE name = 'schema'")
    with open(url) as store:
        put(store)


@for_mysql
def test_the_statements_for_a_dba_make_a_store(database, url, run, user):
    connection = SimpleNamespace(mariadb=not database.running.is_mysql)
    statements = Migration(connection, MysqlDialect("jobs_")).script(0).split(";\n")
    run("USE {store}", *filter(str.strip, statements), *database.rights, user=user)
    with open(f"{of(url, user)}{'&' if '?' in url else '?'}prefix=jobs_", create=False) as store:
        put(store)


@pytest.mark.parametrize(
    ("right", "versions"),
    [
        (True, ["5.5.5-10.11.6-MariaDB-log", "10.6.1-MariaDB", "11.4.2-MariaDB-ubu2404", "8.0.36", "9.1.0-commercial"]),
        (False, ["5.7.44-log", "5.5.5-10.5.23-MariaDB-1:10.5.23+maria~deb11", "10.3.39-MariaDB"]),
    ],
)
def test_servers_that_are_too_old_are_refused(right, versions):
    for version in versions:
        expected = contextlib.nullcontext() if right else pytest.raises(NotAStore, match=r"MySQL 8\.0 or MariaDB 10\.6")
        with expected:
            _check_version(version)
