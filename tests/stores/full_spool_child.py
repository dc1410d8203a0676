"""A spool on a small disk, its store elsewhere: it prints the outcomes of puts as JSON. Its argument is the disk."""

import json
import sys
from contextlib import suppress
from pathlib import Path

from pywheel import JobQueue, StoreFull
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore
from tests.client.spool.spooled import back
from tests.jobs.waiting import until

disk = Path(sys.argv[1])
seen = {}
server = FaultyStore(open_store(f"sqlite:///{disk}.server.db"))
server.close = lambda: None  # it survives a queue


def refused(queue):
    """Put until there is no room; return how many were taken, and why no more."""
    for count in range(10_000):
        try:
            queue.put("t", b"x" * 50_000)
        except StoreFull as error:
            return count, str(error)
    return None


def fill(path):
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4_096))


def direct(queue):
    """Whether a put goes to the store."""
    with suppress(StoreFull):
        return queue.put("t", b"direct") > 0
    return False


with JobQueue(server, spool=f"sqlite:///{disk}/spool.db") as queue:
    server.away = True
    seen["accepted"], seen["refused"] = refused(queue)
    back(queue, server)
    seen["forwarded"] = server.inner.ask(CountJobs())["t"].delayed
with JobQueue(server, spool=f"sqlite:///{disk}/other.db") as queue:
    for file in disk.glob("spool.db*"):
        file.unlink()
    server.away = True
    waits = queue.put("t", b"waits")
    fill(disk / "filler")
    seen["filled"] = refused(queue)[1]
    server.away = False
    until(lambda: direct(queue))
    seen["direct"] = waits < 0
    (disk / "filler").unlink()
    back(queue, server)
    seen["forwarded later"] = queue.get(waits).body == b"waits"
print(json.dumps(seen))
