"""The outlet into Redis Streams, on a real Redis."""

import asyncio
from contextlib import aclosing, closing

import pytest
from redis.crc import key_slot
from redis.exceptions import ReadOnlyError

from pywheel import BadOption, GiveUp
from pywheel.outlets import RedisStreams
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from pywheel.outlets.redis_streams import RedisLink
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop


def outlet(server, stream="", **options):
    return aclosing(RedisStreams(f"unix://{server.socket}", stream, **options))


def entries(server, stream):
    with closing(server.connect(decode_responses=True)) as client:
        return [fields for _, fields in client.xrange(stream)]


@on_a_loop
async def test_a_job_becomes_an_entry(redis_server, stream):
    job, bare = a_job(b'{"order": 7}', key="order-7", tenant="acme"), a_job(b"")
    async with outlet(redis_server, stream) as deliver:
        await deliver(job)
        await deliver(bare)
    said = {"body": '{"order": 7}', "key": "order-7", "headers": '{"tenant":"acme"}'}
    assert entries(redis_server, stream) == [
        {"id": delivery_id(job), "topic": "t", **said},
        {"id": delivery_id(bare), "topic": "t", "body": ""},
    ]


@on_a_loop
async def test_an_id_is_forgotten_after_a_time_and_its_key_lies_in_the_slot_of_its_stream(redis_server, stream):
    names = [stream, f"a{{{stream}}}b"]
    async with outlet(redis_server, remember="1h") as deliver:
        for name in names:
            await deliver(a_job(id=1, to=name))
        with pytest.raises(GiveUp, match="names no stream in `to`"):
            await deliver(a_job())
    with closing(redis_server.connect(decode_responses=True)) as client:
        keys = list(client.scan_iter("pywheel:*"))
        own = [key for key in keys if stream in key]
        assert [0 < client.pttl(key) <= 3_600_000 for key in own] == [True] * len(own) != []
    assert {key_slot(name.encode()) for name in names} <= {key_slot(key.encode()) for key in keys}


@on_a_loop
async def test_a_stream_keeps_about_as_many_as_it_is_told(redis_server, stream):
    async with outlet(redis_server, stream, maxlen=100) as deliver:
        await asyncio.gather(*(deliver(a_job()) for _ in range(1_000)))
    assert 100 <= len(entries(redis_server, stream)) < 300


@on_a_loop
async def test_what_is_no_stream_is_a_failed_attempt_of_that_job_alone(redis_server, stream):
    with closing(redis_server.connect(decode_responses=True)) as client:
        client.set(f"{stream}-text", "x")
    async with outlet(redis_server, stream, allow=[f"{stream}-text"]) as deliver:
        wrong, right = await asyncio.gather(
            deliver(a_job(to=f"{stream}-text")), deliver(a_job()), return_exceptions=True
        )
    assert isinstance(wrong, NotConfirmed)
    assert "WRONGTYPE" in str(wrong)
    assert right is None


@on_a_loop
async def test_flushed_scripts_cost_no_attempt(redis_server, stream):
    async with outlet(redis_server, stream) as deliver:
        await deliver(a_job())
        with closing(redis_server.connect(decode_responses=True)) as client:
            client.script_flush()
        await deliver(a_job())
    assert len(entries(redis_server, stream)) == 2


class Server:
    """A client of a Redis that has one answer."""

    def __init__(self, answer):
        self.answer = answer

    def pipeline(self, **_):
        return self

    def eval(self, *_):
        pass

    async def execute(self, **_):
        return [self.answer]

    async def aclose(self):
        pass


@on_a_loop
async def test_a_connection_to_a_server_that_has_become_a_replica_is_not_used_again(monkeypatch):
    async def connect(_):
        return RedisLink(servers.pop(0))

    servers = [Server(ReadOnlyError("You can't write against a read only replica.")), Server("1-0")]
    monkeypatch.setattr(RedisStreams, "connect", connect)
    async with aclosing(RedisStreams("redis://localhost", "s")) as deliver:
        with pytest.raises(NotConfirmed, match="read only"):
            await deliver(a_job())
        await deliver(a_job())
        assert deliver.answers.last.status == "1-0"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "http://x"}, "address of a Redis"),
        ({"url": "redis://x?nosuch=5"}, "option in the address: .*'nosuch'"),
        ({"url": "unix:///x?socket_timeout=soon"}, "option in the address: .*socket_timeout"),
        ({"url": "rediss://x?ssl_cert_reqs=no"}, "option in the address: .*no"),
        ({"url": "redis://x?retry=3"}, "option in the address: .*no attribute"),
        ({"maxlen": 0}, "maxlen"),
        ({"remember": 0}, "remember"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(BadOption, match=said):
        RedisStreams(**{"url": "redis://localhost", **wrong})
