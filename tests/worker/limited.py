"""Processes that work under a limit and are killed, and the accounting afterwards.

As a program it is one of these workers, which notes each start and end of a handler.

usage: limited.py URL LEDGER LIMIT
"""

import subprocess
import sys
import time

from pywheel import Fixed, JobQueue, Worker
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.worker.intervals import crowded
from tests.worker.ledger import Pen, lines

__all__ = ["most_at_once"]

JOBS = 60
KILLS = 3


def most_at_once(url, folder, limit):
    """Have three workers do jobs, and kill some of them; return how many ran at once, counting leases of the dead."""
    path = folder / "ledger.txt"
    path.touch()
    queue = JobQueue(url)
    queue.put_many(queue.job("t") for _ in range(JOBS))

    def worker():
        return subprocess.Popen([sys.executable, __file__, url, str(path), str(limit)], env=environment())

    workers = [worker() for _ in range(3)]
    try:
        for killed in range(KILLS):
            until(lambda done=killed: len(lines(path)["end"]) > 6 * (done + 1))
            running = [line["pid"] for line in lines(path)["start"]]
            victim = next((one for one in workers if one.pid == running[-1]), workers[0])
            victim.kill()
            victim.wait()
            workers[workers.index(victim)] = worker()
        until(lambda: queue.topics.counts()["t"].done == JOBS)
    finally:
        for one in workers:
            one.terminate()
        for one in workers:
            one.wait()
        queue.close()
    return _most(lines(path))


def _most(told):
    ends = {(line["id"], line["claims"]): line["wall"] for line in told["end"]}
    # Beyond its lease a handler has its place no more: it was killed, or had no turn on a busy machine.
    runs = [
        (line["wall"], min(ends.get((line["id"], line["claims"]), line["until"]), line["until"]))
        for line in told["start"]
    ]
    assert time.time() * 1000 > max(end for _, end in runs)
    return max(most for most in range(JOBS) if most == 0 or crowded(runs, most))


def work(url, path, limit):
    pen, queue = Pen(path, "worker"), JobQueue(url)

    @queue.handler("t", concurrency=4, ttr="600ms", retry=Fixed("1ms", attempts=1000), limit=int(limit))
    def handle(job):
        pen.note("start", id=job.id, claims=job.claims, until=job.lease_until)
        time.sleep(0.02)
        pen.note("end", id=job.id, claims=job.claims)

    Worker(queue, grace=5).run()


if __name__ == "__main__":
    work(*sys.argv[1:])
