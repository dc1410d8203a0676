"""Stores in a file that say when they tell workers, for the notifier's tests."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

from pywheel.jobs import NewJob
from pywheel.jobs.commands import Announce, Put
from pywheel.jobs.job import SHARDS, SLICE, slice_of
from pywheel.stores import open
from pywheel.stores.ownership import owners
from tests.jobs.waiting import LIMIT
from tests.stores import calls
from tests.stores.calls import settle as settle
from tests.stores.files import connection_of

FAR = 10**9


class Turn:
    """A transaction of a caller's own under way, with what is to be told of it."""

    def __init__(self, store, connection):
        self.execute = connection.execute
        self._store, self._connection = store, connection
        self._told = []

    def put(self, *dues):
        """Put jobs; what is to be told of them is known from here on."""
        self._store._watch.add = lambda id, due, tell: self._told.append(tell)
        self._store.apply_within(self._connection, Put(tuple(NewJob("t", b"", due) for due in dues)))

    def tell(self):
        for tell in self._told:
            tell()


class Host:
    """A store as one process has it opened."""

    def __init__(self, path, clock=None):
        self.store = open(f"sqlite:///{path}", clock=clock)
        self.presence = self.store._presence
        self.queries = 0
        self._rows, self.presence.rows = self.presence.rows, self._counted

    def _counted(self, *arguments):
        self.queries += 1
        return self._rows(*arguments)

    @contextmanager
    def begun(self):
        """Yield a transaction of which nobody is told before its `tell` is called."""
        with closing(sqlite3.connect(self.store.path, isolation_level=None, timeout=LIMIT)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield Turn(self.store, connection)
            connection.execute("COMMIT")

    def put(self, due, topic="t"):
        """Put a job; return its id."""
        return calls.put(self.store, NewJob(topic, b"", due))[0]

    def put_all_over(self):
        """Put jobs in all slices of time, and once more; return their due times by id."""
        return {self.put(due): due for due in range(1, 2 * SHARDS * SLICE, SLICE)}

    def announce(self, worker, *topics):
        self.store.apply([Announce(worker, topics)])

    def notifier(self, *topics):
        """A worker that handles topics and has read all until now."""
        notifier = self.presence.notifier("w")
        self.announce(notifier.worker, *topics)
        settle(notifier)
        return notifier

    def members(self):
        return [worker for [worker] in connection_of(self.store).execute("SELECT worker FROM member")]

    def close(self):
        self.store.close()


def settled(*notifiers):
    for notifier in notifiers:
        settle(notifier)


def by_owner(dues, notifiers):
    """Return the ids of those jobs that are due in the slices of each of the workers."""
    table = owners("t", [notifier.worker for notifier in notifiers])
    return [{id for id, due in dues.items() if table[slice_of(due)] == notifier.worker} for notifier in notifiers]


def ids(hints):
    return {due.id for due in hints.due}


def workers_of(path):
    return Path(f"{path}-workers")


@contextmanager
def child(*args):
    """Start Python with the same path; kill it in the end, or if it hangs."""
    process = subprocess.Popen(
        [sys.executable, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    hung = threading.Timer(LIMIT, process.kill)
    hung.start()
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        hung.cancel()
