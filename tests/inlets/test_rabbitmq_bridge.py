"""The bridge from RabbitMQ, on a real one, and back into it by the outlet."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest

from pywheel import BadOption
from pywheel.inlets.bridge import SourceAway
from pywheel.inlets.rabbitmq import RabbitMQSource
from pywheel.inlets.received import Message
from pywheel.jobs import State
from pywheel.outlets import RabbitMQ
from tests.inlets.carrying import carrying, until
from tests.jobs.waiting import working
from tests.outlets.amqp import amqp
from tests.outlets.loops import on_a_loop
from tests.stores.network import Proxy


def all_jobs(jobs):
    return sorted(jobs.jobs.list("t", limit=10_000), key=lambda job: job.id)


@asynccontextmanager
async def bridged(server, jobs, *messages):
    """Give a broker and a bridge that has taken or refused messages of a queue: bodies and their properties."""
    async with amqp(server) as broker:
        queue = await broker.queue()
        for body, properties in messages:
            await broker.publish(body, queue, **properties)
        async with carrying(jobs, RabbitMQSource(server.url(), queue)) as bridge:
            await until(lambda: bridge.taken + bridge.refused == len(messages))
            yield
        assert await broker.count(queue) == 0


@on_a_loop
async def test_a_message_becomes_a_job_with_all_that_it_said(rabbitmq_server, jobs, stream):
    said = {
        "message_id": "m-1", "content_type": "text/plain", "priority": 4, "expiration": "60000", "correlation_id": "c",
        "reply_to": "r", "message_type": "closed", "app_id": "shop",
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "headers": {"x-delay": 60_000, "tenant": "acme", "n": 5, "to": "elsewhere", "price": Decimal("1.5")},
    }  # fmt: skip
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue(stream, kind="fanout")
        async with carrying(jobs, RabbitMQSource(rabbitmq_server.url(), queue)) as bridge:
            await broker.publish(b"body", "order.closed", stream, **said)
            await until(lambda: bridge.taken)
    [job] = all_jobs(jobs)
    headers = dict(job.headers)
    assert (job.body, job.due - job.created) == (b"body", 60_000)
    assert json.loads(headers.pop("amqp-headers")) == {"x-delay": 60_000, "n": 5, "to": "elsewhere", "price": "1.5"}
    assert headers == {
        "to": "order.closed", "message-id": "m-1", "content-type": "text/plain", "tenant": "acme", "amqp-priority": "4",
        "amqp-expiration": "60000", "amqp-correlation-id": "c", "amqp-reply-to": "r", "amqp-type": "closed",
        "amqp-app-id": "shop", "amqp-timestamp": "1700000000",
    }  # fmt: skip


@on_a_loop
async def test_a_delayed_message_comes_out_of_the_real_exchange_as_it_went_in(rabbitmq_server, jobs, stream):
    jobs.handler("t", concurrency=50)(RabbitMQ(rabbitmq_server.url(), exchange=stream))
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue(stream, kind="topic", key="order.*")
        delayed = await broker.queue(f"{stream}.delayed", kind="fanout")
        with working(jobs):
            async with carrying(jobs, RabbitMQSource(rabbitmq_server.url(), delayed)):
                headers = {"x-delay": 60_000, "tenant": "acme", "n": 5}
                await broker.publish(b"late", "order.7", f"{stream}.delayed", message_id="m-1", headers=headers)
                await broker.publish(b"now", "order.8", f"{stream}.delayed", priority=3)
                first = await broker.take(queue)
                [late] = [job for job in all_jobs(jobs) if job.state is State.DELAYED]
                assert late.due - late.created == 60_000
                jobs.reschedule(late.id, 0)
                second = await broker.take(queue)
    assert (first.body, first.delivery.routing_key, first.header.properties.priority) == (b"now", "order.8", 3)
    assert (second.body, second.delivery.routing_key) == (b"late", "order.7")
    properties = second.header.properties
    assert (properties.message_id, properties.delivery_mode) == ("m-1", 2)
    assert properties.headers == {"x-delay": 60_000, "tenant": "acme", "n": 5}


@on_a_loop
async def test_the_time_that_the_broker_wrote_is_what_a_delay_counts_from(rabbitmq_server, jobs):
    headers = {"x-delay": 5_000, "timestamp_in_ms": 1_900_000_000_000}
    async with bridged(rabbitmq_server, jobs, (b"", {"headers": headers})):
        assert [job.due for job in all_jobs(jobs)] == [1_900_000_005_000]


@on_a_loop
async def test_one_id_with_two_bodies_is_two_messages(rabbitmq_server, jobs):
    messages = [(body, {"message_id": "always the same"}) for body in (b"1", b"2", b"2")]
    async with bridged(rabbitmq_server, jobs, *messages):
        assert [job.body for job in all_jobs(jobs)] == [b"1", b"2"]


@on_a_loop
async def test_a_header_says_where_the_job_goes(rabbitmq_server, jobs):
    headers = {"pywheel-to": "there", "pywheel-delay": "1h"}
    async with bridged(rabbitmq_server, jobs, (b"1", {"headers": headers})):
        [job] = all_jobs(jobs)
    assert set(job.headers) == {"to", "message-id"}
    assert job.headers["to"] == "there"
    assert job.due - job.created == 3_600_000


@on_a_loop
async def test_what_makes_no_sense_goes_to_the_dead_letter_exchange(rabbitmq_server, jobs, stream):
    async with amqp(rabbitmq_server) as broker:
        dead = await broker.queue(stream, kind="fanout")
        queue = await broker.queue(**{"x-dead-letter-exchange": stream})
        await broker.publish(b"bad", queue, headers={"x-delay": "soon"})
        await broker.publish(b"x" * (jobs.calls.max_body + 1), queue)
        await broker.publish(b"good", queue)
        async with carrying(jobs, RabbitMQSource(rabbitmq_server.url(), queue)) as bridge:
            await until(lambda: bridge.taken + bridge.refused == 3)
        assert (bridge.taken, bridge.refused) == (1, 2)
        assert (await broker.take(dead)).body == b"bad"
        assert await broker.count(queue) == 0


@on_a_loop
async def test_a_message_that_comes_again_is_put_once(rabbitmq_server, jobs):
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue()
        with Proxy(rabbitmq_server, tcp=True) as proxy:
            source = RabbitMQSource(rabbitmq_server.url(via=proxy), queue)
            async with carrying(jobs, source) as bridge:
                await until(lambda: proxy.links)
                await broker.publish(b"first", queue)
                await until(lambda: bridge.taken)
                settle, lost = source.settle, []

                async def cut(taken, refused):
                    if not lost:
                        lost.append(len(taken))
                        proxy.cut_once()
                    await settle(taken, refused)

                source.settle = cut
                for number in range(100):
                    await broker.publish(b"%d" % number, queue, message_id=f"m-{number}", headers={"x-delay": 60_000})
                await until(lambda: len(all_jobs(jobs)) > 100 and bridge.taken > 100)
        assert await broker.count(queue) == 0
    bodies = [job.body for job in all_jobs(jobs)]
    assert lost
    assert sorted(set(bodies)) == sorted([b"first", *(b"%d" % number for number in range(100))])
    assert len(bodies) == 101


def test_a_connection_that_breaks_within_an_ack_is_an_outage():
    async def breaks(*_, **__):
        raise Exception  # noqa: TRY002  (as aiormq has it)

    source = RabbitMQSource("amqp://127.0.0.1", "q")
    source._settled = 0
    source._channel = SimpleNamespace(basic_ack=breaks)
    with pytest.raises(SourceAway):
        asyncio.run(source.settle([Message(1, b"", {}, {})], []))


@on_a_loop
async def test_a_message_that_the_client_cannot_decode_is_said_as_the_reason_of_the_outage():
    source = RabbitMQSource("amqp://127.0.0.1", "q")
    source._received, closing = asyncio.Queue(), asyncio.Future()
    source._received.put_nowait(None)
    closing.set_exception(ValueError("year 57000 is out of range"))
    source._channel = SimpleNamespace(closing=closing)
    with pytest.raises(SourceAway, match=r"was closed: year 57000 is out of range$"):
        await source.batch(asyncio.Event())


@on_a_loop
async def test_a_queue_that_is_deleted_and_made_again_is_taken_up_again(rabbitmq_server, jobs, caplog):
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue()
        async with carrying(jobs, RabbitMQSource(rabbitmq_server.url(), queue)) as bridge:
            await broker.publish(b"1", queue)
            await until(lambda: bridge.taken == 1)
            await broker.channel.queue_delete(queue)
            await until(lambda: "is away, again in" in caplog.text)
            await broker.channel.queue_declare(queue, durable=True)
            await broker.publish(b"2", queue)
            await until(lambda: bridge.taken == 2)


def test_arguments_that_make_no_sense_are_refused():
    for url, prefetch, said in (("localhost", 200, "is written like amqp:"), ("amqp://localhost", 0, "prefetch")):
        with pytest.raises(BadOption, match=said):
            RabbitMQSource(url, "q", prefetch=prefetch)
