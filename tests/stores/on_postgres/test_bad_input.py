"""What keeps a store on PostgreSQL from working: one line that says what to do, and nothing half-done."""

import contextlib
import os
import subprocess
import threading

import pytest

from pywheel import (
    BadJob,
    NotAStore,
    StoreAway,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, ListWorkers
from pywheel.stores import open
from tests.stores import servers
from tests.stores.server import TEMPLATES

SECRET = "s3cr3t-w0rd"


@pytest.fixture(scope="module")
def server():
    """One that asks for passwords, and takes few connections."""
    yield from servers.started(servers.Postgres, settings={"max_connections": 8, "superuser_reserved_connections": 1})


@pytest.fixture(autouse=True)
def _password(monkeypatch):
    """The server asks everybody but the tests' own user."""
    monkeypatch.setenv("PGPASSWORD", SECRET)


@pytest.fixture
def admin(server):
    with contextlib.closing(server.connect()) as connection:
        yield connection


def put(store, body=b"x", topic="t", **options):
    [outcome] = store.apply([ops.Put((NewJob(topic, body, 0, **options),))])
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


def refused(kind, match, call, *arguments, **options):
    """Call, and return what it says: one line."""
    with pytest.raises(kind, match=match) as caught:
        call(*arguments, **options)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def schema_of(url):
    return url.partition("schema=")[2].partition("&")[0]


@pytest.fixture
def role(admin):
    """A user who may connect, and no more."""
    name = f"guest{os.urandom(4).hex()}"
    admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    yield name
    admin.execute(f"DROP OWNED BY {name} CASCADE")
    admin.execute(f"DROP ROLE {name}")


def test_a_database_that_is_not_there_is_to_be_created(server):
    url = server.url().replace("/pywheel?", "/nowhere?")
    refused(NotAStore, 'database "nowhere" does not exist.*create', open, url)


def test_a_wrong_password_and_none_are_said(server, role, monkeypatch):
    monkeypatch.delenv("PGPASSWORD")
    url = server.url(user=role)
    refused(NotAStore, "password", open, url.replace("@", ":wrong@"))
    refused(NotAStore, "password", open, url)
    refused(StoreReadOnly, "pywheel migrate", open, url.replace("@", f":{SECRET}@"))


def test_an_unknown_user_is_said(server):
    refused(NotAStore, 'authentication failed for user "nobody"', open, server.url(user="nobody"))


def test_who_may_not_create_is_told_what_to_grant(server, role):
    refused(StoreReadOnly, "permission denied.*`pywheel migrate --sql`", open, server.url(user=role))


RIGHTS = """
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
"""


def test_the_least_rights_that_are_documented_are_enough(server, admin, role):
    url = server.url()
    open(url).close()
    schema = schema_of(url)
    admin.execute(RIGHTS.format(schema=schema, role=role))
    documented = (TEMPLATES.parents[1] / "docs" / "stores-postgres.md").read_text()
    for line in RIGHTS.format(schema="jobs", role="shop").strip().splitlines():
        assert line in documented
    with open(url.replace("pywheel@", f"{role}@")) as store, open(url) as other:
        id = put(store, key="k")
        notifier, ears = store.notifier("w"), other.notifier("w")
        store.apply([ops.Announce(notifier.worker, ("t",)), ops.Announce(ears.worker, ("t",))])
        notifier.beat(0)
        ears.beat(0)
        # Neither may see the other's session.
        assert {member.worker for member in ears.members() if member.silent < 10} == {notifier.worker, ears.worker}
        assert {member.worker for member in store.ask(ListWorkers()) if member.silent < 10} == {
            notifier.worker,
            ears.worker,
        }
        [[job]] = store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1_000, 3), "w")])
        outcomes = store.apply([ops.Ack(job.id, job.claims), ops.Pause("t", True), ops.Delete(id)])
        assert outcomes == [True, True, ops.Change.MADE]
        notifier.close()
        ears.close()


def test_who_may_read_only_is_told_so(server, admin, role):
    url = server.url()
    with open(url) as store:
        id = put(store)
    admin.execute(f"GRANT USAGE ON SCHEMA {schema_of(url)} TO {role}")
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_of(url)} TO {role}")
    with open(url.replace("pywheel@", f"{role}@")) as store:
        assert store.ask(GetJob(id)).id == id
        refused(StoreReadOnly, "permission denied.*grant", put, store)


def test_a_store_of_a_newer_pywheel_is_left_alone(server, admin):
    url = server.url()
    open(url).close()
    admin.execute(f"UPDATE {schema_of(url)}.pywheel_schema SET version = 99, least = 99")
    refused(StoreTooNew, "has version 99.*install a newer", open, url)


def test_without_create_nothing_is_made(server, admin):
    url = server.url()
    refused(NotAStore, "there is no store at .*pywheel migrate", open, url, create=False)
    assert admin.execute("SELECT to_regnamespace(%s)", (schema_of(url),)).fetchone() == (None,)


def test_two_that_open_an_empty_database_at_once_make_one_store(server):
    url = server.url()
    wrong, stores = [], []

    def work(barrier):
        barrier.wait(60)
        try:
            stores.append(open(url))
        except BaseException as error:
            wrong.append(error)

    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    ids = [put(store) for store in stores]
    assert len(set(ids)) == 3
    for store in stores:
        assert all(store.ask(GetJob(id)) for id in ids)
        store.close()


def test_tables_that_were_dropped_are_missed_by_name(server, admin):
    url = server.url()
    with open(url) as store:
        put(store)
        admin.execute(f"DROP SCHEMA {schema_of(url)} CASCADE")
        refused(NotAStore, "pywheel migrate", put, store)
        refused(NotAStore, "pywheel migrate", store.ask, CountJobs())


def test_a_server_that_only_reads_is_a_replica_perhaps(server, admin, role):
    url = server.url()
    with open(url) as store:
        id = put(store)
    admin.execute(RIGHTS.format(schema=schema_of(url), role=role))
    admin.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with open(url.replace("pywheel@", f"{role}@")) as store:
        assert store.ask(GetJob(id)).body == b"x"
        refused(StoreReadOnly, "replica", put, store)
        refused(StoreReadOnly, "replica", store.apply, [ops.Cancel(id)])
    refused(StoreReadOnly, "replica", open, server.url(user=role))


def test_too_many_connections_are_said(server):
    url = server.url(timeout="2")
    open(url).close()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(Exception):
            while True:
                stack.enter_context(contextlib.closing(server.connect(user="pywheel", dbname="postgres")))
        said = refused(StoreBusy, "too many clients", open, url)
        assert "max_connections" in said


def test_a_statement_timeout_of_the_role_is_named(server, admin, role):
    url = server.url()
    open(url).close()
    schema = schema_of(url)
    admin.execute(RIGHTS.format(schema=schema, role=role))
    admin.execute(f"ALTER ROLE {role} SET statement_timeout = '1s'")
    with open(url.replace("pywheel@", f"{role}@")) as store, server.connect(autocommit=False) as holder:
        put(store)
        holder.execute(f"LOCK TABLE {schema}.pywheel_job IN ACCESS EXCLUSIVE MODE")
        refused(StoreBusy, "statement timeout.*statement_timeout", store.ask, GetJob(1))


def test_sessions_that_a_role_may_not_leave_idle_last_all_the_same(server, admin, role):
    url = server.url()
    open(url).close()
    admin.execute(RIGHTS.format(schema=schema_of(url), role=role))
    admin.execute(f"ALTER ROLE {role} SET idle_session_timeout = 1000")
    pids = f"SELECT pid FROM pg_stat_activity WHERE usename = '{role}' ORDER BY pid"
    with open(url.replace("pywheel@", f"{role}@")) as store, contextlib.closing(store.notifier("w")):
        put(store)
        before = admin.execute(pids).fetchall()
        admin.execute("SELECT pg_sleep(2)")
        assert admin.execute(pids).fetchall() == before != []


def test_a_name_that_no_index_takes_and_a_body_that_no_message_takes_are_bad(server):
    with open(server.url()) as store:
        word = os.urandom(8_000).hex()
        refused(BadJob, "the server does not take it", put, store, topic=word)
        assert put(store) > 0
        assert store.ask(CountJobs())["t"].delayed == 1


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
                fill_and_empty(server, store)
        finally:
            server.kill()
            subprocess.run(["umount", "-l", small], check=False)


def fill_and_empty(server, store):
    ids = []

    def fill():
        while True:
            ids.append(put(store, os.urandom(900_000)))

    refused(StoreFull, "make room on the server", fill)
    assert all(store.ask(GetJob(id)) for id in ids)
    assert sum(store.ask(CountJobs())["t"]) == len(ids)
    subprocess.run(["mount", "-o", "remount,size=48m", server.folder / "small"], check=True)
    assert store.ask(GetJob(put(store))).body == b"x"


def test_what_is_no_server_is_away(server, tmp_path):
    refused(StoreAway, "is the server up", open, server.url().replace(str(server.folder), str(tmp_path)))
