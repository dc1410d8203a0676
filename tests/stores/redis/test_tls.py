"""rediss: the certificate of the server is checked, and its name."""

import pytest

from pywheel import NotAStore
from pywheel.jobs.commands import Put
from pywheel.jobs.job import NewJob
from pywheel.stores import open
from tests.stores.servers import Redis


@pytest.fixture(scope="module")
def secure(redis_server):
    with Redis(tls=True) as server:
        yield server


def test_a_server_with_a_known_certificate_is_used(secure):
    with open(secure.url(tls=True, ssl_ca_certs=secure.ca)) as store:
        assert store.apply([Put((NewJob("t", b"x" * 100_000, 0),))]) == [[1]]
        notifier = store.notifier("w")
        notifier.ring(notifier.worker)
        assert notifier.wait(5)
        notifier.close()


@pytest.mark.parametrize("place", ["localhost:{port}/0", "127.0.0.1:{port}/0?ssl_ca_certs={ca}"])
def test_an_unknown_certificate_and_a_wrong_name_are_refused(secure, place):
    with pytest.raises(NotAStore, match="ssl_ca_certs"):
        open("rediss://" + place.format(port=secure.port, ca=secure.ca))
