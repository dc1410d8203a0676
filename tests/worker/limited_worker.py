"""A worker process for tests of limits: notes each start and end of a handler.

usage: limited_worker.py URL LEDGER LIMIT
"""

import sys
import time

from pywheel import Fixed, JobQueue, Worker
from tests.worker.ledger import Pen

url, path, limit = sys.argv[1:]
pen = Pen(path, "worker")
queue = JobQueue(url)


@queue.handler("t", concurrency=4, ttr="600ms", retry=Fixed("1ms", attempts=1000), limit=int(limit))
def handle(job):
    pen.note("start", id=job.id, claims=job.claims, until=job.lease_until)
    time.sleep(0.02)
    pen.note("end", id=job.id, claims=job.claims)


Worker(queue, grace=5).run()
