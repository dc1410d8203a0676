"""A producer of jobs of every kind, some hundred a second, until it is stopped; then it prints the confirmed ones.

usage: producer.py RATE SECONDS
"""

import random
import sys
import threading
import time
from itertools import count

from tests.soak.shop import queue

rate, seconds = map(float, sys.argv[1:])
PLAIN = 6  # jobs of a batch, and four more of other kinds
BATCH = PLAIN + 4
draw = random.Random(1)
numbers = count(1)
cancelled, over = [], threading.Event()


def body():
    return {"n": next(numbers), "text": "x" * draw.randrange(200)}


def batch():
    """Put ten jobs at once; return the id of the one that has a result."""
    later = draw.choice([0, 0, 0.3, 3])
    jobs = [queue.job("plain", body(), delay=later, priority=draw.choice([0, 0, 0, 5, -5])) for _ in range(PLAIN)]
    jobs += [
        queue.job("async", body(), delay=draw.uniform(0, 20)),
        queue.job("limited", body(), key=f"{draw.randrange(20)}:{next(keys)}"),
        queue.job(draw.choice(["flaky", "rated"]), body()),
        queue.job("result", body()),
    ]
    return queue.put_many(jobs)[-1]


def second(last):
    """Once a second: a change of mind, an isolated job, and somebody who waits for a result."""
    number = next(numbers)
    if queue.cancel(queue.put("plain", {"n": number}, delay=60)):
        cancelled.append(number)
    id = queue.put("plain", {"n": 0}, key="moved", delay=30, replace=True)
    queue.put("plain", {"n": 0}, key="moved", delay=1, replace=True)
    queue.jobs.edit(id, delay=2)
    queue.put("isolated", body())
    assert queue.wait(last, timeout=60).state == "done"


def seconds_pass():
    while not over.wait(1):
        second(put_last[0])


keys = count(1)
put_last = [batch()]
aside = threading.Thread(target=seconds_pass)
aside.start()
begin, done = time.monotonic(), 0
while (now := time.monotonic()) < begin + seconds:
    if done * BATCH < (now - begin) * rate:
        put_last[0] = batch()
        done += 1
    else:
        time.sleep(BATCH / rate / 2)
over.set()
aside.join()
print(next(numbers) - 1, *cancelled)
