"""A store of your own: the store in memory, with a journal in a file that makes it durable.

Every change is written to the journal, and reaches the disk, before it is made; opening the store repeats them all.
For one process at a time, with as many jobs as fit into its memory. A distribution makes it known by an entry point:

    [project.entry-points."pywheel.stores"]
    journal = "journal_store:JournalStore"

and then `JobQueue("journal:///var/lib/shop/jobs.journal")` opens it.
"""

import argparse
import fcntl
import json
import os
import random
import tempfile
import threading
import zlib
from base64 import b64decode, b64encode
from enum import Enum
from pathlib import Path

import pywheel
from pywheel.clock import Clock, MonotonicClock
from pywheel.jobs import Attempt, Imported, Job, NewJob, Outcome, State, commands
from pywheel.jobs.limits import Limits
from pywheel.jobs.queries import GetNextLease
from pywheel.stores import Store
from pywheel.stores.address import Address
from pywheel.stores.checks import sound
from pywheel.stores.front import Front
from pywheel.stores.memory import MemoryStore

FIRST_LINE = b"pywheel journal 1\n"
RECORDS = (NewJob, Imported, Job, Attempt, State, Outcome, Limits)
KINDS = {name: getattr(commands, name) for name in commands.__all__} | {kind.__name__: kind for kind in RECORDS}


# ---- commands as JSON, and back -------------------------------------------------------------------------------------


def encoded(value):
    """Return a command as JSON can say it: what JSON has no word for is {type: its fields}."""
    name = type(value).__name__
    if isinstance(value, bytes):
        return {"bytes": b64encode(value).decode()}
    if isinstance(value, Enum):
        return {name: value.value}
    if isinstance(value, dict):
        return {"dict": value}
    if isinstance(value, commands.Command):
        return {name: [encoded(getattr(value, field)) for field in value.__dataclass_fields__]}
    if isinstance(value, tuple):
        fields = [encoded(field) for field in value]
        return {name: fields} if name in KINDS else fields
    return value


def decoded(value):
    if isinstance(value, list):
        return tuple(map(decoded, value))
    if not isinstance(value, dict):
        return value
    [(name, inner)] = value.items()
    if name == "bytes":
        return b64decode(inner)
    if name == "dict":
        return inner
    return KINDS[name](*decoded(inner)) if isinstance(inner, list) else KINDS[name](inner)


# ---- the store ------------------------------------------------------------------------------------------------------


class Moment(Clock):
    """A clock whose wall time stands still while commands are made, so that making them again gives the same."""

    def __init__(self, clock):
        self.clock, self.wall_now = clock, None

    def time_ns(self):
        return self.clock.time_ns()

    def wall(self):
        return self.clock.wall() if self.wall_now is None else self.wall_now

    def until(self, wall):
        return self.clock.until(wall)


class JournalStore(Front):
    """Jobs in a store in memory, which answers all queries, and all their changes in a file.

    NotAStore if the file is none of these or is not there though it should be, StoreBusy if another process has it.
    """

    durability = "fsync"  # of the journal, not of the memory behind it

    def __init__(self, address, *, clock=None, create=True):
        address.split({})  # there are no options: it refuses each
        self.moment = Moment(clock or MonotonicClock())
        self.chance = random.Random()
        draw = lambda: self.chance.getrandbits(64) - 2**63  # noqa: E731
        self.memory = MemoryStore(address.shown, clock=self.moment, random=draw)
        self.lock = threading.RLock()  # one change at a time: the journal has them in their order
        self.pid = os.getpid()
        try:
            self.file = os.open(address.path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        except OSError as error:
            raise pywheel.NotAStore(f"{self.url}: {error.strerror}") from None
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.end = self.replay(Path(address.path).read_bytes())
        except BlockingIOError:
            os.close(self.file)
            raise pywheel.StoreBusy(f"{self.url} is open in another process: stop that first") from None
        except BaseException:
            os.close(self.file)
            raise

    # ---- changes ----------------------------------------------------------------------------------------------------

    def apply(self, commands):
        return sound(commands, self.journaled)  # what makes no sense is refused before it is written

    def journaled(self, given):
        with self.lock:
            self.memory.ask(GetNextLease())  # StoreClosed if it is
            if os.getpid() != self.pid:
                raise pywheel.StoreError(f"{self.url} was opened by the parent process: open another one")
            now, seed = self.clock.wall(), random.getrandbits(32)
            lasting = tuple(command for command in given if self.lasts(command, now))
            end = self.end
            if lasting:
                self.write([now, seed, encoded(lasting)])
            try:
                return self.made(now, seed, given)
            except BaseException:
                self.cut(end)
                raise

    def lasts(self, command, now):
        """Whether a command is to be made again: not what workers say of themselves, nor that no lease is over."""
        if isinstance(command, commands.Expire):
            return (self.ask(GetNextLease()) or now + 1) <= now
        return not isinstance(command, commands.Announce)

    def made(self, now, seed, given):
        """Make commands as they were, or will be, made at that time: chance included."""
        self.chance.seed(seed)
        self.moment.wall_now = now
        try:
            return self.memory.apply(given)
        finally:
            self.moment.wall_now = None

    # ---- the file ---------------------------------------------------------------------------------------------------

    def write(self, record):
        text = json.dumps(record, separators=(",", ":")).encode()
        line = b"%08x %b\n" % (zlib.crc32(text), text)
        try:
            written = os.pwrite(self.file, line, self.end)
            os.fsync(self.file)
            reason = None if written == len(line) else "no room"
        except OSError as error:
            reason = error.strerror
        if reason is not None:
            self.cut(self.end)
            raise pywheel.StoreFull(f"{self.url} cannot be written ({reason}): make room on its disk")
        self.end += len(line)

    def cut(self, end):
        os.ftruncate(self.file, end)
        os.fsync(self.file)
        self.end = end

    def replay(self, content):
        """Make all changes of the journal again; return its length, without a line that a crash has left unfinished."""
        end = len(FIRST_LINE)
        if FIRST_LINE.startswith(content[:end]) and len(content) < end:
            os.pwrite(self.file, FIRST_LINE, 0)
            self.cut(end)
        elif not content.startswith(FIRST_LINE):
            raise pywheel.NotAStore(f"{self.url} holds something else")
        lines = content[end:].splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n") or line[:8] != b"%08x" % zlib.crc32(line[9:-1]):
                if number < len(lines):
                    raise pywheel.StoreCorrupt(f"{self.url} is damaged after {end} bytes: restore a backup")
                self.cut(end)
                break
            now, seed, given = json.loads(line[9:])
            self.made(now, seed, decoded(given))
            end += len(line)
        return end

    def close(self):
        with self.lock:
            self.memory.close()
            if self.file >= 0:
                os.close(self.file)
            self.file = -1

    def _there(self):
        return self.memory

    def died(self, topics):
        return Store.died(self, topics)  # it writes, so by `apply`


# ---- what it shows --------------------------------------------------------------------------------------------------


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        address = Address(f"journal://{folder}/jobs.journal")
        for _ in range(2):  # the second time it finds what the first one left
            with pywheel.JobQueue(JournalStore(address)) as queue:
                queue.put_many(queue.job("mail", {"to": number}, delay="1h") for number in range(arguments.jobs))
                print(f"{queue.topics.counts()['mail'].delayed} jobs wait")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000, help="how many to put, each time (default: %(default)s)")
    main(parser.parse_args())
