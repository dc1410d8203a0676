"""The servers and the network of the tests themselves."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.jobs.waiting import alive, until
from tests.stores import servers
from tests.stores.network import Proxy

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="servers are started on Linux only"),
]


@pytest.fixture(params=servers.KINDS)
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


def remember(server, value):
    """Write a value into a running server, durably as far as it was told."""
    with contextlib.closing(server.connect()) as connection:
        if server.program == "redis-server":
            connection.set("remembered", value)
            return
        with contextlib.closing(connection.cursor()) as cursor:
            table = "public.remembered" if server.program == "postgres" else "mysql.remembered"
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} (value bigint)")
            cursor.execute(f"DELETE FROM {table}")
            cursor.execute(f"INSERT INTO {table} VALUES ({value})")


def remembered(server):
    with contextlib.closing(server.connect()) as connection:
        if server.program == "redis-server":
            return int(connection.get("remembered"))
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT value FROM {'public' if server.program == 'postgres' else 'mysql'}.remembered")
            return cursor.fetchone()[0]


def test_it_answers_and_says_where(server):
    assert server.running
    assert len(str(server.socket)) < 90
    remember(server, 1)
    assert remembered(server) == 1


def test_every_url_is_another_store(server):
    assert server.url() != server.url()
    assert server.url(pool="3").endswith("pool=3")


def test_it_runs_without_privileges(server):
    if os.geteuid() == 0:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_committed_is_there_after_it_ended(server, end):
    remember(server, 2 if end == "stop" else 3)
    getattr(server, end)()
    assert not server.running
    with pytest.raises(OSError, match=r"refused|No such file"):
        server.knock()
    server.start()
    assert remembered(server) == (2 if end == "stop" else 3)


def test_paused_it_answers_nobody_until_it_is_resumed(server):
    answered = threading.Event()

    def ask():
        remembered(server)
        answered.set()

    remember(server, 4)
    server.pause()
    asking = threading.Thread(target=ask)
    try:
        asking.start()
        assert not answered.wait(0.2)
    finally:
        server.resume()
    asking.join()
    assert answered.is_set()


def test_nothing_is_left_when_it_is_closed():
    with servers.Redis() as server:
        assert server.folder.exists()
    assert not server.folder.exists()
    server.close()


# ---- TLS and passwords -----------------------------------------------------------------------------------------------


def over_tls(server, ca):
    """Connect by TLS, as one who trusts only what `ca` vouches for."""
    if server.program == "postgres":
        return server.connect(host="localhost", sslmode="verify-full", sslrootcert=str(ca))
    if server.program == "mariadbd":
        trust = {
            "ssl_ca": str(ca),
            "ssl_verify_cert": True,
            "ssl_verify_identity": True,
        }  # the first alone checks nothing
        return server.connect(host="localhost", unix_socket=None, port=server.port, **trust)
    return server.connect(unix_socket_path=None, host="localhost", port=server.port, ssl=True, ssl_ca_certs=str(ca))


@pytest.mark.parametrize("kind", ["Postgres", "MariaDB", "Redis"])
def test_with_tls_it_is_trusted_by_who_trusts_its_authority_alone(kind, request):
    request.getfixturevalue(f"{kind.lower()}_server")  # skips where it is not installed
    with getattr(servers, kind)(tls=True) as server:
        over_tls(server, server.ca).close()
        with pytest.raises(Exception, match=r"(?i)certificate"):
            over_tls(server, server.other_ca)
        assert f"localhost:{server.port}/" in server.url(tls=True)


def test_another_role_of_postgresql_must_give_its_password(postgres_server):
    with contextlib.closing(postgres_server.connect()) as connection:
        connection.execute("CREATE ROLE guest LOGIN PASSWORD 's3cret'")
        postgres_server.connect(user="guest", password="s3cret").close()
        for password in ("wrong", None):
            with pytest.raises(Exception, match="password"):
                postgres_server.connect(user="guest", password=password)
        connection.execute("DROP ROLE guest")


class Absent(servers.Redis):
    program, package = "no-such-server", "no-such-package"


def test_where_it_is_not_installed_a_test_is_skipped_with_what_to_install(monkeypatch):
    monkeypatch.delenv("PYWHEEL_REQUIRE_SERVERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-server is missing: apt-get install no-such-package"):
        next(servers.started(Absent))


def test_where_it_must_be_installed_that_is_a_failure(monkeypatch):
    monkeypatch.setenv("PYWHEEL_REQUIRE_SERVERS", "1")
    with pytest.raises(pytest.fail.Exception, match="apt-get install no-such-package"):
        next(servers.started(Absent))


def test_another_program_may_be_named_for_mariadb(mariadb_server, monkeypatch, tmp_path):
    program = tmp_path / "mysqld"
    program.write_text("#!/bin/sh\necho mysqld  Ver 9.7.4 for Linux\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYWHEEL_MYSQLD", str(program))
    monkeypatch.setattr(servers.MariaDB, "_from_template", lambda *_: None)
    with contextlib.closing(servers.MariaDB()) as server:
        assert server.command()[0] == str(program)
        assert server.is_mysql
    assert mariadb_server.is_mysql is ("MariaDB" not in mariadb_server.version())


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


@pytest.fixture(params=[False, True], ids=["unix", "tcp"])
def proxy(request, redis_server):
    with Proxy(redis_server, tcp=request.param) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy):
    """Connect to Redis by way of the proxy: its protocol is text."""
    with contextlib.ExitStack() as stack:

        def connect():
            if isinstance(proxy.address, Path):
                made = stack.enter_context(socket.socket(socket.AF_UNIX))
                made.connect(str(proxy.address))
            else:
                host, port = proxy.address.split(":")
                made = stack.enter_context(socket.create_connection((host, int(port))))
            made.settimeout(10)
            return made

        yield connect


def ping(connection):
    connection.sendall(b"PING\r\n")
    return connection.recv(100)


def broken(connection):
    try:
        return ping(connection) == b""
    except OSError:
        return True


def test_a_proxy_carries_both_ways(proxy, connect):
    connection = connect()
    assert ping(connection) == b"+PONG\r\n"
    assert proxy.passed == {"requests": 6, "answers": 7}


def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_is_healed(proxy, connect):
    connection = connect()
    ping(connection)
    proxy.cut()
    assert broken(connection)
    with pytest.raises(OSError, match="refused"):
        connect()
    proxy.heal()
    assert ping(connect()) == b"+PONG\r\n"


def test_cut_once_breaks_connections_and_welcomes_new_ones(proxy, connect):
    connection = connect()
    ping(connection)
    proxy.cut_once()
    assert broken(connection)
    assert ping(connect()) == b"+PONG\r\n"


def test_a_stall_keeps_what_was_sent_until_it_is_healed(proxy, connect):
    connection = connect()
    ping(connection)
    proxy.stall()
    connection.settimeout(0.1)
    with pytest.raises(TimeoutError):
        ping(connection)
    proxy.heal()
    connection.settimeout(10)
    assert connection.recv(100) == b"+PONG\r\n"


def test_answers_can_be_lost_of_requests_that_were_done(proxy, connect, redis_server):
    connection = connect()
    ping(connection)
    proxy.stall(requests=False)
    connection.sendall(b"SET done yes\r\n")
    with contextlib.closing(redis_server.connect()) as direct:
        until(lambda: direct.get("done") == b"yes")
        direct.delete("done")
    proxy.cut_once()
    assert connection.recv(100) == b""


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


@pytest.mark.parametrize("kind", servers.KINDS)
@pytest.mark.parametrize("tcp", [False, True])
def test_an_address_leads_through_the_proxy(request, kind, tcp):
    server = request.getfixturevalue(f"{kind}_server")
    with Proxy(server, tcp=tcp) as proxy:
        place = proxy.address if tcp else str(proxy.address.parent)
        url = server.url(via=proxy)
        assert all(part in url for part in place.split(":"))


# ---- pgbouncer ------------------------------------------------------------------------------------------------------


def test_pgbouncer_gives_each_transaction_any_connection(pgbouncer_server):
    with contextlib.closing(pgbouncer_server.connect()) as one, contextlib.closing(pgbouncer_server.connect()) as other:
        assert "port=6432" in pgbouncer_server.url()
        pid = "SELECT pg_backend_pid()"
        assert one.execute(pid).fetchone() == other.execute(pid).fetchone()
