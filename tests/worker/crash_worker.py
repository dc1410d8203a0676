"""A worker process for crash tests: notes each start of a handler, and does what the body says.

usage: crash_worker.py URL LEDGER [TTR]
"""

import os
import signal
import sys
import time

from pywheel import Fixed, JobQueue, Worker

url, ledger, *rest = sys.argv[1:]
ttr = rest[0] if rest else "400ms"
file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
queue = JobQueue(url)


def note(word, job):
    os.write(file, f"{word} {job.id} {job.attempt} {int(time.time() * 1000) - job.due} {os.getpid()}\n".encode())


@queue.handler("t", concurrency=4, ttr=ttr, retry=Fixed("1ms", attempts=1000))
def handle(job):
    note("start", job)
    if job.body == b"slow":
        time.sleep(0.3)


@queue.handler("poison", concurrency=1, ttr=ttr, retry=Fixed("1ms", attempts=3))
def poison(job):
    note("start", job)
    os.kill(os.getpid(), signal.SIGKILL)


@queue.handler("hang", concurrency=1, ttr="1h")
def hang(job):
    note("start", job)
    time.sleep(3600)


@queue.handler("steady", concurrency=1, ttr="1h")
def steady(job):
    note("start", job)
    time.sleep(0.5)
    note("end", job)


os.write(file, b"ready 0 0 0 0\n")
Worker(queue, grace=float(os.environ.get("GRACE", "30"))).run()
os.write(file, b"stopped 0 0 0 0\n")
