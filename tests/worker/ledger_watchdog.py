"""Notes when nobody could do anything: the machine gave no turn, or a stopped process was in a transaction of SQLite.

On a machine with more work than processors, the watchdog soon gets its turn, as it does little; busier processes wait
longer. So it also notes, from Linux, how long the longest-waiting thread of its siblings waited.

SQLite has one lock for all writers, and frees it at the end of a transaction: nobody can write until the stopped
process goes on, whatever a store does. A stopped process that has only the turn to write (`stores.sqlite.page`) does
not have that lock, and is no excuse.

A disk that is slow to sync keeps whoever commits there, and those who wait for the turn. So it also syncs a file of its
own beside the database now and then.

usage: ledger_watchdog.py LEDGER
"""

import os
import struct
import sys
import threading
import time
from pathlib import Path

from tests.worker.ledger import Pen

try:
    import fcntl
except ImportError:
    fcntl = None

PAUSE = 0.02
STARVED = 0.15  # seconds that a pause and a little work may take beyond their time
TURNS = 0.1  # seconds between looks at how long others waited for a turn
SYNCED = 0.1  # seconds that a sync of a few bytes may take, and between two of them
WRITING = 120  # the byte of -shm that is locked by who writes
FLOCK = struct.Struct("hhqqi4x")  # of 64-bit Linux: type, whence, start, length, process


class WriteLock:
    """SQLite's lock of those who write to a database. It is asked for, never taken."""

    def __init__(self, database):
        self.path = Path(f"{database}-shm")
        self.file = -1

    def stopped_holder(self):
        """Return the process that holds it, if that is stopped, else None; None where the system does not say."""
        if self.file < 0 and sys.platform == "linux" and self.path.exists():
            self.file = os.open(self.path, os.O_RDWR)
        if self.file < 0:
            return None
        asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, WRITING, 1, 0)
        kind, *_, process = FLOCK.unpack(fcntl.fcntl(self.file, fcntl.F_GETLK, asked))
        return process if kind != fcntl.F_UNLCK and is_stopped(process) else None


class Waits:
    """How long threads of the processes that a process has started were kept from running, though they could run."""

    def __init__(self, parent):
        self.parent = Path(f"/proc/{parent}/task")
        self.before = {}
        self.longest()

    def longest(self):
        """Return for how many ms the thread waited since the last call that waited longest; 0 where nobody tells."""
        waited = {}
        for children in self.parent.glob("*/children"):
            for process in _read(children).split():
                for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
                    _, ns, *_ = (*_read(thread).split(), 0, 0)
                    waited[thread] = int(ns)
        before, self.before = self.before, waited
        return max((ns - before.get(thread, 0) for thread, ns in waited.items()), default=0) / 1e6


def _read(path):
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


def is_stopped(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].startswith("T")
    except OSError:
        return False


def sync(path):
    """Note when a sync took long. In a thread: the one that looks must not wait for it."""
    pen = Pen(path, "disk")
    with Path(path).with_name("synced").open("wb", buffering=0) as file:
        while True:
            file.write(b"x")
            began = time.time()
            os.fsync(file.fileno())
            if time.time() - began > SYNCED:
                pen.note("disk", since=began * 1000)
            time.sleep(SYNCED)


def watch(path):
    """Look all the time. A state at two looks held in between as well: a stopped process takes and frees nothing."""
    pen = Pen(path, "watchdog")
    lock, waits = WriteLock(Path(path).with_name("jobs.db")), Waits(os.getppid())
    before, holder = time.time(), None
    looked = before
    pen.note("watches")
    threading.Thread(target=sync, args=[path], daemon=True).start()
    while True:
        time.sleep(PAUSE)
        sum(range(20_000))
        now, holder_before, holder = time.time(), holder, lock.stopped_holder()
        if holder is not None and holder == holder_before:
            pen.note("held", since=before * 1000, who=holder)
        if now - before > PAUSE + STARVED:
            pen.note("starved", since=before * 1000)
        if now - looked > TURNS:
            pen.note("kept", since=looked * 1000, ms=waits.longest())
            looked = now
        before = now


if __name__ == "__main__":
    watch(sys.argv[1])
