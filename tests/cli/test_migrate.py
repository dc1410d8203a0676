"""`pywheel migrate`, for the people who keep the tables."""

import contextlib

import pytest

from pywheel import StoreReadOnly
from pywheel.stores import open


def test_a_store_in_a_file_needs_nobody_to_do_it(call, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    assert call("migrate", "--sql", "--store", url)[1] == "-- nothing to do\n"
    assert not (tmp_path / "jobs.db").exists()
    assert call("migrate", "--store", url)[1] == "nothing to do\n"


def test_what_it_prints_makes_the_store(call, postgres_server):
    url = postgres_server.url()
    script = call("migrate", "--sql", "--store", url)[1]
    assert script.startswith("BEGIN;")
    with postgres_server.connect() as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_tables WHERE tablename = 'pywheel_job' AND schemaname = %s",
            (url.partition("schema=")[2],),
        ).fetchone() == (0,)
        connection.execute(script)
    assert call("migrate", "--sql", "--store", url)[1] == "-- nothing to do\n"
    assert call("migrate", "--store", url)[1] == "nothing to do\n"
    open(url, create=False).close()


def test_what_it_prints_keeps_nobody_waiting_behind_it_for_long(call, postgres_server, mariadb_server):
    script = call("migrate", "--sql", "--store", postgres_server.url())[1]
    with postgres_server.connect() as connection:
        connection.execute(script.removesuffix("COMMIT;\n"))
        assert connection.execute("SHOW lock_timeout").fetchone() == ("500ms",)
        connection.execute("COMMIT")
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    limit, *_, default = call("migrate", "--sql", "--store", mariadb_server.url())[1].strip().split(";\n\n")
    with contextlib.closing(mariadb_server.connect()) as connection, connection.cursor() as cursor:
        for statement, seconds in ((limit, 1), (default.rstrip(";"), 86_400)):
            cursor.execute(statement)
            cursor.execute("SELECT @@lock_wait_timeout")
            assert cursor.fetchone() == (seconds,)


def test_it_makes_the_store(call, postgres_server):
    url = postgres_server.url()
    assert call("migrate", "--store", url)[1] == "done\n"
    assert call("migrate", "--store", url)[1] == "nothing to do\n"


def test_who_may_not_is_told_what_to_ask_for(call, postgres_server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "guest")
    with postgres_server.connect() as connection:
        connection.execute("CREATE ROLE newcomer LOGIN PASSWORD 'guest'")
    url = postgres_server.url(user="newcomer")
    with pytest.raises(StoreReadOnly, match="pywheel migrate --sql"):
        open(url)
    assert "CREATE TABLE" in call("migrate", "--sql", "--store", url)[1]
