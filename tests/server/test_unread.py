"""Clients that send requests and read no answers: the server's memory for them is bounded, and others are served."""

import contextlib
import re
import socket
import threading
import time
from http.client import parse_headers
from pathlib import Path

import pytest

from tests.server.client import Process

pytestmark = pytest.mark.stress

MOST_TAKEN = 16 << 20  # bytes of requests that a server and two kernels may hold for one client
MOST_GROWN = 160 << 20  # bytes of memory that a server may take for twenty clients
PAD = 4_000  # bytes that make a request long, so that few of them fill the buffers
SOME = 200  # bytes, where answers are short
CLIENTS = 20


class Mute:
    """A client that reads nothing until it is told to. Its segments are small, so that kernels keep little for it."""

    def __init__(self, server, make):
        self.make = make
        self.sent = 0  # bytes
        self.requests = []  # ids of those that were sent, the last one perhaps in part
        self._rest = b""
        self.connection = socket.socket()
        for level, option, value in (
            (socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096),
            (socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096),
            (socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536),
        ):
            self.connection.setsockopt(level, option, value)
        self.connection.connect(("127.0.0.1", server.port))
        self.connection.setblocking(False)

    def push(self):
        """Send what can be sent at once; return how many bytes that was."""
        before = self.sent
        with contextlib.suppress(BlockingIOError):
            while self.sent - before < 1 << 20:
                if not self._rest:
                    self.requests.append(len(self.requests))
                    self._rest = self.make(self.requests[-1])
                count = self.connection.send(self._rest)
                self.sent += count
                self._rest = self._rest[count:]
        return self.sent - before

    def answers(self):
        """Send what is left of the last request, and read all answers: yield status, id of the request, and body."""
        self.connection.settimeout(60)
        rest = threading.Thread(target=self.connection.sendall, args=(self._rest,))
        rest.start()
        with self.connection.makefile("rb") as answers:
            for _ in self.requests:
                line = answers.readline()
                assert line, "the server closed the connection"
                headers = parse_headers(answers)
                body = answers.read(int(headers["content-length"]))
                yield int(line.split()[1]), int(headers["x-request-id"].removeprefix("n")), body
        rest.join()


def get(path, pad=PAD):
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: n%d\r\nX-Pad: {'x' * pad}\r\n\r\n".encode()
    return lambda number: head % number


def put(number):
    body = b'{"topic": "unread", "body": "%s"}' % (b"x" * PAD)
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + b"X-Request-Id: n%d\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body


def events(number):
    return get("/v1/events" if number == 0 else "/healthz")(number)


def resident(server):
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) << 10


def sleeps(server):
    return Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def press(server, clients):
    """Send until nobody can send any more, and the server has nothing to do."""
    quiet = 0
    while quiet < 50:
        taken = sum(client.push() for client in clients)
        quiet = 0 if taken or not sleeps(server) else quiet + 1
        for client in clients:
            assert client.sent < MOST_TAKEN, f"it goes on reading; it has taken {resident(server) >> 20} MB"
        time.sleep(0.01)


@pytest.fixture
def fresh(tmp_path):
    with Process(tmp_path, "--open") as server:
        yield server


@contextlib.contextmanager
def mutes(server, make, count):
    clients = [Mute(server, make) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.connection.close()


@pytest.mark.parametrize("kind", ["document", "file", "page", "nothing", "put"])
def test_who_reads_no_answers_is_read_no_further_and_gets_them_all_later(server, kind):
    script = re.search(r"/static/[0-9a-f]+/scripts\.js", server("GET", "/").text)[0]
    make, status = {
        "document": (get("/v1/openapi.json"), 200),
        "file": (get(script), 200),
        "page": (get("/"), 200),
        "nothing": (get("/v1/nothing", SOME), 404),
        "put": (put, 201),
    }[kind]
    before = resident(server)
    with mutes(server, make, 2) as clients:
        press(server, clients)
        assert resident(server) - before < MOST_GROWN
        assert server("GET", "/healthz").text == "ok\n"
        found = list(clients[0].answers())
    assert [id for _, id, _ in found] == clients[0].requests
    assert {answered for answered, _, _ in found} == {status}


SHORT = b"GET / HTTP/1.1\r\n\r\n" * 100  # each of them costs more memory than it has bytes


@pytest.mark.parametrize(
    ("make", "number"),
    [(get("/v1/openapi.json"), CLIENTS), (lambda _: SHORT, CLIENTS), (events, 1)],
    ids=["long requests", "short requests", "requests behind a stream"],
)
def test_many_who_read_no_answers_take_little_memory(fresh, make, number):
    before = resident(fresh)
    with mutes(fresh, make, number) as clients:
        press(fresh, clients)
        assert resident(fresh) - before < MOST_GROWN
        assert fresh("GET", "/healthz").text == "ok\n"
