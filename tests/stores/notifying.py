"""A database with the workers' page and bells, and no more of a store than commits, for the notifier's tests."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from pywheel.clock import MonotonicClock
from pywheel.jobs.commands import Announce
from pywheel.jobs.job import shard_of
from pywheel.stores.ownership import owners
from pywheel.stores.sqlite.commands.announce import announce
from pywheel.stores.sqlite.presence import Presence
from pywheel.stores.sqlite.statements import MIGRATIONS, SQL
from pywheel.stores.sqlite.transaction import Names, Transaction

LIMIT = 60.0  # seconds: only ends a hang
FAR = 10**9


class Host:
    """One opened database of one process."""

    def __init__(self, path, clock=None):
        self.path = str(path)
        self.connection = self._connected()
        self.reading = self._connected()
        if not self.rows("schema", ()):
            self.connection.executescript(";".join(["BEGIN", *MIGRATIONS, "COMMIT"]))
        self.queries = 0
        self.topics, self.workers = Names("topic_id", "topic_add"), Names("worker_id", "worker_add")
        self.presence = Presence(self.path, clock or MonotonicClock(), self.read)

    def _connected(self):
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=LIMIT, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def rows(self, name, parameters):
        statement = "SELECT 1 FROM sqlite_schema" if name == "schema" else SQL[name]
        return self.connection.execute(statement, parameters).fetchall()

    def read(self, name, parameters):
        self.queries += 1
        return self.reading.execute(SQL[name], parameters).fetchall()

    # ---- what a store does ------------------------------------------------------------------------------------------

    @contextmanager
    def begun(self):
        """A transaction that is told of, but for the caller's `tell`."""
        self.connection.execute("BEGIN IMMEDIATE")
        transaction = Transaction(self.connection, 0, self.topics, self.workers, self.presence)
        try:
            yield transaction
            transaction.finish()
            self.connection.execute("COMMIT")
            transaction.committed()
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self.topics.forget()
            raise

    @contextmanager
    def transaction(self):
        with self.begun() as transaction:
            yield transaction
        transaction.tell()

    def insert(self, transaction, topic, due):
        number = transaction.topic(topic)
        insert = "INSERT INTO job (topic, due, ahead, body) VALUES (?, ?, 0, x'')"
        id = transaction.connection.execute(insert, (number, due)).lastrowid
        return id, number

    def put(self, due, topic="t"):
        """Put a job as `put` does; return its id."""
        with self.transaction() as transaction:
            id, number = self.insert(transaction, topic, due)
            transaction.changed(id, number, due)
        return id

    def announce(self, worker, *topics):
        with self.transaction() as transaction:
            announce(transaction, [Announce(worker, topics)])

    def notifier(self, *topics, name="w"):
        """A worker that handles topics and has read all until now."""
        notifier = self.presence.notifier(name)
        if topics:
            self.announce(notifier.worker, *topics)
        settle(notifier)
        return notifier

    def furthest(self, topic="t"):
        with self.transaction() as transaction:
            number = transaction.topic(topic)
        return self.presence.furthest(number)

    def members(self):
        [(rows,)] = self.rows("roster", ())
        return rows

    def close(self):
        self.presence.close()
        self.connection.close()
        self.reading.close()


def settle(notifier):
    """Take in all that has been said until now."""
    while notifier.wait(0):
        pass
    notifier.hints()


def until(condition):
    """Wait until something is so, and return it."""
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)
    return found


def settled(*notifiers):
    for notifier in notifiers:
        settle(notifier)


def names(notifiers):
    return [notifier.worker for notifier in notifiers]


def by_owner(ids, notifiers, topic="t"):
    """Return the ids that each of the workers owns."""
    table = owners(topic, names(notifiers))
    return [{id for id in ids if table[shard_of(id)] == notifier.worker} for notifier in notifiers]


def ids(hints):
    return {due.id for due in hints.due}


def mode_of(path):
    return path.stat().st_mode & 0o777


def workers_of(path):
    return Path(f"{path}-workers")


def bell_of(path, slot=0):
    return Path(f"{path}-bell-{slot}")


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


def run(host, **values):
    """Insert a claim that is running."""
    columns = [row[1] for row in host.connection.execute("PRAGMA table_info(run)")]
    host.connection.execute(
        f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        [values.get(name, 1) for name in columns],
    )
