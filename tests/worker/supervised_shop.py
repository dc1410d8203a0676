"""A program for a supervisor. Its folder comes from the environment; a job's body says what it does."""

import os
import re
import signal
import time
from pathlib import Path

from pywheel import Fixed, JobQueue
from pywheel.events import WorkerDrains, WorkerStarted
from tests.worker.noted import noting

folder = Path(os.environ["SHOP_FOLDER"])
note = noting(folder / "ledger")
note("import", os.getpid())
VERSION = (folder / "version").read_text() if (folder / "version").exists() else "1"
if VERSION == "crashing":
    os.kill(os.getpid(), signal.SIGKILL)

queue = JobQueue(f"sqlite:///{folder}/jobs.db")
queue.events.listen(lambda event: isinstance(event, WorkerStarted) and note("began", time.time()))
queue.events.listen(lambda event: isinstance(event, WorkerDrains) and note("drains", os.getpid()))


@queue.handler("t", concurrency=2, ttr="10m", retry=Fixed("1ms", attempts=50))
def handle(job):
    note("start", job.id, os.getpid(), VERSION)
    if job.body == b"slow":
        time.sleep(0.2)
    if job.body == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)


@queue.handler("steady", concurrency=1, ttr="10m")
def steady(job):
    note("start", job.id, os.getpid(), VERSION)
    while not (folder / "go").exists():
        time.sleep(0.01)
    note("end", job.id)


@queue.handler("freeze", concurrency=1, ttr="1s", retry=Fixed("1ms", attempts=3))
def freeze(job):
    """Stop the dispatcher, and leave the process alive."""
    note("start", job.id, os.getpid(), VERSION)
    if job.attempt == 1 and job.body == b"stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif job.attempt == 1:
        re.match(r"(a+)+$", "a" * 64 + "b")  # holds the interpreter's lock for longer than anybody waits


@queue.handler("alone", concurrency=1, isolate=True, ttr="10m")
def alone(job):
    note("start", job.id, os.getpid(), VERSION)
    while not (folder / "go").exists():
        time.sleep(0.01)
