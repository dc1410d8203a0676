"""A queue that is closed under its worker."""

import contextlib
import logging
import threading
import time

import pytest

from pywheel import JobQueue, StoreClosed, Worker
from tests.jobs.waiting import until

PUTTERS, ROUNDS = 4, 10


@pytest.mark.stress
def test_every_put_gets_a_result_or_closed_and_the_worker_ends_with_a_line_in_the_log(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/jobs.db"
    told, ran = [], []

    def handle(job):
        ran.append(job.id)
        time.sleep(0.001)

    def put(queue):
        with contextlib.suppress(StoreClosed):
            while True:
                told.append(queue.put("t", b"x"))

    for _ in range(ROUNDS):
        queue = JobQueue(url)
        queue.handler("t", concurrency=4)(handle)
        worker = Worker(queue, grace=1)
        worker.start()
        threads = [threading.Thread(target=put, args=(queue,)) for _ in range(PUTTERS)]
        puts, runs = len(told) + 20, len(ran) + 10
        for thread in threads:
            thread.start()
        until(lambda: len(told) >= puts and len(ran) >= runs)  # noqa: B023
        queue.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert worker.join(60)
        worker.stop()
        worker.stop()
    with JobQueue(url) as queue:
        assert sum(queue.topics.counts()["t"]) == len(told) == len(set(told))
    assert set(ran) <= set(told)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == ROUNDS
    assert all(line.startswith("the worker ends: ") and "stop it before you close its queue" in line for line in lines)


@pytest.mark.parametrize("stops", [False, True])
def test_a_worker_that_waits_ends_too(live_queue, monkeypatch, caplog, stops):
    done, sleeping = threading.Event(), threading.Event()
    live_queue.handler("t")(lambda job: done.set())
    worker = Worker(live_queue, grace=1)
    wait = worker._notifier.wait

    def waiting(seconds):
        if done.is_set() and seconds > 0.1:
            sleeping.set()
        return wait(seconds)

    monkeypatch.setattr(worker._notifier, "wait", waiting)
    worker.start()
    live_queue.put("t")
    assert done.wait(60)
    assert sleeping.wait(60)
    if stops:
        worker.stop()
    live_queue.close()
    assert worker.join(60)
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert said == ([] if stops else ["the worker ends"])
