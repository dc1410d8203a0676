"""A worker whose server is away waits between its tries."""

import time

from pywheel import JobQueue, Worker
from pywheel.events import StoreFailed
from pywheel.jobs.queries import ListWorkers
from tests.jobs.waiting import until


def test_a_worker_whose_server_refuses_it_tries_a_few_times_a_second(server):
    failures = []
    queue = JobQueue(server.url(), listeners=[lambda event: isinstance(event, StoreFailed) and failures.append(event)])
    queue.handler("t")(print)
    worker = Worker(queue)
    worker.start()
    until(lambda: queue.store.ask(ListWorkers()))
    server.stop()
    try:
        until(lambda: failures)
        began, before = time.monotonic(), len(failures)
        until(lambda: time.monotonic() > began + 2 and len(failures) > before)
        tries, seconds = len(failures) - before, time.monotonic() - began
    finally:
        server.start()
    until(lambda: queue.store.ask(ListWorkers()))
    worker.stop()
    assert worker.join(60)
    queue.store.close()
    assert tries <= 40 * seconds
