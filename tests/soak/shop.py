"""The program of the soak: a handler of each kind, which reports each job and its lateness to the conductor."""

import os
import socket
import time

from pywheel import Fixed, JobQueue, Limit
from tests.soak.wire import LINE, TICK

__all__ = ["queue"]

queue = JobQueue(os.environ["SOAK_STORE"])
_teller = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_teller.connect(os.environ["SOAK_EAR"])


def handled(job):
    """Tell that a handler returns; return the number of the job."""
    number = job.json()["n"]
    late = time.time() * 1000 - job.due if job.attempt == 1 else -1
    _teller.send(LINE.pack(number, late))
    return number


def tick():
    _teller.send(LINE.pack(TICK, -1))


POLICY = {"ttr": 20, "retry": Fixed(0.5, attempts=100)}
queue.handler("plain", **POLICY)(handled)
queue.handler("limited", limit=Limit(4, ":"), **POLICY)(handled)
queue.handler("rated", rate="100/s", **POLICY)(handled)
queue.handler("isolated", concurrency=1, isolate=True, keep_lease=True, **POLICY)(handled)


@queue.handler("async", concurrency=50, **POLICY)
async def coroutine(job):
    handled(job)


@queue.handler("result", results=True, **POLICY)
def result(job):
    return {"n": handled(job)}


@queue.handler("flaky", **POLICY)
def flaky(job):
    if job.attempt == 1:
        raise ValueError("at the first attempt")
    handled(job)


@queue.every("1s")
def second():
    tick()


@queue.cron("*/5 * * * * *", tz="Europe/Berlin")
def five():
    tick()
