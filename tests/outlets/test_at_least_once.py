"""Workers and brokers are killed, and networks cut, while jobs are delivered: nothing is lost, and repeats say so."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import nats
import pytest

from pywheel import JobQueue
from pywheel.outlets import kind as Outlet  # noqa: N812  (it returns a class)
from tests.jobs.waiting import until, working
from tests.outlets.amqp import amqp
from tests.stores.network import Proxy

pytestmark = pytest.mark.servers
JOBS = 1_500


class OfRabbitMQ:
    """A RabbitMQ with a queue."""

    name = "rabbitmq"

    def __init__(self, server, name):
        self.server = server
        self.place = asyncio.run(self._declare())

    async def _declare(self):
        async with amqp(self.server) as broker:
            return await broker.queue()

    def url(self, via=None):
        return self.server.url(via=via)

    def messages(self):
        """Return (id, body) of all that has come."""

        async def look():
            async with amqp(self.server) as broker:
                found = await broker.all(self.place)
                return [(message.header.properties.message_id, message.body) for message in found]

        return asyncio.run(look())


class OfRedis:
    """A Redis with a stream."""

    name = "redis"

    def __init__(self, server, name):
        self.server = server
        self.place = name

    def url(self, via=None):
        return f"unix://{via.address if via else self.server.socket}"

    def messages(self):
        client = self.server.connect()
        try:
            return [(fields[b"id"], fields[b"body"]) for _, fields in client.xrange(self.place)]
        finally:
            client.close()


class OfNats:
    """A NATS with a stream."""

    name = "nats"

    def __init__(self, server, name):
        self.server = server
        self.stream = name
        self.place = f"{name}.due"
        asyncio.run(self._with_stream(lambda stream: stream.add_stream(name=name, subjects=[f"{name}.>"])))

    def url(self, via=None):
        return self.server.url(via=via)

    def messages(self):
        async def look(stream):
            state = (await stream.stream_info(self.stream)).state
            found = [await stream.get_msg(self.stream, number) for number in range(1, state.last_seq + 1)]
            return [(message.headers["Nats-Msg-Id"], message.data) for message in found]

        return asyncio.run(self._with_stream(look))

    async def _with_stream(self, ask):
        client = await nats.connect(self.server.url())
        try:
            return await ask(client.jetstream())
        finally:
            await client.close()


@pytest.fixture(params=[OfRabbitMQ, OfRedis, OfNats], ids=lambda kind: kind.name)
def broker(request, stream):
    return request.param(request.getfixturevalue(f"{request.param.name}_server"), stream)


@pytest.fixture
def jobs(tmp_path, broker):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        queue.put_many(queue.job("notify", b"%d" % number, to=broker.place) for number in range(JOBS))
        yield queue


@contextmanager
def shop(jobs, broker, via=None):
    """A worker in a process of its own."""
    places = {"SHOP_STORE": jobs.store.url, "SHOP_KIND": broker.name, "SHOP_BROKER": broker.url(via)}
    command = [sys.executable, "-m", "pywheel.cli", "work", "tests.outlets.shop:queue", "--no-live"]
    worker = subprocess.Popen(
        command, env={**os.environ, **places}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def done(jobs):
    return jobs.topics.counts()["notify"].done


def nothing_is_lost(broker, jobs):
    counts = jobs.topics.counts()["notify"]
    assert counts == (0, 0, JOBS, 0, 0), counts
    found = broker.messages()
    assert {int(body) for _, body in found} == set(range(JOBS))
    assert len(set(found)) == JOBS, "a repeat has another id"
    if broker.name != "rabbitmq":  # these drop repeats themselves
        assert len(found) == JOBS


def test_a_worker_is_killed_in_the_middle(broker, jobs):
    with shop(jobs, broker) as worker:
        until(lambda: done(jobs) > JOBS / 4)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    with shop(jobs, broker):
        until(lambda: done(jobs) == JOBS)
    nothing_is_lost(broker, jobs)


def test_the_broker_is_killed_in_the_middle_and_comes_back(broker, jobs):
    with shop(jobs, broker):
        until(lambda: done(jobs) > JOBS / 4)
        broker.server.kill()
        time.sleep(0.5)
        broker.server.start()
        until(lambda: done(jobs) == JOBS)
    nothing_is_lost(broker, jobs)


def test_the_network_is_cut_again_and_again_and_loses_answers(broker, jobs):
    with Proxy(broker.server, tcp=broker.name != "redis") as proxy, shop(jobs, broker, proxy):
        until(lambda: done(jobs) > JOBS / 10)
        for _ in range(3):
            proxy.cut_after(answers=500)
            time.sleep(0.2)
            proxy.cut_once()
        proxy.stall(requests=False)
        time.sleep(0.5)
        proxy.cut()
        time.sleep(0.5)
        proxy.heal()
        until(lambda: done(jobs) == JOBS)
    nothing_is_lost(broker, jobs)


def test_a_broker_that_does_not_answer_delays_no_other_topic(redis_server, nats_server, stream):
    with JobQueue("memory:") as jobs, Proxy(nats_server, tcp=True) as proxy:
        jobs.handler("slow", concurrency=50)(Outlet("nats")(nats_server.url(via=proxy), "nobody", timeout=3))
        jobs.handler("quick", concurrency=50)(Outlet("redis")(f"unix://{redis_server.socket}", stream))
        proxy.stall()
        with working(jobs):
            for topic in ("slow", "quick"):
                jobs.put_many(jobs.job(topic, b"") for _ in range(200))
            until(lambda: jobs.topics.counts()["quick"].done == 200)
            assert jobs.topics.counts()["slow"].done == 0
            proxy.cut()  # it need not wait on
