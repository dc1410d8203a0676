"""A producer process for crash tests: puts and cancels, and notes what the store has confirmed.

usage: crash_producer.py URL LEDGER COUNT SEED
"""

import os
import random
import sys

from pywheel import JobQueue

url, ledger, count, seed = sys.argv[1:]
file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
draw = random.Random(int(seed))
queue = JobQueue(url)
for _ in range(int(count)):
    id = queue.put("t", b"x", delay=draw.choice([0, 0.01, 0.2, 1]))
    os.write(file, f"put {id}\n".encode())
    if draw.random() < 0.1:
        late = queue.put("t", b"x", delay="3s")
        os.write(file, f"put {late}\n".encode())
        if queue.cancel(late):
            os.write(file, f"cancelled {late}\n".encode())
os.write(file, b"over 0\n")
