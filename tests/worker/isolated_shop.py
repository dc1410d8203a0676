"""A program with isolated handlers, as `isolated_shop` of its folder: a job's body says what it does.

Its folder comes from the environment. SHOP_MARGIN is how many ms a lease is longer than its ttr: the time that a busy
machine may take to report a killed handler to the store. While there is a file `gate`, the program is not imported.
"""

import asyncio
import functools
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from pywheel import BadBody, Fixed, GiveUp, JobExists, JobQueue, NotNow, RetryLater
from pywheel.jobs.handler import current_job
from tests.worker.noted import noting

folder = Path(os.environ["SHOP_FOLDER"])
while (folder / "gate").exists():
    time.sleep(0.01)

note = noting(folder / "ledger")
note("import", os.getpid())
queue = JobQueue(f"sqlite:///{folder}/jobs.db")


class Odd(Exception):
    """An error that pickle cannot carry."""

    def __init__(self, one, two):
        super().__init__(f"odd {one} {two}")
        self.lock = sys.stdout


class Soon(RetryLater):
    """A kind of RetryLater with a constructor of its own."""

    def __init__(self):
        super().__init__("1h", "soon")


class Never(GiveUp):
    """A kind of GiveUp."""


def fork_and_die():
    if os.fork() == 0:  # an heir, who holds all that its parent held
        time.sleep(60)
        os._exit(0)
    os._exit(9)


def nap_and_fail():
    time.sleep(0.3)
    raise ValueError("wrong")


def fork_and_return():
    if os.fork() == 0:
        time.sleep(0.1)  # returns while the next job runs


def shell_out():
    process = subprocess.Popen(["sleep", "600"])
    note("shell", process.pid)
    process.wait()


def raising(error):
    raise error


DEEDS = {
    "nothing": lambda: None,
    "exit": lambda: os._exit(7),
    "sys.exit": lambda: sys.exit("enough"),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "heir": fork_and_die,
    "nap and fail": nap_and_fail,
    "fork": fork_and_return,
    "shell": shell_out,
    "sleep": lambda: time.sleep(600),
    "nap": lambda: time.sleep(2),
    "greedy": lambda: re.match(r"(a+)+$", "a" * 64 + "b"),  # holds the interpreter's lock for longer than anybody waits
    "give up": lambda: raising(GiveUp("no use")),
    "never": lambda: raising(Never("no use")),
    "later": lambda: raising(RetryLater("1h", "busy")),
    "soon": lambda: raising(Soon()),
    "not now": lambda: raising(NotNow("1h")),
    "odd": lambda: raising(Odd(1, 2)),
    "bad body": lambda: raising(BadBody("no JSON")),
    "exists": lambda: raising(JobExists("taken", 5)),
    "value": lambda: raising(ValueError("wrong")),
    "stdin": lambda: note("stdin", repr(sys.stdin.read())),
    "daemon": lambda: __import__("multiprocessing").get_context("spawn").Process(target=print).start(),
    "own key": lambda: note("put", queue.put(current_job.get().topic, {"deed": "nothing"}, key=current_job.get().key)),
    "log": lambda: logging.getLogger("shop").info("said in a child"),
    "twice": lambda: os.kill(os.getpid(), signal.SIGTERM),
}


def do(job):
    deed = job.json()["deed"]
    note("start", job.id, os.getpid(), os.getppid(), current_job.get().id)
    DEEDS[deed]()


TWICE = {"concurrency": 2, "retry": Fixed("1ms", attempts=2)}
queue.handler("t", ttr="20s", isolate=True, **TWICE)(do)
queue.handler("short", ttr="1s", isolate=True, **TWICE)(do)
queue.handler("kept", ttr="1s", keep_lease=True, isolate=True)(do)
queue.handler("one", concurrency=1, ttr="20s", retry=Fixed("1ms", attempts=1), isolate=True)(do)


def unless_odd(job, error):
    note("asked", job.id, os.getpid(), type(error).__name__)
    return None if isinstance(error, Odd) else "1ms"


queue.handler("asks", ttr="300ms", retry=unless_odd, isolate=True)(do)


@queue.handler("beside", concurrency=2)
def beside(job):
    note("beside", job.id, os.getpid())


@queue.handler("async", concurrency=2, isolate=True, retry=Fixed("1ms", attempts=1))
async def coroutine(job):
    await asyncio.sleep(0)
    note("loop", id(asyncio.get_running_loop()), os.getpid(), current_job.get().id)
    do(job)


def logged(function):
    @functools.wraps(function)
    def wrapper(job):
        note("logged", job.id)
        return function(job)

    return wrapper


@queue.handler("inside", isolate=True)
@logged
def decorated(job):
    do(job)


@logged
@queue.handler("outside", isolate=True)
def decorated_later(job):
    do(job)


def works():
    from pywheel import Worker
    from pywheel.worker import leases, topic_state

    if margin := int(os.environ.get("SHOP_MARGIN", "0")):
        leases.lease_margin = topic_state.lease_margin = lambda *_: margin
    logging.basicConfig(level=logging.INFO)
    Worker(queue, grace=float(os.environ.get("GRACE", "30"))).run()


if __name__ == "__main__":
    works()
