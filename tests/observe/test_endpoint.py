"""A worker's own HTTP server."""

import contextlib
import http.client
import socket
import threading
from pathlib import Path

import pytest

from pywheel import BadOption, JobQueue, Worker
from pywheel.events import Events, JobsPut, WorkerDrains, WorkerStarted
from pywheel.observe import endpoint as module
from pywheel.observe.endpoint import Endpoint
from tests.jobs.waiting import finished, until


@pytest.fixture
def events():
    return Events()


@pytest.fixture
def endpoint(events):
    endpoint = Endpoint(events, 0)
    yield endpoint
    endpoint.close()


def ask(endpoint, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*endpoint.address, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def test_metrics_are_those_of_the_queue(events, endpoint):
    events.emit(JobsPut("t", 3))
    status, content_type, text = ask(endpoint, "/metrics")
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert b'pywheel_jobs_put_total{topic="t"} 3.0' in text
    assert endpoint.url == f"http://127.0.0.1:{endpoint.address[1]}/metrics"
    accepted = ask(endpoint, "/metrics?x=y", Accept="application/openmetrics-text; version=1.0.0")
    assert accepted[1].startswith("application/openmetrics-text")


def test_it_is_ready_once_it_takes_jobs_until_it_drains_and_alive_until_its_dispatcher_stands_still(
    events, endpoint, monkeypatch
):
    def states():
        return [ask(endpoint, path)[0] for path in ("/healthz", "/readyz")]

    assert states() == [200, 503]
    events.emit(WorkerStarted("w", "memory:"))
    endpoint.pulse(ready=True)
    assert states() == [200, 200]
    assert ask(endpoint, "/readyz") == (200, "text/plain", b"ready\n")
    events.emit(WorkerDrains("w", 30.0))
    assert states() == [200, 503]
    monkeypatch.setattr(module, "_STALL", 0.0)
    assert ask(endpoint, "/healthz") == (503, "text/plain", b"the dispatcher stands still\n")


def test_a_real_worker_is_ready():
    with JobQueue("memory:") as queue, contextlib.closing(Endpoint(queue.events, 0)) as endpoint:
        queue.handler("t")(lambda job: None)
        worker = Worker(queue, pulse=endpoint.pulse)
        worker.start()
        try:
            until(lambda: ask(endpoint, "/readyz")[0] == 200)
            finished(queue, queue.put("t"))
            until(lambda: b'pywheel_jobs_done_total{topic="t"} 1.0' in ask(endpoint, "/metrics")[2])
        finally:
            worker.stop()
            worker.join(60)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/metrics/", 404), ("HEAD", "/metrics", 200), ("POST", "/metrics", 501)],
)
def test_what_it_has_not_is_said(endpoint, method, path, status):
    answer = ask(endpoint, path, method)
    assert answer[0] == status
    assert method != "HEAD" or answer[2] == b""


def test_each_process_takes_the_first_port_that_is_free(events, endpoint):
    port = endpoint.address[1]
    with contextlib.closing(Endpoint(Events(), port, ports=50)) as second:
        assert port < second.address[1] < port + 50
    for place, said in (((port,), "in use"), ((0, "192.0.2.1"), ""), ((70_000,), "no such port")):
        others = Events()
        with pytest.raises(BadOption, match=f"no metrics on .*{said}"):
            Endpoint(others, *place)
        assert others.listeners == ()


def test_one_that_is_closed_before_its_thread_serves_ends_in_peace(events, monkeypatch):
    serve, closed = Endpoint._run, threading.Event()

    def late(endpoint, listening):
        closed.wait(60)
        serve(endpoint, listening)

    monkeypatch.setattr(Endpoint, "_run", late)
    endpoint = Endpoint(events, 0)
    closing = threading.Thread(target=endpoint.close)
    closing.start()
    until(lambda: endpoint._loop._ready)
    closed.set()
    closing.join(60)
    assert not closing.is_alive()
    with pytest.raises(ConnectionError):
        socket.create_connection(endpoint.address, 5)


def test_clients_that_say_nothing_hold_up_nobody_for_long(endpoint, monkeypatch):
    monkeypatch.setattr(module, "_SLOW", 0.05)
    silent = [socket.create_connection(endpoint.address) for _ in range(40)]
    try:
        until(lambda: ok(endpoint))
        until(lambda: not endpoint._clients)
    finally:
        for client in silent:
            client.close()


class Dripping:
    """Clients whose heads come byte by byte, without an end."""

    def __init__(self, endpoint, number):
        self.open = [socket.create_connection(endpoint.address) for _ in range(number)]
        self.end = threading.Event()
        self.thread = threading.Thread(target=self._drip)
        for client in self.open:
            client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        self.thread.start()

    def _drip(self):
        while not self.end.wait(0.02):
            for client in tuple(self.open):
                try:
                    client.sendall(b"x")
                except OSError:  # it was cut
                    self.open.remove(client)
                    client.close()

    def close(self):
        self.end.set()
        self.thread.join()
        for client in self.open:
            client.close()


@pytest.mark.parametrize("number", [16, 17, 200])
def test_probes_are_answered_beside_clients_that_are_slow(endpoint, number):
    with contextlib.closing(Dripping(endpoint, number)):
        for path in ("/healthz", "/healthz", "/metrics", "/healthz"):
            assert ask(endpoint, path)[0] == 200


def test_a_head_that_never_ends_is_cut(endpoint, monkeypatch):
    """Whatever comes of it meanwhile."""
    monkeypatch.setattr(module, "_SLOW", 0.2)
    with contextlib.closing(Dripping(endpoint, 3)) as slow:
        until(lambda: not slow.open)


def test_probes_are_answered_beside_clients_that_do_not_read(endpoint):
    """Each has asked for more than fits between."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.connect(endpoint.address)
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        for _ in range(4):
            assert ask(endpoint, "/healthz")[0] == 200


def descriptors():
    return len(list(Path("/dev/fd").iterdir()))


def test_a_crowd_that_comes_at_once_takes_few_descriptors_and_the_probe_behind_it_is_answered(endpoint):
    stands, go, end, seen = threading.Event(), threading.Event(), threading.Event(), []

    def stand():
        stands.set()
        go.wait(60)

    def look():
        seen.append((len(endpoint._clients), descriptors()))
        if not end.is_set():
            endpoint._loop.call_soon(look)

    assert ask(endpoint, "/healthz")[0] == 200  # from now on the system keeps 128 connections
    endpoint._loop.call_soon_threadsafe(stand)
    assert stands.wait(60)
    crowd = [socket.create_connection(endpoint.address) for _ in range(100)]
    try:
        before = descriptors()
        endpoint._loop.call_soon_threadsafe(look)
        go.set()
        assert ask(endpoint, "/healthz")[0] == 200
    finally:
        end.set()
        for client in crowd:
            client.close()
    assert max(clients for clients, _ in seen) == 16
    assert max(open for _, open in seen) < before + 32


def ok(endpoint):
    """Whether it answers: while there are too many it hangs up."""
    try:
        return ask(endpoint, "/metrics")[0] == 200
    except (OSError, http.client.HTTPException):
        return False
