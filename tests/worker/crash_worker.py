"""A worker process for crash tests: notes each start of a handler, and does what the body says.

Whoever is held goes on once there is a file LEDGER.go.

usage: crash_worker.py URL LEDGER
"""

import os
import signal
import sys
import time
from pathlib import Path

from pywheel import Fixed, JobQueue, Worker
from pywheel.events import WorkerDrains

url, ledger = sys.argv[1:]
file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
queue = JobQueue(url)


def note(word, job):
    os.write(file, f"{word} {job.id} {job.attempt} {int(time.time() * 1000) - job.due} {os.getpid()}\n".encode())


def held():
    while not Path(f"{ledger}.go").exists():
        time.sleep(0.01)


@queue.handler("t", concurrency=4, ttr="400ms", retry=Fixed("1ms", attempts=1000))
def handle(job):
    note("start", job)
    if job.body == b"stopped" and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        held()


@queue.handler("poison", concurrency=1, ttr="400ms", retry=Fixed("1ms", attempts=3))
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
    held()


queue.events.listen(lambda event: isinstance(event, WorkerDrains) and os.write(file, b"drains\n"))
Worker(queue, grace=float(os.environ.get("GRACE", "30"))).run()
os.write(file, b"stopped\n")
