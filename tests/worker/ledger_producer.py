"""A producer process for the ledger test: it notes its requests, and the answers once the calls have returned.

usage: ledger_producer.py URL LEDGER NAME SEED TOPIC...

SIGTERM ends it; at SIGUSR1 it forks, and the child lingers with all that it inherited.
"""

import os
import random
import signal
import sys
import time
from collections import deque

from pywheel import JobExists, JobQueue, StoreError
from tests.worker.ledger import LIMITED, Pen, opened

url, path, name, seed, *topics = sys.argv[1:]
pen = Pen(path, name)
queue = JobQueue(opened(url))
draw = random.Random(int(seed))
serial = 0
own = deque(maxlen=40)  # ids put of late
going, forks = True, False
WAYS = ["quick"] * 80 + ["part"] * 8 + ["most"] * 4 + ["hang"] * 2 + ["raise"] * 6


def told_to_go(*_):
    global going
    going = False


def told_to_fork(*_):
    global forks
    forks = True


signal.signal(signal.SIGTERM, told_to_go)
signal.signal(signal.SIGUSR1, told_to_fork)


def body():
    global serial
    serial += 1
    return {"by": name, "n": serial, "do": draw.choice(WAYS)}


def new(*, keyed=False):
    topic, job, delay = draw.choice(topics), body(), draw.choice([0, 0, 0, 0.01, 0.2, 1, draw.uniform(0, 3)])
    if topic == "hand":  # one at a time
        job["do"] = "quick"
    if topic == LIMITED and not keyed:
        return topic, job, {"delay": delay, "key": f"group{draw.randrange(2)}:{name}-{serial}"}
    return topic, job, {"delay": delay}


def asked(what, call, **facts):
    """Ask the store, between two notes; return what it says, None after an error."""
    asked_at = time.time() * 1000
    pen.note("ask", what=what, n=serial, at=asked_at, **facts)
    try:
        outcome = call()
    except JobExists:
        pen.note("refused", what=what, n=serial)
        return None
    except StoreError as error:
        pen.note("error", what=what, n=serial, error=repr(error))
        return None
    pen.note("told", what=what, n=serial, at=asked_at, outcome=outcome, **facts)
    return outcome


def put():
    topic, job, options = new()
    id = asked("put", lambda: queue.put(topic, job, **options), jobs=[[job["n"], options["delay"]]])
    if id is not None:
        own.append(id)


def put_many():
    several = [new() for _ in range(draw.randint(2, 12))]
    jobs = [queue.job(topic, job, **options) for topic, job, options in several]
    numbers = [[job["n"], options["delay"]] for _, job, options in several]
    ids = asked("put", lambda: queue.put_many(jobs), jobs=numbers)
    own.extend(ids or ())


def put_with_key():
    topic, job, options = new(keyed=True)
    key, replace = f"{name}-{draw.randrange(4)}", draw.random() < 0.5
    call = lambda: queue.put(topic, job, key=key, replace=replace, **options)  # noqa: E731
    id = asked("put", call, jobs=[[job["n"], options["delay"]]], key=[topic, key], replace=replace)
    if id is not None and id not in own:
        own.append(id)


def cancel():
    if own:
        id = draw.choice(own)
        asked("cancel", lambda: bool(queue.cancel(id)), id=id)


def reschedule():
    if own:
        id, delay = draw.choice(own), draw.uniform(0, 2)
        asked("reschedule", lambda: bool(queue.reschedule(id, delay)), id=id, delay=delay)


def edit():
    """Give a job that may wait another body and due time: as a put that replaces it."""
    if own:
        id, job, delay = draw.choice(own), body() | {"do": "quick"}, draw.uniform(0, 2)
        call = lambda: id if queue.jobs.edit(id, body=job, delay=delay, priority=draw.choice([0, 1])) else None  # noqa: E731
        asked("put", call, jobs=[[job["n"], delay]], id=id, replace=True)


def linger():
    """In a child: say what becomes of a queue that was opened before the fork, and keep its files open for a while."""
    global name, serial
    name, serial = f"{name}/{os.getpid()}", 0
    pen.name = name
    put()
    time.sleep(4)
    os._exit(0)


pen.note("comes")
while going:
    draw.choice([put] * 14 + [put_many] + [put_with_key] * 3 + [cancel] * 2 + [reschedule] * 2 + [edit] * 2)()
    if forks:
        forks = False
        if os.fork() == 0:
            linger()
    time.sleep(draw.expovariate(12))
queue.close()
pen.note("over")
