"""Live on a store in a file while one call of the system fails, each in a process of its own, until none does.

usage: failing_child.py FOLDER ERROR KIND END FIRST STEP

KIND: a letter of calls.c. FIRST: the call that fails in the first process; in the next ones those STEP later. END:
closed, or cut off, or worked off: by a worker, whose jobs were put before. Prints for each call a line of JSON: what
was told of the error that it led to, and what the store held at the end, or how often the worker handled each job.
"""

import ctypes
import errno
import json
import logging
import os
import sys
import traceback
from collections import Counter
from functools import partial
from itertools import count
from pathlib import Path

from pywheel import JobQueue, StoreError, Worker
from pywheel.events import StoreFailed
from tests.faults.notes import NAME, with_settings
from tests.faults.store_life import Life, held
from tests.jobs.waiting import until

STEPS = 12
JOBS = 6


class Quiet:
    def note(self, **what):
        pass


class FailingLife(Life):
    """A life whose steps may fail, each of which is tried once more. An error means that nothing was done."""

    def __init__(self, folder):
        self.errors = []
        super().__init__(folder, Quiet(), 7)

    def told(self, work):
        try:
            return work()
        except StoreError as error:
            self.errors.append([type(error).__name__, str(error)])
            return None

    def open(self):
        if self.told(super().open) is None and self.errors:
            super().open()

    def held(self):
        return self.told(lambda: held(self.store)) or held(self.store)

    def live(self):
        before = self.held()
        for _ in range(STEPS):
            command = self.told(self.command) or self.command()
            errors = len(self.errors)
            self.told(partial(self.store.apply, [command]))
            after = self.held()
            if len(self.errors) > errors:
                assert after == before, f"{self.errors[-1]} was told, and {set(after) ^ set(before)} has happened"
            before = after
        return before


def work_off(folder, fail):
    """Have a worker handle some jobs; return what it told of errors, and how often it handled each job."""
    logging.disable()
    handled, errors = Counter(), []

    def listen(event):
        if isinstance(event, StoreFailed):
            errors.append([type(event.error).__name__, str(event.error)])

    queue = JobQueue(f"sqlite:///{folder}/{NAME}", listeners=[listen])

    @queue.handler("t", concurrency=2)
    def handle(job):
        handled[job.id] += 1

    ids = queue.put_many(queue.job("t") for _ in range(JOBS))
    fail()
    worker = Worker(queue)
    worker.start()
    until(lambda: all(queue.get(id).state == "done" for id in ids))
    worker.stop()
    worker.join()
    return {"errors": errors, "handled": [handled[id] for id in ids]}


def live(folder, fail, end):
    """Return what was told of errors, and what is kept."""
    fail()
    life = FailingLife(folder)
    kept = life.live()
    if end == "closed":
        life.told(life.store.close)
    return {"errors": life.errors, "held": kept}


def main(folder, error, kind, end, first, step):
    with_settings()
    library = ctypes.CDLL(None)
    for number in count(int(first), int(step)):
        here = Path(folder) / str(number)
        here.mkdir()
        child = os.fork()
        if child == 0:
            library.calls_record(str(here).encode(), b"/dev/null")
            code, only = ctypes.c_int(getattr(errno, error)), ctypes.c_char(kind.encode())
            fail = partial(library.calls_fail, ctypes.c_long(number), code, only, 0)
            try:
                result = work_off(here, fail) if end == "worked off" else live(here, fail, end)
            except BaseException:
                result = {"wrong": traceback.format_exc()}
            print(json.dumps({"file": f"{here}/{NAME}", **result}), flush=True)
            os._exit(library.calls_made() < number)
        _, over = os.waitpid(child, 0)
        if over:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
