"""A worker process whose handler goes on until there is a file LEDGER.go; it notes what happens.

usage: crash_worker.py URL LEDGER GRACE
"""

import os
import sys
import time
from pathlib import Path

from pywheel import JobQueue, Worker
from pywheel.events import WorkerDrains

url, ledger, grace = sys.argv[1:]
file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
queue = JobQueue(url)


@queue.handler("t", concurrency=1, ttr="1h")
def handle(job):
    os.write(file, f"start {job.id}\n".encode())
    while not Path(f"{ledger}.go").exists():
        time.sleep(0.01)


queue.events.listen(lambda event: isinstance(event, WorkerDrains) and os.write(file, b"drains\n"))
Worker(queue, grace=float(grace)).run()
os.write(file, b"stopped\n")
