"""A worker process with a periodic job: notes each tick that runs.

usage: periodic_worker.py URL LEDGER
"""

import os
import sys

from pywheel import JobQueue, Worker

url, ledger = sys.argv[1:]
file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
queue = JobQueue(url)


@queue.every("1s", name="beat", overlap="overlap", catch_up="all", ttr="1s")
def beat(job):
    os.write(file, f"tick {job.id} {job.headers['pywheel-tick']} {os.getpid()}\n".encode())


Worker(queue).run()
