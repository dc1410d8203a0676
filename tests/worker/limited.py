"""Processes that work under a limit and are killed, and the accounting afterwards."""

import subprocess
import sys
import time
from pathlib import Path

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.worker.ledger import lines

__all__ = ["most_at_once"]

CHILD = Path(__file__).parent / "limited_worker.py"
JOBS = 60
KILLS = 3


def most_at_once(url, folder, limit):
    """Have three workers do jobs, and kill some of them; return how many ran at once, counting leases of the dead."""
    path = folder / "ledger.txt"
    path.touch()
    queue = JobQueue(url)
    queue.put_many(queue.job("t") for _ in range(JOBS))

    def worker():
        return subprocess.Popen([sys.executable, str(CHILD), url, str(path), str(limit)], env=environment())

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
    changes = []
    for line in told["start"]:
        receipt = (line["id"], line["claims"])
        # Beyond its lease a handler has its place no more: it was killed, or had no turn on a busy machine.
        changes += [(line["wall"], 1), (min(ends.get(receipt, line["until"]), line["until"]), -1)]
    most = running = 0
    for _, change in sorted(changes):
        running += change
        most = max(most, running)
    assert time.time() * 1000 > max(when for when, _ in changes)
    return most
