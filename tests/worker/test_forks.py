"""A handler that forks: what returns or raises in the child ends the child, and is no second worker."""

import os

import pytest

from tests.isolated.child import run

pytestmark = [pytest.mark.stress, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")]

PROGRAM = """
import asyncio, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # Python warns of forks beside threads: that is what is tried here
from pywheel import AsyncWorker, Fixed, JobQueue, Worker

def ended(pid):
    "Return the exit code of a child, which is killed if it goes on."
    for _ in range(1_000):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def leave(how):
    if how == "raises":
        raise ValueError("in the child")
    if how == "exits":
        sys.exit(3)
    if how == "exits with text":
        sys.exit("enough")
    return "the child's"

queue = JobQueue("memory:")

def handler(topic):
    return queue.handler(topic, results=True, retry=Fixed("1ms", attempts=1))

@handler("thread")
def thread(job):
    pid = os.fork()
    return ended(pid) if pid else leave(job.json())

@handler("returns a coroutine")
def lazy(job):
    pid = os.fork()
    return ended(pid) if pid else asyncio.sleep(0)

@handler("coroutine")
async def coroutine(job):
    await asyncio.sleep(0)
    pid = os.fork()
    if pid:
        return await asyncio.to_thread(ended, pid)
    if job.json() == "awaits":
        await asyncio.get_event_loop_policy().get_event_loop().create_future()
    if job.json() == "yields":
        await asyncio.sleep(0)
    return leave(job.json())

@handler("neighbour")
async def neighbour(job):
    for _ in range(200):
        await asyncio.sleep(0)
    os.write(1, f"neighbour in {'the worker' if os.getpid() == HERE else 'a child'}\\n".encode())

HERE = os.getpid()
"""

ENDS = """
worker = Worker(queue)
worker.start()
for how in ("returns", "raises", "exits", "exits with text"):
    for topic in ("thread", "coroutine"):
        print(topic, how, queue.wait(queue.put(topic, how), timeout=30).json())
print("lazy", queue.wait(queue.put("returns a coroutine"), timeout=30).json())
worker.stop()
worker.join()
"""

BESIDE = """
worker = Worker(queue)
ids = [queue.put("neighbour") for _ in range(3)] + [queue.put("coroutine", how) for how in ("yields", "awaits")]
ids += [queue.put("neighbour") for _ in range(3)]
worker.start()
print([queue.wait(id, timeout=30).json() for id in ids])
worker.stop()
worker.join()
"""


def test_a_forked_child_ends_where_its_handler_does():
    ended = run("-c", PROGRAM + ENDS)
    assert ended.stdout.splitlines() == [
        *("thread returns 0", "coroutine returns 0"),
        *("thread raises 1", "coroutine raises 1"),
        *("thread exits 3", "coroutine exits 3"),
        *("thread exits with text 1", "coroutine exits with text 1"),
        "lazy 0",
    ]
    assert ended.stderr.count("ValueError: in the child") == 2
    assert ended.stderr.count("enough") == 2


def test_coroutines_beside_one_that_forks_go_on_in_the_worker_alone():
    ended = run("-c", PROGRAM + BESIDE)
    *said, results = ended.stdout.splitlines()
    assert said == ["neighbour in the worker"] * 6
    assert results == "[None, None, None, 1, 1, None, None, None]", ended.stderr


def test_a_child_that_others_fork_may_drop_the_coroutines_of_the_worker():
    code = """
import gc
worker = Worker(queue)
id = queue.put("endless")
worker.start()
BEGUN.wait(60)
pid = os.fork()
if pid == 0:
    del worker, endless
    queue.handlers.clear()
    gc.collect()
    asyncio.tasks._all_tasks.clear()
    gc.collect()
    os._exit(5)
print(ended(pid))
worker.stop()
END.set()
worker.join()
print(queue.get(id).state)
"""
    endless = """
BEGUN, END = threading.Event(), threading.Event()

@queue.handler("endless")
async def endless(job):
    BEGUN.set()
    while not END.is_set():
        await asyncio.sleep(0.01)
"""
    assert run("-c", PROGRAM + endless + code).stdout == "5\ndone\n"


ON_THE_PROGRAMS_LOOP = """
async def beside(end):
    while not end.is_set():
        await asyncio.sleep(0)
        if os.getpid() != HERE:
            os.write(1, b"the program goes on in a child\\n")

async def main():
    end = asyncio.Event()
    running = asyncio.create_task(beside(end))
    async with AsyncWorker(queue.aio):
        for how in ("returns", "yields", "awaits"):
            print((await queue.aio.wait(await queue.aio.put("coroutine", how), timeout=60)).json())
    end.set()
    await running
    pid = os.fork()  # the program's own affair
    if pid == 0:
        await asyncio.sleep(0)
        os._exit(5)
    print(ended(pid))

asyncio.run(main())
"""


def test_a_child_that_a_handler_on_the_programs_loop_forks_runs_nothing_of_the_program():
    assert run("-c", PROGRAM + ON_THE_PROGRAMS_LOOP).stdout == "0\n1\n1\n5\n"
