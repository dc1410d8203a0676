"""Stores reach their servers by TLS, and only the right ones."""

from contextlib import contextmanager

import pytest

from pywheel import StoreAway, StoreError
from pywheel.jobs.queries import GetJob
from pywheel.stores import open
from tests.stores import servers
from tests.stores.files import put

pytestmark = pytest.mark.servers

# The options that have the certificate checked, and the one that names the authority.
OPTIONS = {
    "postgres": ({"sslmode": "verify-full"}, "sslrootcert"),
    "mariadb": ({}, "ssl_ca"),
    "redis": ({}, "ssl_ca_certs"),
}


@pytest.fixture(params=servers.STORES, scope="module")
def secure(request):
    """A server that speaks TLS, and addresses that trust an authority."""
    options, authority = OPTIONS[request.param]
    with contextmanager(servers.started)(servers.KINDS[request.param], tls=True) as server:
        yield server, lambda ca: server.url(tls=True, **options, **{authority: str(ca)})


def test_a_store_reaches_its_server_by_tls(secure):
    server, url = secure
    with open(url(server.ca)) as store:
        assert store.ask(GetJob(put(store))).body == b"b"
        assert str(server.ca) in store.url


def test_a_server_that_a_stranger_vouches_for_is_refused_in_one_line(secure):
    server, url = secure
    with pytest.raises(StoreError, match=r"(?i)certificate") as refused:
        open(url(server.other_ca))
    assert "\n" not in str(refused.value)


def test_an_authority_that_is_not_there_is_refused(secure):
    server, url = secure
    with pytest.raises(StoreError) as refused:
        open(url(server.folder / "nothing.pem"))
    assert type(refused.value) is not StoreAway  # waiting would not help
    assert "nothing.pem" in str(refused.value)
