"""rediss: the certificate of the server is checked, and its name."""

import shutil
import socket
import subprocess

import pytest

from pywheel import NotAStore
from pywheel.jobs.commands import Put
from pywheel.jobs.job import NewJob
from pywheel.stores import open
from tests.stores.servers import Redis

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing: apt-get install openssl")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "cert"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def port(redis_server, certificate):
    port = free_port()
    with Redis() as redis:
        for name in ("key", "cert"):
            shutil.copy(certificate / name, redis.folder / name)
            (redis.folder / name).chmod(0o644)
        redis.stop()
        redis.settings |= {
            "tls-port": port,
            "bind": "127.0.0.1",
            "tls-cert-file": redis.folder / "cert",
            "tls-key-file": redis.folder / "key",
            "tls-auth-clients": "no",
        }
        redis.start()
        yield port


def test_a_server_with_a_known_certificate_is_used(port, certificate):
    with open(f"rediss://localhost:{port}/0?ssl_ca_certs={certificate}/cert") as store:
        assert store.apply([Put((NewJob("t", b"x" * 100_000, 0),))]) == [[1]]
        notifier = store.notifier("w")
        notifier.ring(notifier.worker)
        assert notifier.wait(5)
        notifier.close()


@pytest.mark.parametrize("place", ["localhost:{port}/0", "127.0.0.1:{port}/0?ssl_ca_certs={folder}/cert"])
def test_an_unknown_certificate_and_a_wrong_name_are_refused(port, certificate, place):
    with pytest.raises(NotAStore, match="ssl_ca_certs"):
        open("rediss://" + place.format(port=port, folder=certificate))
