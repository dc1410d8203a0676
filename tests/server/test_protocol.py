"""One connection, its time moved by hand: what is too slow is cut, what is well-formed answered, all else refused."""

import asyncio

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from pywheel import JobQueue
from pywheel.server import app, protocol
from pywheel.server.api import claims
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
        config = uvicorn.Config(
            service.edge,
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_keep_alive=65,
            proxy_headers=False,
        )
        config.load()
        self.queue = queue
        self.state = ServerState()
        self.wire = Wire()
        self.protocol = Protocol(config=config, server_state=self.state, app_state={}, _loop=asyncio.get_running_loop())
        self.protocol.connection_made(self.wire)

    async def say(self, data):
        if data and not self.wire.closed:
            self.protocol.data_received(data)
        while self.state.tasks or self.is_under_way():
            await asyncio.sleep(0)

    async def warm_up(self):
        """Let the head of puts be known: the next one is answered the short way."""
        for _ in range(2):
            await self.say(PUT + BODY)

    def is_under_way(self):
        cycle = self.protocol.cycle
        return cycle is not None and not (cycle.response_complete or cycle.disconnected)

    def later(self, seconds):
        self.protocol.sweep(asyncio.get_running_loop().time() + seconds)


def remembered():
    """Return how many heads are."""
    return sum(map(len, protocol._heads.values()))


def scene(talk):
    """Run a talk on one connection; return what was answered and whether it is closed."""

    async def run():
        with JobQueue("memory:") as queue:
            line = Line(queue)
            await talk(line)
            return line.wire.written, line.wire.closed, queue.jobs.list()

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
        line.later(line.protocol.timeout_keep_alive - 1)
        await line.say(PUT + BODY)

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (2, False, 2)


def test_a_connection_that_nobody_uses_any_more_is_closed():
    async def talk(line):
        await line.say(PUT + BODY)
        line.later(line.protocol.timeout_keep_alive + 1)

    assert scene(talk)[1]


def test_a_connection_whose_request_is_not_answered_yet_is_not_idle():
    async def talk(line):
        for _ in range(3):  # the third time the short way
            line.protocol.data_received(PUT + BODY)
            assert line.is_under_way()
            line.later(line.protocol.timeout_keep_alive + 1)
            assert not line.wire.closed
            await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (3, False, 3)


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


def test_a_put_of_the_short_way_waits_until_the_client_reads():
    async def talk(line):
        await line.warm_up()
        line.protocol.pause_writing()
        for _ in range(3):
            line.protocol.data_received(PUT + BODY)
            assert not line.is_under_way()
        line.protocol.resume_writing()
        await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (5, False, 5)


def test_a_request_that_waits_behind_another_one_is_not_too_slow():
    wish = b'{"topics": ["other"], "wait": 30}'
    reserve = PUT.replace(b"/v1/jobs", b"/v1/reserve").replace(b"%d" % len(BODY), b"%d" % len(wish)) + wish

    async def talk(line):
        line.protocol.data_received(reserve + (PUT + BODY) * 50)  # all has arrived; a part of it is parsed
        await asyncio.sleep(0)
        line.later(REQUEST + 1)
        assert not line.wire.closed
        await line.queue.aio.put("other")
        await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"200 OK"), written.count(b"201 Created"), closed, len(jobs)) == (1, 50, False, 51)


def test_a_head_that_comes_again_is_answered_as_the_first_time():
    protocol._heads.clear()

    async def talk(line):
        for _ in range(3):
            await line.say(PUT + BODY)
        await line.say(PUT + BODY[:-1] + b"]")  # the same head, another body
        line.protocol.data_received(PUT + BODY[:5])  # the same head, and a body in two parts
        await line.say(BODY[5:])
        await line.say((PUT + BODY) * 2)  # two at once

        assert remembered() == 1

    written, closed, jobs = scene(talk)
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
        assert remembered() == 0

    written, _, jobs = scene(talk)
    assert (written.count(b"201 Created"), len(jobs)) == (1, 1)


def test_heads_that_are_remembered_are_of_bounded_number(monkeypatch):
    protocol._heads.clear()
    monkeypatch.setattr(protocol, "_MOST_KNOWN", 10)

    async def talk(line):
        for number in range(25):
            await line.say(PUT.replace(b"\r\n\r\n", b"\r\nX: %d\r\n\r\n" % number) + BODY)
        assert 1 <= remembered() <= 10

    scene(talk)


KEYED = b'{"topic": "mail", "key": "a"}'
PUT_KEYED = PUT.replace(b"%d" % len(BODY), b"%d" % len(KEYED))


def test_the_short_way_says_what_the_store_refuses():
    async def talk(line):
        for _ in range(3):
            await line.say(PUT_KEYED + KEYED)

    written, closed, jobs = scene(talk)
    _, long, short = (answer.partition(b"\r\n\r\n") for answer in written.split(b"HTTP/1.1 ")[1:])
    assert long[0].startswith(b"409 ")
    assert sorted(line.partition(b":")[0] for line in long[0].lower().splitlines()[1:]) == sorted(
        line.partition(b":")[0] for line in short[0].lower().splitlines()[1:]
    )
    assert (long[2], closed, len(jobs)) == (short[2], False, 1)


def test_who_goes_away_on_the_short_way_is_not_answered_and_the_others_are():
    async def talk(line):
        await line.warm_up()
        line.protocol.data_received(PUT + BODY)
        assert line.is_under_way()
        line.wire.closed = True
        line.protocol.connection_lost(ConnectionResetError())
        other = await asyncio.wait_for(line.queue.aio.put("mail", b"other"), 60)
        assert other

    written, _, jobs = scene(talk)
    assert (written.count(b"201 Created"), len(jobs)) == (2, 4)


def test_an_answer_under_way_on_the_short_way_is_the_last_of_a_server_that_stops():
    async def talk(line):
        await line.warm_up()
        line.protocol.data_received(PUT + BODY)
        line.protocol.shutdown()
        assert not line.wire.closed
        await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (3, True, 3)
    assert written.rpartition(b"HTTP/1.1")[2].count(b"connection: close") == 1


HEALTH = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_what_is_body_is_never_taken_for_a_head():
    """A request comes, and with it the head of another one, whose body looks like requests."""

    async def talk(line):
        await line.warm_up()
        inner = PUT + BODY
        big = b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (3 * len(inner))
        for _ in range(2):
            line.protocol.data_received(HEALTH + big)
            await line.say(b"")
            for _ in range(3):
                await line.say(inner)

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), len(jobs)) == (2, 2)
    assert written.count(b"HTTP/1.1 404") == 2
    assert not closed


def test_a_head_is_remembered_with_its_own_meaning_alone():
    """What begins within the body of one request, and ends with another's head, is no head."""

    async def talk(line):
        await line.warm_up()
        foreign = PUT.replace(b"Host", b"X-Foreign: 1\r\nHost")
        body = foreign[:-4] + b"\r\n\r\n" + b"z" * 10
        big = b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        await line.say(HEALTH + big)
        await line.say(body + PUT + BODY)
        assert not any(b"X-Foreign" in head for known in protocol._heads.values() for head in known)

    scene(talk)


def test_what_follows_a_body_in_chunks_is_no_header():
    async def talk(line):
        chunked = PUT.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        await line.say(chunked + b"%x\r\n%s\r\n0\r\nHost: evil\r\nIdempotency-Key: a\r\n\r\n" % (len(BODY), BODY))
        await line.say(PUT + BODY)

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (2, False, 2)


def test_what_follows_a_body_in_chunks_is_bounded():
    async def talk(line):
        chunked = PUT.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        line.protocol.data_received(chunked + b"0\r\n")
        for _ in range(1_000):
            if not line.wire.closed:
                line.protocol.data_received(b"x: %s\r\n" % (b"y" * 1_000))
        assert line.wire.closed
        line.protocol.connection_lost(None)
        await line.say(b"")

    assert scene(talk)[1]


def test_a_body_may_come_in_the_smallest_of_chunks():
    body = b'{"topic": "mail", "body": "%s"}' % (b"x" * 50_000)

    async def talk(line):
        chunked = PUT.replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
        sent = chunked + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        for at in range(0, len(sent), 60_000):
            line.protocol.data_received(sent[at : at + 60_000])
        await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed, len(jobs)) == (1, False, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_a_wish_for_another_protocol_is_left_out_in_whatever_pieces_it_comes(size):
    asking = PUT.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUPGRADE: h2c\r\nUp: no\r\n\r\n")
    body = BODY.replace(b"mail", b"x\\nupgrade:")
    asking = asking.replace(b"%d" % len(BODY), b"%d" % len(body))

    async def talk(line):
        for _ in range(2):
            for at in range(0, len(asking + body), size):
                line.protocol.data_received((asking + body)[at : at + size])
            await line.say(b"")

    written, closed, jobs = scene(talk)
    assert (written.count(b"201 Created"), closed) == (2, False)
    assert [job.topic for job in jobs] == ["x\nupgrade:"] * 2


def test_a_wish_for_another_protocol_behind_another_request_is_refused():
    async def talk(line):
        asking = PUT.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        await line.say(PUT + BODY + asking + BODY)

    written, closed, _ = scene(talk)
    assert written.count(b"HTTP/1.1 400") == 1
    assert closed


# ---- who goes away ---------------------------------------------------------------------------------------------------


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


def test_a_client_that_is_gone_when_a_job_is_claimed_for_it_holds_nothing(monkeypatch):
    wish = b'{"topics": ["mail"], "ttr": 60}'
    reserve = PUT.replace(b"/v1/jobs", b"/v1/reserve").replace(b"%d" % len(BODY), b"%d" % len(wish)) + wish

    async def run():
        with JobQueue("memory:") as queue:
            id = queue.put("mail")
            line, claim = Line(queue), claims.reserve_async

            async def lost(calls, command):
                line.protocol.connection_lost(None)
                return await claim(calls, command)

            monkeypatch.setattr(claims, "reserve_async", lost)
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
