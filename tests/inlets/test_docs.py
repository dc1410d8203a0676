"""The code in the guides of brokers works as shown."""

import asyncio
import textwrap
import tomllib

import aiormq

from pywheel import JobQueue
from pywheel.inlets.rabbitmq import RabbitMQSource
from pywheel.outlets import RabbitMQ
from pywheel.outlets.config import load
from tests.docs.pages import blocks
from tests.inlets.carrying import carrying, until
from tests.jobs.waiting import working
from tests.outlets.amqp import amqp


def test_the_config_file_is_understood(monkeypatch, tmp_path):
    monkeypatch.setenv("SHOP_RABBITMQ", "amqp://shop:secret@localhost")
    (tmp_path / "kafka.properties").write_text("security.protocol=PLAINTEXT\n")
    [text] = blocks("docs/outlets-brokers.md", "toml")
    (tmp_path / "outlets.toml").write_text(text)
    found = load(tmp_path / "outlets.toml")
    assert [configured.outlet.kind for configured in found] == ["rabbitmq", "kafka", "redis", "nats"]
    assert not any("secret" in configured.outlet.target for configured in found)


def test_who_comes_from_the_plugin_changes_one_name(rabbitmq_server, tmp_path):
    [code] = [code for code in blocks("docs/coming-from.md", "py") if "orders.delayed" in code]
    _, text = blocks("docs/coming-from.md", "toml")
    exchange = tomllib.loads(text)["outlets"]["orders"]["exchange"]
    names = {"Properties": aiormq.spec.Basic.Properties}
    exec("async def publish(channel):\n" + textwrap.indent(code.replace("1_800_000", "100"), "    "), names)

    async def program(jobs):
        async with amqp(rabbitmq_server) as broker:
            source = RabbitMQSource(rabbitmq_server.url(), "orders.delayed", exchange="orders.delayed")
            async with carrying(jobs, source, "orders"):
                await until(lambda: hasattr(source, "_channel"))
                await names["publish"](broker.channel)
                return await broker.take("close")

    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as jobs:
        jobs.handler("orders", concurrency=200)(RabbitMQ(rabbitmq_server.url(), exchange=exchange))
        with working(jobs):
            message = asyncio.run(program(jobs))
    assert (message.body, message.delivery.routing_key) == (b"{}", "order.closed")
    assert message.header.properties.message_id == "order-7"
    assert message.header.properties.headers == {"x-delay": 100}
