"""The spool in front of real servers, which are killed, stopped and cut off."""

import contextlib
import itertools
import re
import threading
import time

import pytest

from pywheel import JobQueue, PywheelError, StoreAway
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter
from tests.client.spool.spooled import forwarded
from tests.jobs.waiting import until
from tests.stores.network import Proxy


@pytest.fixture
def server(postgres_server):
    yield postgres_server
    postgres_server.resume() if postgres_server.running else postgres_server.start()


def bodies(queue, topic="t"):
    return [job.json() for job in queue.store.ask(ListJobs(Filter(topic), 0, 100_000))]


def patient(url):
    """Return a queue on this store that waits for its server for minutes."""
    return JobQueue(re.sub(r"timeout=\d+s", "timeout=5m", url))


def test_a_server_that_is_killed_all_the_time_gets_each_put_once(server, spool):
    url = server.url(timeout="5s")
    with JobQueue(url, spool=spool) as queue:
        told, over = {"a": [], "b": []}, threading.Event()

        def produce(topic):
            for number in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
                with contextlib.suppress(PywheelError):  # then it was not put
                    queue.put(topic, number, key=f"k{number}" if topic == "b" else None)
                    told[topic].append(number)

        producers = [threading.Thread(target=produce, args=(topic,)) for topic in told]
        for producer in producers:
            producer.start()
        try:
            for _ in range(3):
                before = len(told["a"])
                until(lambda before=before: len(told["a"]) > before + 20)
                server.kill()
                until(lambda: queue.store._spool.waiting())
                server.start()
                until(lambda: queue.store._breaker.away is None)
        finally:
            over.set()
            for producer in producers:
                producer.join()
        until(lambda: forwarded(queue))
        with patient(url) as reader:
            for topic, numbers in told.items():
                found = bodies(reader, topic)
                assert len(found) == len(set(found))
                assert set(numbers) <= set(found)
        assert queue.store._spool.counts().dead == 0
        assert queue.store._spool.counts().done > 0


def test_a_queue_is_made_and_takes_puts_while_its_server_is_down(server, spool):
    url = server.url(timeout="5s")
    JobQueue(url).close()
    server.stop()
    with JobQueue(url, spool=spool) as queue:
        ids = [queue.put("t", n, delay="1h") for n in range(3)]
        assert ids == [-1, -2, -3]
        with pytest.raises(StoreAway):
            queue.topics.counts()
        server.start()
        until(lambda: forwarded(queue))
        assert bodies(queue) == [0, 1, 2]
        assert queue.cancel(ids[0])
        assert queue.put("t", 3) > 0


def test_one_put_at_most_waits_for_a_server_that_does_not_answer(server, spool):
    url = server.url(timeout="1s")
    with JobQueue(url, spool=spool) as queue, patient(url) as reader:
        queue.put("t", 0, key="k")
        server.pause()
        began = time.monotonic()
        ids = [queue.put("t", n) for n in range(1, 200)]
        took = time.monotonic() - began
        assert all(id < 0 for id in ids)
        print(f"{took:.1f} s for 199 puts, with a limit of 1 s")
        server.resume()
        until(lambda: forwarded(queue))
        assert sorted(bodies(reader)) == list(range(200))


def test_an_answer_that_is_cut_off_anywhere_makes_no_second_job(server, spool):
    with Proxy(server) as proxy, JobQueue(server.url(via=proxy, timeout="2s"), spool=spool) as queue:
        for number in range(40):
            proxy.cut_after(**{"answers" if number % 2 else "requests": 1 + 7 * number})
            queue.put("t", number, key=f"k{number}" if number % 3 else None)
        proxy.heal()
        until(lambda: forwarded(queue))
        assert sorted(bodies(queue)) == list(range(40))
