"""A worker process for the ledger test: notes each start and end of a handler, and does what the body says.

usage: ledger_worker.py URL LEDGER NAME GRACE TOPIC=CONCURRENCY...
       ledger_worker.py URL LEDGER NAME reserve TOPIC SEED     claims by hand, and dies now and then
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time

from pywheel import Fixed, JobQueue, Limit, StoreError, Worker
from tests.worker import ledger_isolated
from tests.worker.ledger import ATTEMPTS, BACKOFF, ISOLATED, LIMIT, LIMITED, TTR, Pen, length, opened

url, path, name, grace, *topics = sys.argv[1:]
pen = Pen(path, name)
queue = JobQueue(opened(url))
policy = Fixed(BACKOFF, attempts=ATTEMPTS)


def began(job):
    """Note a start; return for how long it runs."""
    pen.started(job)
    how = job.json()["do"]
    if how == "exit":
        pen.note("dies", id=job.id, claims=job.claims)
        os._exit(1)
    if how == "kill":
        pen.note("dies", id=job.id, claims=job.claims)
        os.kill(os.getpid(), signal.SIGKILL)
    return length(job)


def handle(job):
    time.sleep(began(job))
    pen.ended(job)


async def handle_async(job):
    await asyncio.sleep(began(job))
    pen.ended(job)


def reserve(topic):
    """Claim and settle jobs until it is killed, or dies of itself with jobs claimed."""
    pen.note("ready")
    while True:
        with contextlib.suppress(StoreError):  # somebody who is stopped has the turn to write
            some(topic)


def some(topic):
    jobs = queue.reserve(topic, random.randint(1, 3), ttr=TTR, retry=policy)
    for job in jobs:
        pen.started(job)
    if jobs and random.random() < 0.01:
        pen.note("dies")
        os._exit(1)
    for job in jobs:
        pen.note("end", id=job.id, claims=job.claims)
        queue.ack(job)
    time.sleep(0 if jobs else 0.02)


announced = False


def pulse(*, ready):
    global announced
    if ready and not announced:
        announced = True
        pen.note("ready")


if grace == "reserve":
    pen.note("comes", topics={topics[0]: 1})
    random.seed(int(topics[1]))
    reserve(topics[0])
concurrency = {topic: int(number) for topic, number in (text.split("=") for text in topics)}
pen.note("comes", topics=concurrency)
for topic, number in concurrency.items():
    function = {"async": handle_async, ISOLATED: ledger_isolated.handle}.get(topic, handle)
    limit = Limit(LIMIT, ":") if topic == LIMITED and queue.store.keeps_limits else None
    queue.handler(topic, concurrency=number, ttr=TTR, retry=policy, isolate=topic == ISOLATED, limit=limit)(function)
Worker(queue, grace=float(grace), name=str(os.getpid()), pulse=pulse).run()
pen.note("stopped")
