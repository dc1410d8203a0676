"""A queue that is closed under its worker."""

import pytest

from tests.isolated.child import run

pytestmark = pytest.mark.stress

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


def test_every_put_gets_a_result_or_closed_and_the_worker_ends_with_a_line_in_the_log(tmp_path):
    result = run("-c", CLOSE, f"sqlite:///{tmp_path}/jobs.db", "10")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "well\n"
    lines = result.stderr.splitlines()
    assert len(lines) == 10, result.stderr
    assert all(line.startswith("the worker ends: ") and "stop it before you close its queue" in line for line in lines)


WAITS = """
import logging, sys, threading
from pywheel import JobQueue, Worker

logging.basicConfig(level=logging.ERROR, format="%(message)s")
queue = JobQueue(sys.argv[1])
done = threading.Event()
queue.handler("t")(lambda job: done.set())
worker = Worker(queue, grace=1)
sleeping, wait = threading.Event(), worker._notifier.wait

def waiting(seconds):
    if done.is_set() and seconds > 0.1:
        sleeping.set()
    return wait(seconds)

worker._notifier.wait = waiting
worker.start()
queue.put("t", b"x")
assert done.wait(60)
assert sleeping.wait(60)
queue.close()
assert worker.join(60)
print("well")
"""


@pytest.mark.parametrize("end", ["", "worker.stop()"], ids=["as it is", "while it stops"])
def test_a_worker_that_waits_ends_too(tmp_path, end):
    result = run("-c", WAITS.replace("queue.close()", f"{end}\nqueue.close()"), f"sqlite:///{tmp_path}/jobs.db")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "well\n"
    if not end:
        [line] = result.stderr.splitlines()
        assert line.startswith("the worker ends: ")
    else:
        assert result.stderr == ""
