"""``pywheel bridge``, as a process."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pywheel import JobQueue
from tests.jobs.waiting import until
from tests.outlets.amqp import amqp
from tests.outlets.kafka_mock import Mock

JOBS = 500


@pytest.fixture
def jobs(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        yield queue


@contextmanager
def bridge(*arguments, **environment):
    command = [sys.executable, "-m", "pywheel.cli", "bridge", *arguments]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def put(jobs):
    return jobs.topics.counts()["orders"].delayed if "orders" in jobs.topics.counts() else 0


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


def test_it_takes_messages_until_sigterm(rabbitmq_server, jobs, stream):
    arguments = ("rabbitmq", stream, "--exchange", f"{stream}.delayed", "--topic", "orders", "--store", jobs.store.url)
    with bridge(*arguments, PYWHEEL_BROKER=rabbitmq_server.url().replace("//", "//guest:guest@")) as process:
        said = process.stderr.readline()
        assert "guest:guest" not in said
        while "takes messages from" not in process.stderr.readline():
            pass
        publish(rabbitmq_server, f"{stream}.delayed")
        until(lambda: put(jobs) == JOBS)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 0, rest
        assert f"{JOBS} taken, 0 refused" in rest
    assert left(rabbitmq_server, stream) == 0


def test_killed_again_and_again_it_puts_each_message_once(rabbitmq_server, jobs, stream):
    async def declare():
        async with amqp(rabbitmq_server) as broker:
            return await broker.queue(stream, kind="fanout")

    queue = asyncio.run(declare())
    publish(rabbitmq_server, stream)
    arguments = ("rabbitmq", queue, "--topic", "orders", "--store", jobs.store.url, "--prefetch", "20")
    arguments = (*arguments, "--broker", rabbitmq_server.url())
    for part in (1, 2, 3):
        with bridge(*arguments):
            until(lambda part=part: put(jobs) > part * JOBS / 5)
    with bridge(*arguments):
        until(lambda: put(jobs) == JOBS and left(rabbitmq_server, queue) == 0)
    bodies = [job.body for job in jobs.jobs.list("orders", limit=JOBS + 10)]
    assert sorted(map(int, bodies)) == list(range(JOBS))


@pytest.mark.stress
def test_it_takes_records_of_a_mock_cluster(jobs):
    mock = Mock()
    mock.produce("delayed", b"x", headers=[("pywheel-delay", b"1h")])
    arguments = ("delayed", "--servers", mock.servers, "--topic", "orders", "--to", "orders", "--store", jobs.store.url)
    with bridge("kafka", *arguments) as process:
        until(lambda: put(jobs) == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rabbitmq", "q", "--topic", "t", "--broker", "http://guest:secret@x"], "is written like amqp:"),
        (["rabbitmq", "q"], "--topic"),
        (["kafka", "t", "--topic", "", "--servers", "x"], "topic"),
    ],
)
def test_arguments_that_make_no_sense_are_said(call, arguments, said):
    code, _, err = call("bridge", *arguments)
    assert code == 2
    assert said in err
    assert "secret" not in err
