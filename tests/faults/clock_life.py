"""A program that works and puts on a host whose clock is set. It reports the jobs that ran.

usage: clock_life.py URL

Each line that it reads is the delay of a job in seconds, and its answer is the job's id.
"""

import sys

from pywheel import Fixed, JobQueue, Worker

queue = JobQueue(sys.argv[1])
queue.handler("t", ttr=30, retry=Fixed(0))(lambda job: None)
worker = Worker(queue, keep=None)
worker.start()
for line in sys.stdin:
    print(queue.put("t", delay=float(line)), flush=True)
worker.stop()
worker.join()
queue.close()
