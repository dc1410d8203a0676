"""Workers and brokers are killed, and networks cut, while jobs are delivered: nothing is lost, and repeats say so."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from pywheel import JobQueue
from pywheel.outlets import kind as Outlet  # noqa: N812  (it returns a class)
from tests.jobs.waiting import until, working
from tests.stores.network import Proxy

pytestmark = pytest.mark.servers
JOBS = 1_000


@pytest.fixture
def jobs(tmp_path, broker):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        queue.put_many(queue.job("notify", b"%d" % number, to=broker.name) for number in range(JOBS))
        yield queue


@contextmanager
def shop(jobs, broker, via):
    """A worker in a process of its own."""
    places = {"SHOP_STORE": jobs.store.url, "SHOP_KIND": broker.kind, "SHOP_BROKER": broker.url(via)}
    command = [sys.executable, "-m", "pywheel.cli", "work", "tests.outlets.shop:queue"]
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
    found = asyncio.run(broker.messages())
    assert {int(body) for _, body in found} == set(range(JOBS))
    assert len(set(found)) == JOBS, "a repeat has another id"
    assert len(found) == JOBS or not broker.drops_repeats


@pytest.mark.drawn(1)
def test_a_worker_the_broker_and_the_network_fail_in_the_middle(broker, jobs):
    """The worker and the broker are killed; the network is cut again and again, and loses answers."""
    with Proxy(broker.server, tcp=broker.kind != "redis") as proxy:
        with shop(jobs, broker, proxy) as worker:
            until(lambda: done(jobs) > JOBS / 5)
            worker.kill()
            worker.wait()
        with shop(jobs, broker, proxy):
            until(lambda: done(jobs) > JOBS * 2 / 5)
            broker.server.kill()
            time.sleep(0.5)
            broker.server.start()
            until(lambda: done(jobs) > JOBS * 3 / 5)
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
