"""``pywheel bridge``, as a process."""

import asyncio
import signal

import pytest

from pywheel.jobs.bodies import is_encrypted
from tests.cli.running import running
from tests.jobs.waiting import until
from tests.outlets.amqp import amqp
from tests.outlets.kafka_mock import Mock

JOBS = 500
KEYS = f"k:{'A' * 43}="


@pytest.fixture
def bridge(url, tmp_path):
    """Run a bridge into the store."""
    return lambda *told, **variables: running("bridge", *told, "--store", url, folder=tmp_path, **variables)


def put(jobs):
    return jobs.topics.counts()["orders"].delayed if "orders" in jobs.topics.counts() else 0


def sealed(queue):
    """Whether all bodies lie encrypted in the store, in the eyes of a queue without the key."""
    return {is_encrypted(job.body) for job in queue.jobs.list("orders", limit=JOBS)} == {True}


def publish(server, exchange):
    async def program():
        async with amqp(server) as broker:
            for number in range(JOBS):
                headers = {"x-delay": 3_600_000}
                await broker.publish(b"%d" % number, "k", exchange, message_id=f"m-{number}", headers=headers)

    asyncio.run(program())


def left(server, queue):
    async def program():
        async with amqp(server) as broker:
            return await broker.count(queue)

    return asyncio.run(program())


def test_it_takes_messages_until_sigterm_and_with_keys_stores_no_plain_bodies(rabbitmq_server, queue, bridge, stream):
    broker = rabbitmq_server.url().replace("//", "//guest:guest@")
    arguments = ("rabbitmq", stream, "--exchange", f"{stream}.delayed", "--topic", "orders")
    with bridge(*arguments, PYWHEEL_BROKER=broker, PYWHEEL_KEYS=KEYS) as command:
        command.says("takes messages from")
        publish(rabbitmq_server, f"{stream}.delayed")
        until(lambda: put(queue) == JOBS)
        command.send(signal.SIGTERM)
        said = command.ends()
    assert f"{JOBS} taken, 0 refused" in said
    assert "guest:guest" not in said
    assert left(rabbitmq_server, stream) == 0
    assert sealed(queue)


def test_killed_again_and_again_it_puts_each_message_once(rabbitmq_server, queue, bridge, stream):
    async def declare():
        async with amqp(rabbitmq_server) as broker:
            return await broker.queue(stream, kind="fanout")

    name = asyncio.run(declare())
    publish(rabbitmq_server, stream)
    arguments = ("rabbitmq", name, "--topic", "orders", "--prefetch", "20", "--broker", rabbitmq_server.url())
    for part in (1, 2, 3):
        with bridge(*arguments):
            until(lambda part=part: put(queue) > part * JOBS / 5)
    with bridge(*arguments):
        until(lambda: put(queue) == JOBS and left(rabbitmq_server, name) == 0)
    bodies = [job.body for job in queue.jobs.list("orders", limit=JOBS + 10)]
    assert sorted(map(int, bodies)) == list(range(JOBS))


@pytest.mark.stress
def test_it_takes_records_of_a_mock_cluster_and_with_keys_stores_no_plain_bodies(queue, bridge):
    mock = Mock()
    mock.produce("delayed", b"x", headers=[("pywheel-delay", b"1h")])
    arguments = ("kafka", "delayed", "--servers", mock.servers, "--topic", "orders", "--to", "orders")
    with bridge(*arguments, PYWHEEL_KEYS=KEYS) as command:
        until(lambda: put(queue) == 1)
        command.send(signal.SIGTERM)
        command.ends()
    assert sealed(queue)
