"""The outlet into Redis Streams, on a real Redis."""

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager

import pytest

from pywheel import BadOption, GiveUp
from pywheel.outlets import RedisStreams
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop
from tests.stores.network import Proxy
from tests.stores.servers import Redis, started


@pytest.fixture
def own_redis_server():
    """One of a test's own: to be killed."""
    yield from started(Redis)


@contextmanager
def looking(server):
    client = server.connect(decode_responses=True)
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def outlet(server, stream="", *, via=None, **options):
    made = RedisStreams(f"unix://{via.address if via else server.socket}", stream, **options)
    try:
        yield made
    finally:
        await made.aclose()


def entries(server, stream):
    with looking(server) as client:
        return [fields for _, fields in client.xrange(stream)]


@on_a_loop
async def test_a_job_becomes_an_entry(redis_server, stream):
    job = a_job(b'{"order": 7}', key="order-7", tenant="acme")
    async with outlet(redis_server, stream) as deliver:
        await deliver(job)
        bare = a_job(b"")
        await deliver(bare)
    assert entries(redis_server, stream) == [
        {
            "id": delivery_id(job),
            "topic": "t",
            "body": '{"order": 7}',
            "key": "order-7",
            "headers": json.dumps({"tenant": "acme"}, separators=(",", ":")),
        },
        {"id": delivery_id(bare), "topic": "t", "body": ""},
    ]


@on_a_loop
async def test_a_second_attempt_adds_nothing(redis_server, stream):
    job = a_job()
    async with outlet(redis_server, stream) as deliver:
        await deliver(job)
        first = deliver.answers.last.status
        await deliver(job._replace(attempt=2, claims=2))
        assert deliver.answers.last.status == first
    assert len(entries(redis_server, stream)) == 1


@on_a_loop
async def test_an_id_is_forgotten_after_a_time(redis_server, stream):
    async with outlet(redis_server, stream, remember="1h") as deliver:
        await deliver(a_job())
    with looking(redis_server) as client:
        [key] = client.scan_iter(f"pywheel:{{{stream}}}:*")
        assert 0 < client.pttl(key) <= 3_600_000


@on_a_loop
async def test_a_stream_keeps_about_as_many_as_it_is_told(redis_server, stream):
    async with outlet(redis_server, stream, maxlen=100) as deliver:
        await asyncio.gather(*(deliver(a_job()) for _ in range(1_000)))
    assert 100 <= len(entries(redis_server, stream)) < 300


@on_a_loop
async def test_a_job_names_its_stream_and_is_in_order_on_one_connection(redis_server, stream):
    with Proxy(redis_server) as proxy:
        async with outlet(redis_server, via=proxy) as deliver:
            await asyncio.gather(*(deliver(a_job(b"%d" % number, to=stream)) for number in range(1_200)))
            assert proxy.links == 1
    assert [int(entry["body"]) for entry in entries(redis_server, stream)] == list(range(1_200))


@on_a_loop
async def test_without_a_stream_a_job_must_name_one(redis_server):
    async with outlet(redis_server) as deliver:
        with pytest.raises(GiveUp, match="does not say in `to` to which stream"):
            await deliver(a_job())


@on_a_loop
async def test_the_key_of_the_id_lies_in_the_slot_of_its_stream(redis_server, stream):
    async with outlet(redis_server) as deliver:
        for name in (stream, f"a{{{stream}}}b"):
            await deliver(a_job(id=1, to=name))
    with looking(redis_server) as client:
        keys = list(client.scan_iter("pywheel:*"))
        for name in (stream, f"a{{{stream}}}b"):
            assert any(slot(key) == slot(name) for key in keys)


def slot(key):
    from redis.crc import key_slot

    return key_slot(key.encode())


@on_a_loop
async def test_what_is_no_stream_is_a_failed_attempt_of_that_job_alone(redis_server, stream):
    with looking(redis_server) as client:
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
        with looking(redis_server) as client:
            client.script_flush()
        await deliver(a_job())
    assert len(entries(redis_server, stream)) == 2


@on_a_loop
async def test_a_redis_that_restarts_costs_the_jobs_that_wait_no_attempt_nor_their_order(own_redis_server):
    own_redis_server.kill()
    async with outlet(own_redis_server, "s", timeout=60) as deliver:
        waiting = [asyncio.create_task(deliver(a_job(b"%d" % number))) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(own_redis_server.start)
        await asyncio.gather(*waiting)
    assert [int(entry["body"]) for entry in entries(own_redis_server, "s")] == list(range(20))


@on_a_loop
async def test_an_answer_that_was_lost_makes_no_second_entry(redis_server, stream):
    with Proxy(redis_server) as proxy:
        async with outlet(redis_server, stream, via=proxy) as deliver:
            await deliver(a_job())
            proxy.stall(requests=False)
            deliver.timeout = 0.5
            job = a_job()
            with pytest.raises(NotConfirmed):
                await deliver(job)
            proxy.cut_once()
            proxy.heal()
            deliver.timeout = 30
            await deliver(job._replace(attempt=2, claims=2))
    assert len(entries(redis_server, stream)) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"url": "http://x"}, "address of a Redis"), ({"maxlen": 0}, "maxlen"), ({"remember": 0}, "remember")],
)
def test_arguments_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(BadOption, match=said):
        RedisStreams(**{"url": "redis://localhost", **wrong})


@on_a_loop
async def test_who_still_waits_when_it_is_closed_gets_an_error(redis_server, stream):
    with Proxy(redis_server) as proxy:
        async with outlet(redis_server, stream, via=proxy, timeout=120) as deliver:
            await deliver(a_job())
            proxy.stall()
            waiting = [asyncio.create_task(deliver(a_job())) for _ in range(3)]
            await asyncio.sleep(0.01)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(end, NotConfirmed) and "closed" in str(end) for end in ends), ends
