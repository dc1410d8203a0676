"""One connection, its time moved by hand: what is too slow is cut, what is well-formed answered, all else refused."""

import asyncio

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from pywheel import JobQueue
from pywheel.server import app, protocol
from pywheel.server.protocol import HEAD, REQUEST, STALLED, Protocol

BODY = b'{"topic": "mail"}'
PUT = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    % len(BODY)
)


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data):
        if not self.closed:
            self.written += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close

    def pause_reading(self):
        pass

    resume_reading = pause_reading


class Line:
    """A connection to a service in memory."""

    def __init__(self, queue):
        service = app(queue, access="open")
        config = uvicorn.Config(service.edge, http=Protocol, ws="none", lifespan="off", log_config=None)
        config.load()
        self.state = ServerState()
        self.wire = Wire()
        self.protocol = Protocol(config=config, server_state=self.state, app_state={}, _loop=asyncio.get_running_loop())
        self.protocol.connection_made(self.wire)

    async def say(self, data):
        if not self.wire.closed:
            self.protocol.data_received(data)
        while self.state.tasks:
            await asyncio.sleep(0)

    def later(self, seconds):
        self.protocol.sweep(asyncio.get_running_loop().time() + seconds)


def scene(talk):
    """Run a talk on one connection; return what was answered and whether it is closed."""

    async def run():
        with JobQueue("memory:") as queue:
            line = Line(queue)
            await talk(line)
            return line.wire.written, line.wire.closed, queue.list()

    return asyncio.run(run())


def test_a_connection_that_never_says_anything_is_closed_without_a_word():
    async def talk(line):
        line.later(HEAD - 1)
        assert not line.wire.closed
        line.later(HEAD + 1)

    assert scene(talk)[:2] == (b"", True)


@pytest.mark.parametrize(("said", "limit"), [(b"P", HEAD), (PUT[:30], HEAD), (PUT, REQUEST), (PUT + BODY[:3], REQUEST)])
def test_a_request_that_does_not_arrive_in_time_is_refused(said, limit):
    async def talk(line):
        for byte in said[:-1]:
            line.protocol.data_received(bytes([byte]))
        line.protocol.data_received(said[-1:])
        line.later(limit - 1)
        assert not line.wire.closed
        line.later(limit + 1)

    written, closed, jobs = scene(talk)
    assert written.startswith(b"HTTP/1.1 408 ")
    assert b"problem:too-slow" in written
    assert closed
    assert jobs == []


def test_a_connection_between_two_requests_is_not_too_slow():
    async def talk(line):
        await line.say(PUT + BODY)
        line.later(REQUEST + 1)
        await line.say(PUT + BODY)

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (2, False, 2)


def test_who_does_not_read_is_cut():
    async def talk(line):
        await line.say(PUT + BODY)
        line.protocol.pause_writing()
        line.later(STALLED - 1)
        assert not line.wire.closed
        line.protocol.resume_writing()
        line.later(STALLED + 1)
        assert not line.wire.closed
        line.protocol.pause_writing()
        line.later(STALLED + 1)

    assert scene(talk)[1]


def test_a_head_that_comes_again_is_answered_as_the_first_time():
    protocol._heads.clear()

    async def talk(line):
        for _ in range(3):
            await line.say(PUT + BODY)
        await line.say(PUT + BODY[:-1] + b"]")  # the same head, another body
        line.protocol.data_received(PUT + BODY[:5])  # the same head, and a body in two parts
        await line.say(BODY[5:])
        await line.say((PUT + BODY) * 2)  # two at once

    written, closed, jobs = scene(talk)
    assert len(protocol._heads) == 1
    assert (written.count(b"201 Created"), written.count(b"400 Bad Request"), closed, len(jobs)) == (6, 1, False, 6)


@pytest.mark.parametrize(
    "extra",
    [
        b"Idempotency-Key: a\r\n",
        b"X-Request-Id: a\r\n",
        b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
        b"Connection: close\r\n",
        b"Expect: 100-continue\r\n",
    ],
)
def test_a_head_of_one_request_alone_is_not_remembered(extra):
    protocol._heads.clear()

    async def talk(line):
        await line.say(PUT.replace(b"\r\n\r\n", b"\r\n" + extra + b"\r\n") + BODY)

    written, _, jobs = scene(talk)
    assert (written.count(b"201 Created"), len(jobs)) == (1, 1)
    assert protocol._heads == {}


def test_heads_that_are_remembered_are_of_bounded_number(monkeypatch):
    protocol._heads.clear()
    monkeypatch.setattr(protocol, "_MOST_KNOWN", 10)

    async def talk(line):
        for number in range(25):
            await line.say(PUT.replace(b"\r\n\r\n", b"\r\nX: %d\r\n\r\n" % number) + BODY)

    scene(talk)
    assert len(protocol._heads) <= 10


# ---- what proxies and saboteurs do ----------------------------------------------------------------------------------

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = PUT.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"


def refused(length):
    """The head of a request that is answered before its body has come."""
    return PUT.replace(b"localhost", b"stranger").replace(b"%d" % len(BODY), b"%d" % length)


def test_the_body_of_a_request_that_was_pipelined_is_no_request():
    async def talk(line):
        for _ in range(2):
            await line.say(PUT + BODY)  # a head that is remembered
        await line.say(HEALTH + refused(len(PUT + BODY)))
        await line.say(PUT + BODY)  # that request's body
        await line.say(HEALTH)

    written, closed, jobs = scene(talk)
    assert (len(jobs), closed, written.count(b"HTTP/1.1 ")) == (2, False, 5)


def test_no_part_of_a_body_is_remembered_as_a_head():
    protocol._heads.clear()

    async def talk(line):
        await line.say(HEALTH + refused(10))
        await line.say(b"GET\r\n\r\nabc" + PUT + BODY)
        await line.say(b"\n\r\n\r\n" + PUT + BODY)

    scene(talk)
    assert protocol._heads.keys() <= {PUT.removesuffix(b"\r\n\r\n")}


def test_a_pipelined_request_that_does_not_arrive_in_time_is_refused():
    async def talk(line):
        await line.say(HEALTH)
        await line.say(HEALTH + PUT[:20])
        line.later(HEAD + 1)

    written, closed, _ = scene(talk)
    assert (written.count(b"200 OK"), written.count(b"408 "), closed) == (2, 1, True)


def test_what_follows_a_body_is_no_header():
    async def talk(line):
        body = b"%x\r\n%b\r\n0\r\nHost: stranger\r\nIdempotency-Key: a\r\n\r\n" % (len(BODY), BODY)
        for _ in range(2):
            await line.say(CHUNKED + body)

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (2, False, 2)


@pytest.mark.parametrize("said", [b"0\r\n" + b"a: b\r\n" * 5_000, b"0\r\na: " + b"b" * 30_000, b"1;" + b"a" * 30_000])
def test_what_follows_a_body_or_is_between_its_parts_is_of_bounded_size(said):
    async def talk(line):
        await line.say(CHUNKED.replace(b"localhost", b"stranger"))
        await line.say(said)
        assert not line.wire.closed
        for _ in range(3):
            await line.say(said.partition(b"\r\n")[2] if b"a: b" in said else b"b" * 30_000)

    assert scene(talk)[1]


def test_a_wish_for_another_protocol_may_come_in_any_pieces():
    head = PUT.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nuPgrade: h2c\r\n\r\n")

    async def talk(line):
        for cut in range(1, len(head)):
            await line.say(head[:cut])
            await line.say(head[cut:] + BODY)

    written, closed, _ = scene(talk)
    assert (written.count(b"201 Created"), closed) == (len(head) - 1, False)


def test_a_client_that_goes_away_with_requests_in_its_pipeline_waits_no_longer():
    wish = b'{"topics": ["mail"], "wait": 30, "ttr": 60}'
    reserve = PUT.replace(b"/v1/jobs", b"/v1/reserve").replace(b"%d" % len(BODY), b"%d" % len(wish)) + wish

    async def run():
        with JobQueue("memory:") as queue:
            line = Line(queue)
            line.protocol.data_received(reserve * 2 + HEALTH)
            await asyncio.sleep(0.01)
            line.protocol.connection_lost(None)
            async with asyncio.timeout(20):
                while line.state.tasks:
                    await asyncio.sleep(0.01)
            return line.wire.written

    assert asyncio.run(run()) == b""


def test_the_head_of_a_stream_ends():
    async def talk(line):
        async with asyncio.timeout(20):
            await line.say(b"HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await line.say(HEALTH)

    written, closed, _ = scene(talk)
    assert (written.count(b"200 OK"), b"text/event-stream" in written, closed) == (2, True, False)


def test_a_client_that_is_gone_when_a_job_is_claimed_for_it_holds_nothing():
    wish = b'{"topics": ["mail"], "ttr": 60}'
    reserve = PUT.replace(b"/v1/jobs", b"/v1/reserve").replace(b"%d" % len(BODY), b"%d" % len(wish)) + wish

    async def run():
        with JobQueue("memory:") as queue:
            id = queue.put("mail")
            line, claim = Line(queue), queue.aclaim

            async def claims(command):
                line.protocol.connection_lost(None)
                return await claim(command)

            queue.aclaim = claims
            line.protocol.data_received(reserve)
            while line.state.tasks:
                await asyncio.sleep(0)
            job = queue.get(id)
            return job.state, job.claims, job.attempt

    assert asyncio.run(run()) == ("delayed", 1, 0)


REQUESTS = PUT + BODY + b"GET /v1/jobs?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" + PUT + BODY


@given(st.data())
def test_whatever_is_sent_in_whatever_pieces_the_connection_answers_or_closes(data):
    """Some bytes of good requests are replaced, and they come in pieces."""
    sent = bytearray(REQUESTS)
    for _ in range(data.draw(st.integers(0, 3))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))

    async def talk(line):
        for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            if begin < end and not line.wire.closed:
                line.protocol.data_received(bytes(sent[begin:end]))
                for _ in range(20):
                    await asyncio.sleep(0.0001)
        line.later(REQUEST + 1)

    written, closed, _ = scene(talk)
    assert written.startswith(b"HTTP/1.1 ") or closed
    assert b"HTTP/1.1 500" not in written
