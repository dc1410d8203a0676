"""The servers and the network of the tests themselves."""

import contextlib
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.jobs.waiting import alive, until
from tests.stores import servers
from tests.stores.network import Proxy

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are started on Linux only"),
]


class Absent(servers.Redis):
    program, package = "no-such-server", "no-such-package"


@pytest.mark.parametrize(("must", "kind"), [("", pytest.skip), ("1", pytest.fail)])
def test_where_it_is_not_installed_a_test_is_skipped_or_fails_with_what_to_install(monkeypatch, must, kind):
    monkeypatch.setenv("PYWHEEL_REQUIRE_SERVERS", must)
    with pytest.raises(kind.Exception, match="no-such-server is missing: apt-get install no-such-package"):
        next(servers.started(Absent))


CHILD = """
import time
from tests.stores import servers
server = servers.{kind}().start()
print(server.pid, server.folder, flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("kind", ["Postgres", "MariaDB", "Redis"])
def test_it_ends_with_a_test_process_that_is_killed(kind, request):
    request.getfixturevalue(f"{kind.lower()}_server")  # skips where it is not installed
    command = [sys.executable, "-c", textwrap.dedent(CHILD.format(kind=kind))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as child:
        pid, folder = child.stdout.readline().split()
        child.send_signal(signal.SIGKILL)
    until(lambda: not Path(folder).exists() and not alive(pid))


# ---- the network ----------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(redis_server):
    with Proxy(redis_server, tcp=True) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    """Connect to Redis by way of the proxy: its protocol is text."""
    host, port = proxy.address.split(":")
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection((host, int(port)), timeout=10))


def ping(connection):
    connection.sendall(b"PING\r\n")
    return connection.recv(100)


def broken(connection):
    try:
        return ping(connection) == b""
    except OSError:
        return True


def test_a_proxy_carries_both_ways_and_cut_once_breaks_connections_and_welcomes_new_ones(proxy, connect):
    connection = connect()
    assert ping(connection) == b"+PONG\r\n"
    assert proxy.passed == {"requests": 6, "answers": 7}
    proxy.cut_once()
    assert broken(connection)
    assert ping(connect()) == b"+PONG\r\n"


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_a_cut_comes_after_so_many_bytes(proxy, connect, count):
    connection = connect()
    proxy.cut_after(answers=count)
    connection.sendall(b"PING\r\nPING\r\n")
    received = b""
    while data := connection.recv(100):
        received += data
    assert received == b"+PONG\r\n+PONG\r\n"[:count]
    assert ping(connect()) == b"+PONG\r\n"
