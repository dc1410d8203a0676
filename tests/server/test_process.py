"""A real server: requests in pieces, too long, or unfinished; clients that go away; and its end."""

import asyncio
import contextlib
import json
import signal
import socket
import threading
import time
import types
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywheel import JobQueue, StoreAway, StoreReplaced
from pywheel.jobs.queries import ListWorkers
from pywheel.server import process
from tests.jobs.waiting import LIMIT, until
from tests.server.client import Process, listens, problem, read_all

pytestmark = pytest.mark.stress

HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"topic": "raw"}'


def counts(server, topic):
    return server("GET", "/v1/counts").json()["topics"].get(topic)


def waited_for(server):
    """Return the topics that somebody waits for."""
    with JobQueue(server.store) as queue:
        return {topic for member in queue.store.ask(ListWorkers()) for topic in member.topics}


def reserved(server, topic, wait=30, **words):
    """Return the jobs that a reserve gives, or None."""
    answer = server("POST", "/v1/reserve", json={"topics": [topic], "wait": wait, **words})
    return answer.json()["jobs"] if answer.status_code == 200 else None


def answer_of(content):
    """Return the status and the document of a raw answer."""
    head, _, body = content.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body) if body else None


def answers_to(server, *parts):
    """Return all that the server answers to bytes; nothing if it closes while more comes: TCP may drop its answer."""
    with server.raw() as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
        try:
            return read_all(connection)
        except OSError:
            return b""


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", "too-large"),
        (b"GET /v1/topics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "bad-host"),
        (b"GET /v1/topics HTTP/1.0\r\n\r\n", "bad-host"),
    ],
    ids=["length", "host", "no host"],
)
def test_what_is_not_taken_gets_a_problem_and_the_connection_is_closed(server, content, kind):
    before = counts(server, "raw")
    with server.raw() as connection:
        connection.sendall(content)
        status, document = answer_of(read_all(connection))
    assert (document["type"], document["status"]) == (f"urn:pywheel:problem:{kind}", status)
    assert counts(server, "raw") == before


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 80_000,
        b"GET /" + b"x" * 140_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 30_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
    ],
    ids=["header", "path", "trailers", "TLS", "two lengths", "colon", "negative"],
)
def test_what_is_no_proper_request_is_refused_and_the_connection_closed(server, content):
    before = counts(server, "raw")
    answer = b"HTTP/1.1 400 "
    with server.raw() as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(content)
        answer = read_all(connection)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert counts(server, "raw") == before


def test_a_body_over_the_limit_is_refused_before_it_is_read(server):
    more = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
    content = answers_to(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[more] * 40)
    assert content == b"" or answer_of(content)[0] == 413


def test_what_follows_a_body_in_chunks_is_no_header(server):
    server("POST", "/v1/jobs", json={"topic": "raw", "delay": "1h"})
    before = counts(server, "raw")["delayed"]
    trailers = b"Host: evil\r\nIdempotency-Key: a\r\nX-Request-Id: evil\r\n"
    with server.raw() as connection:
        for end in (b"", b"Connection: close\r\n"):
            head = HEAD + end + b"Transfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head + b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY) + trailers + b"\r\n")
        answers = read_all(connection)
    assert answers.count(b"HTTP/1.1 201 ") == 2
    assert b"evil" not in answers
    assert counts(server, "raw")["delayed"] == before + 2


REQUESTS = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
REQUESTS += b"GET /v1/jobs?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
REQUESTS += HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


@given(st.data())
@settings(max_examples=50)
def test_whatever_is_sent_in_whatever_pieces_the_connection_answers_or_closes(server, data):
    """Some bytes of good requests are replaced, and they come in pieces."""
    sent = bytearray(REQUESTS)
    for _ in range(data.draw(st.integers(0, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    answers = answers_to(server, *(bytes(sent[begin:end]) for begin, end in pairwise([0, *cuts, len(sent)])))
    assert answers == b"" or answers.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answers


def test_a_client_that_goes_away_in_a_long_poll_holds_nothing(server):
    wish = json.dumps({"topics": ["gone"], "wait": 30}).encode()
    head = HEAD.replace(b"/v1/jobs", b"/v1/reserve")
    with contextlib.ExitStack() as connections:
        for _ in range(20):
            connection = connections.enter_context(server.raw())
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(wish) + wish)
        until(lambda: "gone" in waited_for(server))
    server("POST", "/v1/jobs", json={"topic": "gone"})
    until(lambda: counts(server, "gone")["delayed"] == 1)
    assert [job["attempt"] for job in reserved(server, "gone")] == [1]


def test_who_waits_gets_what_becomes_due_or_is_put_by_another_process_or_lost_by_another_client(server):
    with JobQueue(server.store) as other:
        other.put("elsewhere", delay=0.5)
        [first] = reserved(server, "elsewhere")
        threading.Timer(0.3, other.put, ("elsewhere",)).start()
        [second] = reserved(server, "elsewhere", ttr=0.5)
        [again] = reserved(server, "elsewhere")
    assert first["id"] != second["id"] == again["id"]
    assert again["attempt"] == 2


def test_nobody_who_waits_for_a_paused_topic_gets_its_jobs_before_it_is_resumed(server):
    server("POST", "/v1/topics/paused/pause")
    server("POST", "/v1/jobs", json={"topic": "paused"})
    assert reserved(server, "paused", wait=0.5) is None
    threading.Timer(0.3, server, ("POST", "/v1/topics/paused/resume")).start()
    assert len(reserved(server, "paused")) == 1


def test_a_thousand_idle_connections_hinder_nobody(server):
    with contextlib.ExitStack() as idle:
        for _ in range(1_000):
            idle.enter_context(server.raw())
        assert server("POST", "/v1/jobs", json={"topic": "beside"}).status_code == 201


WISH = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"


@pytest.mark.parametrize(("name", "apart"), [(b"Upgrade", True), (b"upgrade", False), (b"UPGRADE", False)])
def test_a_wish_for_another_protocol_is_passed_over(server, name, apart):
    """As Java's client has it with each request: it is answered in HTTP/1.1."""
    body = b'{"topic": "mail",\r\n"body": "\\r\\nUpgrade: h2c"}'
    head = HEAD + WISH + name + b": h2c\r\nContent-Length: %d\r\n\r\n" % len(body)
    with server.raw() as connection:
        for _ in range(2):  # and the connection goes on
            for part in (head, body) if apart else (head + body,):
                connection.sendall(part)
                time.sleep(0.05)
            answer = connection.recv(4096)
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 201 "), answer
    id = answer.rpartition(b'{"id":"')[2].partition(b'"')[0].decode()
    assert server("GET", f"/v1/jobs/{id}").json()["body"] == "\r\nUpgrade: h2c"


# ---- its end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_waits_and_streams_at_once(tmp_path, number):
    server, ends, listening = Process(tmp_path, "--open"), [], threading.Event()

    def wait():
        ends.append(reserved(server, "mail"))

    def listen():
        with server.client.stream("GET", "/v1/events") as stream:
            listening.set()
            ends.append(b"".join(stream.iter_raw())[:5])

    threads = [threading.Thread(target=act) for act in (wait, listen)]
    for thread in threads:
        thread.start()
    until(lambda: "mail" in waited_for(server))
    assert listening.wait(60)
    assert server.stop(number) == 0
    for thread in threads:
        thread.join()
    assert sorted(map(str, ends)) == ["None", "b'retry'"]
    assert "stopped" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()


def test_what_is_under_way_is_answered_before_the_end(tmp_path):
    with Process(tmp_path, "--open") as server, server.raw() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not listens(server.port))
        connection.sendall(BODY)
        assert answer_of(read_all(connection))[0] == 201
        assert server.process.wait(LIMIT) == 0  # a second signal may find no handler any more


def test_who_never_ends_a_request_does_not_keep_the_server(tmp_path):
    server = Process(tmp_path, "--open")
    with server.raw() as one, server.raw() as other:
        one.sendall(HEAD + b"Content-Length: 9\r\n\r\n{")
        other.sendall(b"GET")
        assert server("GET", "/healthz").status_code == 200
        assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


# ---- how it is started ----------------------------------------------------------------------------------------------


def test_a_read_only_server_changes_nothing(tmp_path):
    with Process(tmp_path, "--open", "--read-only") as server:
        for path, words in (("/v1/jobs", {"topic": "a"}), ("/v1/reserve", {"topics": ["a"]}), ("/v1/jobs/delete", {})):
            assert problem(server("POST", path, json=words)) == "read-only"
        assert server("GET", "/v1/counts").json() == {"topics": {}}


def test_the_handlers_of_a_module_work_in_the_same_process(tmp_path):
    source = "from pywheel import JobQueue\nqueue = JobQueue('memory:')\n@queue.handler('mail')\ndef mail(job): pass\n"
    (tmp_path / "shop.py").write_text(source)
    with Process(tmp_path, "--open", "--work", target=["shop:queue"]) as server:
        id = server("POST", "/v1/jobs", json={"topic": "mail"}).json()["id"]
        until(lambda: server("GET", f"/v1/jobs/{id}").json()["state"] == "done")


def test_a_thread_that_cannot_be_started_does_not_end_the_server(monkeypatch):
    """Only a store whose file was replaced does."""
    errors = [RuntimeError("can't start new thread"), StoreAway("locked"), MemoryError(), StoreReplaced("deleted")]

    async def asked(*_):
        raise errors.pop(0)

    monkeypatch.setattr(process, "_LOOK", 0)
    monkeypatch.setattr(asyncio, "to_thread", asked)
    with pytest.raises(StoreReplaced):
        asyncio.run(process._replaced(types.SimpleNamespace(url="sqlite:///jobs.db", ask=None)))
    assert errors == []
