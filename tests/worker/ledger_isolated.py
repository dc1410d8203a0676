"""The isolated handler of the ledger test: its process imports this, and writes in the name of its worker."""

import os
import signal
import time

from tests.worker.ledger import Pen, length

WORKER = os.getppid()
pen = Pen(os.environ["LEDGER"], "isolated")


def handle(job):
    pen.started(job, pid=WORKER)
    how = job.json()["do"]
    if how == "exit":
        os._exit(1)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(length(job))
    pen.ended(job, pid=WORKER)
