"""Passwords of servers: they reach the programs that need them, and nothing shows them."""

import logging

import pytest

from pywheel import JobQueue, NotAStore, StoreAway, StoreError, Worker
from pywheel.stores import open
from tests.stores.network import Proxy
from tests.stores.refusing import SECRET, refused

PASSWORD = "s3:cr@t/x"
QUOTED = "s3%3Acr%40t%2Fx"


def allow(server):
    """Let the user shop in, who may do all, with the password."""
    if server.program == "redis-server":
        with server.connect() as client:
            client.execute_command("ACL", "SETUSER", "shop", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    elif server.program == "postgres":
        if not server.run("SELECT 1 FROM pg_roles WHERE rolname = 'shop'"):
            server.run(f"CREATE ROLE shop LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
    else:
        server.run(
            "DROP USER IF EXISTS shop@localhost",
            f"CREATE USER shop@localhost IDENTIFIED BY '{PASSWORD}'",
            "GRANT ALL ON *.* TO shop@localhost",
        )


@pytest.fixture
def guarded(server):
    """A server that lets shop in, with the password."""
    allow(server)
    return server


def url_of(server, password=QUOTED, **options):
    """Return the address of an empty store, for shop."""
    return server.url(user="shop", **options).replace("shop@", f"shop:{password}@")


def hides(text):
    return not {part for part in (PASSWORD, QUOTED, "cr@t", "cr%40t") if part in text}


def shown(error):
    """Return all that somebody could see of an error: its own text and those that it came from."""
    found = []
    while error is not None:
        found += [str(error), *map(repr, (error, *error.args)), *getattr(error, "__notes__", ())]
        error = error.__cause__ or error.__context__
    return "\n".join(found)


def test_a_store_works_with_its_password_and_does_not_show_it(guarded, caplog):
    caplog.set_level(logging.DEBUG)
    with Proxy(guarded) as proxy, JobQueue(url_of(guarded, via=proxy)) as queue:
        queue.handler("t")(print)
        queue.put("t", delay="1h")
        assert hides(f"{queue!r} {queue.store!r} {queue.store.url} {queue.store.address!r}")
        worker = Worker(queue)
        worker.start()
        worker.stop()
        assert worker.join(60)
        assert hides(caplog.text)
        assert "shop@" in queue.store.url
        with JobQueue(queue.store.secret_url) as other:  # as a child process does
            assert other.topics.counts()["t"].delayed == 1
        proxy.cut()
        for call in (lambda: queue.put("t"), queue.topics.counts, lambda: queue.store.notifier("w")):
            with pytest.raises(StoreError) as caught:
                call()
            assert hides(shown(caught.value))
        assert hides(caplog.text)


def test_a_server_that_is_not_there_is_away_and_the_error_says_where_without_the_password(server):
    with Proxy(server, tcp=True) as proxy:
        url = url_of(server, via=proxy)
    refused(StoreAway, "127.0.0.1", open, url)
    with pytest.raises(StoreAway) as caught:
        open(url)
    assert hides(shown(caught.value))


def test_a_wrong_password_is_a_named_error_that_shows_neither(guarded):
    refused(NotAStore, "password", open, url_of(guarded, SECRET))


def test_a_password_may_stand_in_a_file(guarded, tmp_path):
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    url = guarded.url(user="shop", password_file=str(file))
    open(url).close()
    file.write_text("wr0ng")
    with pytest.raises(StoreError):
        open(url)
