"""The outlet into RabbitMQ, on a real one."""

import asyncio
import json
from contextlib import aclosing

import pytest

from pywheel import GiveUp
from pywheel.outlets import RabbitMQ
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.contract import delivery_id
from tests.outlets.amqp import amqp
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop


def outlet(server, **options):
    return aclosing(RabbitMQ(server.url(), **options))


@on_a_loop
async def test_a_job_becomes_a_persistent_message_with_an_id(rabbitmq_server):
    async with amqp(rabbitmq_server) as broker, outlet(rabbitmq_server) as deliver:
        queue = await broker.queue()
        job = a_job(b'{"order": 7}', to=queue, tenant="acme", content_type="application/json")
        await deliver(job)
        message = await broker.take(queue)
    said = message.header.properties
    assert message.body == b'{"order": 7}'
    assert (said.delivery_mode, said.message_id, said.content_type) == (2, delivery_id(job), "application/json")
    assert said.headers == {"tenant": "acme"}
    assert deliver.answers.last.status == "confirmed"


@on_a_loop
async def test_all_that_a_message_can_say_comes_from_headers(rabbitmq_server):
    headers = json.dumps({"number": 5, "deep": {"a": [1, None, True]}})
    job = a_job(
        message_id="order-7", content_encoding="utf-8", amqp_correlation_id="c", amqp_reply_to="r", amqp_type="closed",
        amqp_app_id="shop", amqp_content_encoding="gzip", amqp_priority="3", amqp_expiration="60000",
        amqp_timestamp="1700000000", amqp_headers=headers, kafka_key="none of RabbitMQ's business",
    )  # fmt: skip
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue(**{"x-max-priority": 5})
        async with outlet(rabbitmq_server, routing_key=queue) as deliver:
            await deliver(job)
        said = (await broker.take(queue)).header.properties
    assert (said.message_id, said.correlation_id, said.reply_to, said.message_type) == ("order-7", "c", "r", "closed")
    assert (said.app_id, said.content_encoding, said.priority, said.expiration) == ("shop", "gzip", 3, "60000")
    assert said.timestamp.timestamp() == 1_700_000_000
    assert said.headers == {"content-encoding": "utf-8", "number": 5, "deep": {"a": [1, None, True]}}


@on_a_loop
async def test_a_carbon_copy_goes_to_no_queue_that_is_not_allowed(rabbitmq_server):
    async with amqp(rabbitmq_server) as broker:
        ours, theirs = await broker.queue(), await broker.queue()
        jobs = [a_job(amqp_headers=json.dumps({name: [theirs]})) for name in ("CC", "BCC")]
        async with outlet(rabbitmq_server, routing_key=ours) as deliver:
            for job in jobs:
                with pytest.raises(GiveUp, match="allow"):
                    await deliver(job)
        async with outlet(rabbitmq_server, routing_key=ours, allow=[theirs]) as deliver:
            await asyncio.gather(*map(deliver, jobs))
        assert (await broker.count(ours), await broker.count(theirs)) == (2, 2)


@on_a_loop
async def test_a_message_that_no_queue_takes_is_a_failed_attempt_that_says_so_unless_it_may_be_lost(rabbitmq_server):
    async with amqp(rabbitmq_server) as broker, outlet(rabbitmq_server) as deliver:
        with pytest.raises(NotConfirmed, match=r"no queue takes the message: NO_ROUTE.*routing key 'nowhere'"):
            await deliver(a_job(to="nowhere"))
        await deliver(a_job(to=await broker.queue()))  # the channel is as good as before
    async with outlet(rabbitmq_server, mandatory=False) as deliver:
        await deliver(a_job(to="nowhere"))


@on_a_loop
async def test_an_exchange_that_is_not_there_fails_every_attempt_at_once_until_it_is(rabbitmq_server):
    options = {"exchange": "late", "routing_key": "a.b", "timeout": "1h"}
    async with amqp(rabbitmq_server) as broker, outlet(rabbitmq_server, **options) as deliver:
        ends = await asyncio.gather(*(deliver(a_job()) for _ in range(20)), return_exceptions=True)
        assert all(isinstance(end, NotConfirmed) and "no exchange 'late'" in str(end) for end in ends)
        queue = await broker.queue("late", key="a.b")
        await deliver(a_job())
        await broker.channel.exchange_delete("late")
        with pytest.raises(NotConfirmed):
            await deliver(a_job())
        with pytest.raises(NotConfirmed, match="no exchange 'late'"):
            await deliver(a_job())
        assert await broker.count(queue) == 1


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"to": "k" * 256}, "to has 256 bytes"),
        ({"message_id": "ü" * 128}, "message-id has 256 bytes"),
        ({"amqp_priority": "high"}, "amqp-priority must be a whole number from 0 to 255, not 'high'"),
        ({"amqp_expiration": "-1"}, "amqp-expiration must be a whole number"),
        ({"amqp_expiration": "9" * 5000}, "amqp-expiration"),
        ({"amqp_headers": "{"}, "amqp-headers is not JSON"),
        ({"amqp_headers": "[]"}, "amqp-headers must be a JSON object"),
        ({"amqp_headers": json.dumps({"n": 2**70})}, "cannot represent it"),
        ({"h" * 129: "x"}, "the name of a header has 129 bytes, RabbitMQ takes 128"),
        ({"amqp_timestamp": str(2**38)}, "amqp-timestamp must be"),
    ],
)
@on_a_loop
async def test_what_no_attempt_can_publish_makes_the_job_dead(rabbitmq_server, headers, said):
    async with outlet(rabbitmq_server, routing_key="q", allow=["*"]) as deliver:
        with pytest.raises(GiveUp, match=said):
            await deliver(a_job(**headers))


@on_a_loop
async def test_while_the_broker_blocks_publishers_attempts_fail_and_say_so(rabbitmq_server):
    async with amqp(rabbitmq_server) as broker:
        queue = await broker.queue()
        async with outlet(rabbitmq_server, routing_key=queue) as deliver:
            await deliver(a_job(b"before"))
            deliver.timeout = 2
            rabbitmq_server.control("set_vm_memory_high_watermark", "0.0001")
            try:
                while await asyncio.gather(deliver(a_job()), return_exceptions=True) == [None]:
                    pass  # the alarm comes a moment after the command has ended
                ends = await asyncio.gather(*(deliver(a_job()) for _ in range(3)), return_exceptions=True)
            finally:
                rabbitmq_server.control("set_vm_memory_high_watermark", "0.4")
            assert {str(end) for end in ends} == {
                "RabbitMQ did not confirm within 2 s (it blocks publishers: memory or disk alarm)"
            }
            deliver.timeout = 30
            await deliver(a_job(b"after"))


@on_a_loop
async def test_a_wrong_password_is_a_failed_attempt_that_says_so(rabbitmq_server):
    deliver = RabbitMQ(rabbitmq_server.url().replace("amqp://", "amqp://guest:wrong@"), timeout=3)
    with pytest.raises(NotConfirmed, match="ACCESS_REFUSED"):
        await deliver(a_job())
