"""A queue that is closed under its worker."""

import threading

import pytest

from pywheel import Worker
from tests.isolated.child import run

CLOSE = """
import faulthandler, logging, sys, threading, time
from pywheel import JobQueue, StoreClosed, Worker

PUTTERS, ROUNDS = 4, int(sys.argv[2])
faulthandler.dump_traceback_later(100, exit=True)
logging.basicConfig(level=logging.ERROR, format="%(message)s")
told, wrong, ran = [], [], []

def put(queue):
    try:
        while True:
            told.append(queue.put("t", b"x"))
    except StoreClosed:
        pass
    except BaseException as error:
        wrong.append(repr(error))

threading.excepthook = lambda args: wrong.append(repr(args.exc_value))
for _ in range(ROUNDS):
    queue = JobQueue(sys.argv[1])

    @queue.handler("t", concurrency=4)
    def handle(job):
        ran.append(job.id)
        time.sleep(0.001)

    worker = Worker(queue, grace=1)
    worker.start()
    threads = [threading.Thread(target=put, args=(queue,)) for _ in range(PUTTERS)]
    put_before, ran_before = len(told), len(ran)
    for thread in threads:
        thread.start()
    while len(told) < put_before + 20 or len(ran) < ran_before + 10:
        time.sleep(0.001)
    queue.close()
    for thread in threads:
        thread.join()
    assert worker.join(60)
    worker.stop()
    worker.stop()
assert not wrong, wrong[:3]
with JobQueue(sys.argv[1]) as queue:
    assert sum(queue.topics.counts()["t"]) == len(told) == len(set(told)), (queue.topics.counts(), len(told))
    assert set(ran) <= set(told)
print("well")
"""


@pytest.mark.stress
def test_every_put_gets_a_result_or_closed_and_the_worker_ends_with_a_line_in_the_log(tmp_path):
    result = run("-c", CLOSE, f"sqlite:///{tmp_path}/jobs.db", "10")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "well\n"
    lines = result.stderr.splitlines()
    assert len(lines) == 10, result.stderr
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
