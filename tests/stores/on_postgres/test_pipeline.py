"""Statements that go to the server together."""

import time

import psycopg
import pytest
from psycopg import generators
from psycopg.adapt import Loader
from psycopg.pq import Format

from pywheel.jobs import NewJob
from pywheel.jobs.commands import Reserve
from pywheel.jobs.queries import GetJob
from pywheel.stores import open
from pywheel.stores.postgres import pipeline
from pywheel.stores.postgres.pipeline import numbered
from tests.stores.calls import CALLS, TERMS, put
from tests.stores.server import store_of

PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %(like)s"


class Upside(Loader):
    """Loads nothing as it is."""

    format = Format.BINARY

    def load(self, data):
        return bytes(data)[::-1]


@pytest.fixture
def connection(postgres_server):
    with open(postgres_server.url()) as store:
        connection = store._connect(time.monotonic() + 60)
        yield connection
        connection.end()


def prepared(connection, like):
    """Return how many statements are prepared that look like this, but for the question."""
    [[(found,)]] = connection.ask([(PREPARED, {"like": like})])
    return found


def test_each_statement_gives_its_rows(connection):
    asked = [("SELECT %(a)s::int, %(b)b::bytea", {"a": 7, "b": b"\0x"}), ("SET lock_timeout = 9", {})]
    assert connection.ask([*asked, ("SELECT 'x%%', %(a)s::int, %(a)s::int", {"a": None})]) == [
        [(7, b"\0x")],
        [],
        [("x%", None, None)],
    ]


def test_a_value_that_comes_twice_has_one_number():
    text, names, _ = numbered("SELECT %(b)s, %(a)b, %(b)s, 7 %% 2")
    assert (text, names) == ("SELECT $1, $2, $1, 7 % 2", ("b", "a"))


def test_a_statement_is_prepared_once(connection):
    for number in range(3):
        assert connection.ask([("SELECT %(n)s + 1 AS once", {"n": number})]) == [[(number + 1,)]]
    assert prepared(connection, "%AS onc_") == 1


def test_what_comes_after_a_statement_that_fails_is_prepared_when_it_comes_again(connection):
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.ask([("SELECT 1/%(n)s::int", {"n": 0}), ("SELECT 2 AS behind", {})])
    assert connection.ready
    assert prepared(connection, "%AS behin_") == 0
    assert connection.ask([("SELECT 1/%(n)s::int", {"n": 1}), ("SELECT 2 AS behind", {})]) == [[(1,)], [(2,)]]
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.ask([("SELECT FROM WHERE", {})])
    with pytest.raises(psycopg.errors.SyntaxError):
        connection.ask([("SELECT FROM WHERE", {})])


def test_statements_that_the_session_has_lost_are_prepared_anew(connection):
    asked = [("SELECT 1 AS first", {}), ("SELECT %(n)s::int AS second", {"n": 2})]
    connection.ask(asked)
    connection.execute("DISCARD ALL")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.ask(asked)
    assert connection.ask(asked) == [[(1,)], [(2,)]]


def test_after_a_change_of_a_column_commands_and_reads_go_on(postgres_server):
    url = postgres_server.url()
    calls = [CALLS[name] for name in ("put with a key", "cancel", "reserve", "get by key")]
    with open(url) as store:
        for call in calls * 2:
            call(store)
        with postgres_server.connect() as admin:
            for change in ("priority TYPE int", "claims TYPE bigint"):
                admin.execute(f"ALTER TABLE {store_of(url)}.pywheel_job ALTER COLUMN {change}")
        for call in calls:
            assert not isinstance(call(store), BaseException)


def test_beyond_so_many_none_is_prepared(connection, monkeypatch):
    monkeypatch.setattr(pipeline, "_MOST", 2)
    for number in range(5):
        assert connection.ask([(f"SELECT {number} AS many", {})]) == [[(number,)]]
    assert prepared(connection, "%AS man_") == 2


def test_values_and_rows_of_megabytes_pass_each_other(connection):
    long = "x" * 8_000_000
    answers = connection.ask([("SELECT %(long)s::text", {"long": long})] * 4)
    assert [row == (long,) for [row] in answers] == [True] * 4


def test_a_text_that_the_server_would_cut_is_refused(connection):
    with pytest.raises(psycopg.DataError, match="NUL"):
        connection.ask([("SELECT %(text)s::text", {"text": "a\0b"})])
    assert connection.ready


@pytest.mark.parametrize("option", [{"client_encoding": "latin1"}, {"options": "-c client_encoding=latin1"}])
def test_texts_are_stored_as_they_are_whatever_encoding_is_asked_for(postgres_server, option):
    url = postgres_server.url()
    with open(postgres_server.again(url, **option)) as store, open(url) as other:
        put(store, NewJob("t", b"", 0, "ä€"))
        assert other.ask(GetJob(("t", "ä€"))).key == "ä€"


def test_loaders_that_a_program_registers_for_all_connections_change_no_job(postgres_server, monkeypatch):
    monkeypatch.setattr(psycopg.adapters, "_loaders", [loaders.copy() for loaders in psycopg.adapters._loaders])
    for kind in ("bytea", "int8", "text"):
        psycopg.adapters.register_loader(kind, Upside)
    with open(postgres_server.url()) as store:
        id = put(store, NewJob("t", b"body", 0, "key"))[0]
        [[found]] = store.apply([Reserve("t", 1, TERMS, "w")])
        assert (found.id, found.body, found.key) == (id, b"body", "key")


def test_a_commit_that_fails_is_an_error_and_the_connection_goes_on(connection):
    table = "CREATE TEMPORARY TABLE pair (id int PRIMARY KEY, other int REFERENCES pair DEFERRABLE INITIALLY DEFERRED)"
    connection.ask([(table, {})])
    for _ in range(2):
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.ask([("INSERT INTO pair VALUES (1, 2)", {})])
        assert connection.ready
        assert connection.ask([("SELECT count(*) FROM pair", {})]) == [[(0,)]]


def test_after_an_interrupt_the_connection_is_used_no_more(connection, monkeypatch):
    def interrupted(pgconn):
        raise KeyboardInterrupt

    monkeypatch.setattr(generators, "fetch_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        connection.ask([("SELECT 1", {})])
    assert not connection.ready


def test_the_server_says_why_it_closes_a_connection(connection, postgres_server):
    [[(pid,)]] = connection.ask([("SELECT pg_backend_pid()", {})])
    with pytest.raises(psycopg.errors.AdminShutdown):
        connection.ask([("SELECT pg_terminate_backend(%(pid)s), pg_sleep(9)", {"pid": pid}), ("SELECT 1", {})])
    assert not connection.ready
