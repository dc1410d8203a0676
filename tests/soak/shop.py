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


RETRY = Fixed(0.5, attempts=100)


@queue.handler("plain", ttr=20, retry=RETRY)
def plain(job):
    handled(job)


@queue.handler("async", concurrency=50, ttr=20, retry=RETRY)
async def coroutine(job):
    handled(job)


@queue.handler("result", ttr=20, retry=RETRY, results=True)
def result(job):
    return {"n": handled(job)}


@queue.handler("limited", ttr=20, retry=RETRY, limit=Limit(4, ":"))
def limited(job):
    handled(job)


@queue.handler("rated", ttr=20, retry=RETRY, rate="100/s")
def rated(job):
    handled(job)


@queue.handler("flaky", ttr=20, retry=RETRY)
def flaky(job):
    if job.attempt == 1:
        raise ValueError("at the first attempt")
    handled(job)


@queue.handler("isolated", concurrency=1, ttr=20, retry=RETRY, isolate=True, keep_lease=True)
def isolated(job):
    handled(job)


@queue.every("1s")
def second():
    tick()


@queue.cron("*/5 * * * * *", tz="Europe/Berlin")
def five():
    tick()
