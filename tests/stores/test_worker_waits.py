"""A worker whose server is away waits between its tries."""

import time

from pywheel import JobQueue
from pywheel.events import StoreFailed
from pywheel.jobs.queries import ListWorkers
from tests.jobs.waiting import until, working


def test_a_worker_whose_server_refuses_it_tries_a_few_times_a_second(server):
    events = []
    with JobQueue(server.url(), listeners=[events.append]) as queue:
        queue.handler("t")(print)
        with working(queue):
            until(lambda: queue.store.ask(ListWorkers()))
            server.stop()
            try:
                until(lambda: failures(events))
                began, before = time.monotonic(), failures(events)
                until(lambda: time.monotonic() > began + 2 and failures(events) > before)
                tries, seconds = failures(events) - before, time.monotonic() - began
            finally:
                server.start()
            until(lambda: queue.store.ask(ListWorkers()))
    assert tries <= 40 * seconds


def failures(events):
    return sum(isinstance(event, StoreFailed) for event in events)
