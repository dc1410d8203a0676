"""A ledger that processes write, and the form of its lines.

A line is written by one write to a file that all append to, so it survives its writer. Times are the wall clock in ms,
which all processes of a host share; a process notes the time before each call and after it.
"""

import json
import os
import time
from collections import defaultdict
from pathlib import Path

from pywheel import StoreError
from pywheel.stores import open as open_store
from tests.worker.plants import Planted

ISOLATED = "isolated"  # its handler runs in a process of its own
LIMITED = "limited"  # LIMIT jobs at once of those whose keys are the same up to the first colon
LIMIT = 2
TOPICS = ("a", "b", "c", "async", ISOLATED, LIMITED, "hand")
TTR = 1.0  # seconds
BACKOFF = 0.05
ATTEMPTS = 1000
SECONDS = {"part": 0.3 * TTR, "most": 0.9 * TTR, "hang": 1.7 * TTR}  # for which a job runs, by what it does


def opened(url):
    """Return the store of an address once it is there, with the faults that the test has planted."""
    while True:
        try:
            store = open_store(url)
        except StoreError:
            time.sleep(0.05)
        else:
            break
    for plant in filter(None, os.environ.get("LEDGER_PLANT", "").split(", ")):
        store = Planted(store, plant)
    return store


class Pen:
    """Writes lines, each by one call."""

    def __init__(self, path, name):
        self.name = name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, word, **facts):
        """Write a line; return the time that it bears."""
        wall = time.time() * 1000
        line = {"word": word, "wall": wall, "pid": os.getpid(), "by": self.name, **facts}
        os.write(self._file, json.dumps(line).encode() + b"\n")
        return wall

    def started(self, job, **facts):
        """Write the line of a handler that begins."""
        body = job.json()
        facts |= {"n": body["n"], "author": body["by"], "key": job.key}
        self.note("start", id=job.id, claims=job.claims, attempt=job.attempt, due=job.due, topic=job.topic, **facts)

    def ended(self, job, **facts):
        """Write the line of a handler that ends; raise if its body says so."""
        self.note("end", id=job.id, claims=job.claims, **facts)
        if job.json()["do"] == "raise" and job.attempt <= 2:
            raise ValueError("as the body says")


def length(job):
    """Return the seconds for which a handler runs; one that hangs does so once."""
    how = job.json()["do"]
    return 0 if how == "hang" and job.attempt > 1 else SECONDS.get(how, 0)


def lines(path):
    """Return what was written, by word. A line that is being written is left."""
    found = defaultdict(list)
    whole, _, _ = Path(path).read_bytes().rpartition(b"\n")
    for text in whole.splitlines():
        line = json.loads(text)
        found[line["word"]].append(line)
    return found
