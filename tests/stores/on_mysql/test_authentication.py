"""MySQL's own way with passwords, caching_sha2_password: by socket, by TLS, and over a plain network."""

from contextlib import contextmanager

import pymysql
import pytest

from pywheel import NotAStore
from pywheel.jobs.queries import GetJob
from pywheel.stores import open
from tests.stores import servers
from tests.stores.files import put
from tests.stores.refusing import SECRET, refused


def with_user(server):
    """Return the server, if it is MySQL, with a user who has a password that it has not seen yet."""
    if not server.is_mysql:
        pytest.skip("this is MariaDB, which sends no password: PYWHEEL_MYSQLD names a MySQL")
    server.run(
        "DROP USER IF EXISTS shop",
        f"CREATE USER shop IDENTIFIED WITH caching_sha2_password BY '{SECRET}'",
        "GRANT ALL ON *.* TO shop",
    )
    return server


def url_of(server, **options):
    return server.url(user="shop", **options).replace("shop@", f"shop:{SECRET}@")


@pytest.fixture(autouse=True)
def _no_cryptography(monkeypatch):
    monkeypatch.setattr(pymysql._auth, "_have_cryptography", False)


@pytest.fixture(params=[{}, {"tls-version": ""}], ids=["tls", "plain"], scope="module")
def network(request):
    """A server that listens on a port, with TLS or without."""
    with contextmanager(servers.started)(servers.MariaDB, tls=True, settings=request.param) as server:
        yield server, not request.param


def test_by_the_socket_a_password_needs_no_other_package(mariadb_server):
    with open(url_of(with_user(mariadb_server))) as store:
        assert store.ask(GetJob(put(store))).body == b"b"


def test_by_tls_neither_and_else_it_is_said_which(network):
    server, tls = network
    url = url_of(with_user(server), tls=True)
    if tls:
        with open(url) as store:
            assert store.ask(GetJob(put(store))).body == b"b"
        return
    refused(NotAStore, "pip install cryptography, or connect by TLS", open, url)
