"""A database with the workers' page, and no more of a store than commits, for the notifier's tests."""

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
from pywheel.jobs.job import SHARDS, SLICE, slice_of
from pywheel.stores.ownership import owners
from pywheel.stores.sql.engine import apply
from pywheel.stores.sql.transaction import NEVER, Names, Transaction
from pywheel.stores.sqlite.dialect import SCHEMA, SQLITE, Carrier, Ids
from pywheel.stores.sqlite.presence import Presence, Telling
from tests.jobs.waiting import LIMIT
from tests.stores.calls import settle as settle

FAR = 10**9


class Turn:
    """A transaction under way, with what is to be told of it."""

    def __init__(self, host):
        self.execute = host.connection.execute
        self._tx = Transaction(SQLITE, 0, host.topics, host.workers, Ids(), host.presence)
        self.changes = self._tx.changes
        self._host, self._telling = host, None

    def apply(self, command):
        [outcome] = Carrier(self._host.connection, 0).drive(apply(self._tx, [command]))
        return outcome

    def topic(self, name):
        return Carrier(self._host.connection, 0).drive(self._tx.numbers((name,), add=True))[name]

    def insert(self, topic, due):
        """Insert a job as `put` does, and note that it is due; return its id and the number of its topic."""
        number = self.topic(topic)
        insert = "INSERT INTO job (topic, next, created, body) VALUES (?, ?, ?, x'')"
        id = self.execute(insert, (number, due, due)).lastrowid
        self.changes.due(number, id, due)
        return id, number

    def announce(self, worker, *topics):
        self.apply(Announce(worker, topics))

    def leased(self, *ends):
        """Have jobs run whose leases end then."""
        for end in ends:
            run(self._host, end, end)
        self.changes.leases = min(self.changes.leases, *ends)

    def expired(self, end):
        """Have the job whose lease ended then run no longer."""
        self.execute("UPDATE job SET state = 0 WHERE id = ?", (end,))
        self.changes.expired = True

    @property
    def telling(self):
        """The report of all changes up to its first use."""
        if self._telling is None:
            self._telling = Telling(self._tx, self._host.presence, in_turn=self._host.presence.page.held)
        return self._telling

    def tell(self):
        self.telling.tell()


class Host:
    """One opened database of one process."""

    def __init__(self, path, clock=None):
        self.path = str(path)
        self.connection = self._connected()
        self.reading = self._connected()
        if not self.rows("SELECT 1 FROM sqlite_schema"):
            self.connection.executescript(f"BEGIN; {SCHEMA}; COMMIT")
        self.queries = 0
        self.topics, self.workers = Names("topic"), Names("worker")
        self.presence = Presence(self.path, clock or MonotonicClock(), self.read)

    def _connected(self):
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=LIMIT, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def rows(self, statement, parameters=()):
        return self.connection.execute(statement, parameters).fetchall()

    def read(self, statement, parameters):
        self.queries += 1
        return self.reading.execute(statement, parameters).fetchall()

    # ---- what a store does ------------------------------------------------------------------------------------------

    @contextmanager
    def begun(self):
        """Yield a transaction without its report: the caller calls `tell`, out of turn by then."""
        with self._turn() as turn:
            yield turn

    @contextmanager
    def transaction(self):
        with self._turn(tells=True) as turn:
            yield turn

    @contextmanager
    def _turn(self, *, tells=False):
        page = self.presence.page
        page.enter(time.monotonic() + LIMIT)
        try:
            if not tells:
                page.leave()
            self.connection.execute("BEGIN IMMEDIATE")
            turn = Turn(self)
            yield turn
            turn.telling.begin()
            if turn.changes.leases < NEVER:
                self.presence.leased(turn.changes.leases)
            self.connection.execute("COMMIT")
            if tells:
                turn.tell()
                self.presence.find_lease(self.connection)
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self.topics.forget()
            raise
        finally:
            page.leave()

    def put(self, due, topic="t"):
        """Put a job as `put` does; return its id."""
        with self.transaction() as turn:
            id, _ = turn.insert(topic, due)
        return id

    def put_all_over(self, topic="t"):
        """Put jobs in all slices of time, and once more; return their due times by id."""
        return {self.put(due, topic): due for due in range(1, 2 * SHARDS * SLICE, SLICE)}

    def announce(self, worker, *topics):
        with self.transaction() as turn:
            turn.announce(worker, *topics)

    def notifier(self, *topics, name="w"):
        """A worker that handles topics and has read all until now."""
        notifier = self.presence.notifier(name)
        if topics:
            self.announce(notifier.worker, *topics)
        settle(notifier)
        return notifier

    def furthest(self, topic="t"):
        with self.transaction() as turn:
            number = turn.topic(topic)
        return self.presence.audience(number).furthest()

    def members(self):
        return [worker for [worker] in self.rows("SELECT worker FROM member")]

    def close(self):
        self.presence.close()
        self.connection.close()
        self.reading.close()


def settled(*notifiers):
    for notifier in notifiers:
        settle(notifier)


def names(notifiers):
    return [notifier.worker for notifier in notifiers]


def by_owner(dues, notifiers, topic="t"):
    """Return the ids of those jobs that are due in the slices of each of the workers."""
    table = owners(topic, names(notifiers))
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


def run(host, job=1, lease=1):
    """Have a job run, one that is there or a new one."""
    host.connection.execute(
        "INSERT INTO job (id, topic, state, next, due, created, claims, started, begun, body) "
        "VALUES (?, 1, 1, ?, 1, 1, 1, 1, 1, x'') ON CONFLICT (id) DO UPDATE SET state = 1, next = excluded.next, "
        "due = 1, claims = 1, started = 1, begun = 1",
        (job, lease),
    )
