"""Use a store or a spool on a small disk that becomes full or read-only; print the outcomes as JSON.

usage: full_disk_child.py FOLDER (full|read_only|spool)
"""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pywheel import JobQueue, PywheelError, StoreFull
from pywheel.jobs import Counts
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore
from tests.client.spool.spooled import back
from tests.jobs.waiting import until

FOLDER = Path(sys.argv[1])
URL = f"sqlite:///{FOLDER}/jobs.db"
BALLAST = FOLDER / "ballast"


def fill():
    """Leave no byte on the disk."""
    with BALLAST.open("ab", buffering=0) as file:
        for size in (65_536, 512, 1):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def error_of(action):
    try:
        action()
    except PywheelError as error:
        return f"{type(error).__name__}: {error}"
    return None


def put_until_full(queue, body):
    """Return the ids that were told, and the error."""
    ids = []

    def put():
        while len(ids) < 100_000:
            ids.append(queue.put("t", body))

    return ids, error_of(put)


def full():
    queue = JobQueue(URL)
    before = [queue.put("t", b"before") for _ in range(20)]
    claimed = queue.reserve("t", 10, ttr=3600)

    def nack():
        while queue.nack(claimed[-1], 3600, error="x" * 100_000):
            claimed.pop()

    fill()
    told, put = put_until_full(queue, bytes(500))
    seen = {"put": put, "nack": error_of(nack)}
    seen["still_leased"] = sum(queue.get(job).state == "running" for job in claimed) == len(claimed)
    BALLAST.unlink()
    seen["acked"] = all(queue.ack(job) for job in claimed)
    ids = [*before, *told, *(queue.put("t", b"later") for _ in range(20))]
    seen["intact"] = all(queue.get(id).id == id for id in ids)
    seen["whole"] = sum(queue.topics.counts()["t"]) == len(ids)
    queue.close()
    with JobQueue(URL) as again:
        seen["reopened"] = sum(again.topics.counts().get("t", Counts())) == len(ids)
    fill()
    seen["new_file"] = error_of(lambda: JobQueue(f"sqlite:///{FOLDER}/other.db"))
    seen["old_file"] = error_of(lambda: JobQueue(URL))  # of SQLite's file of shared memory
    return seen


def read_only():
    with JobQueue(URL) as queue:
        queue.put("t")
    subprocess.run(["mount", "-o", "remount,ro", FOLDER], check=True)
    return [error_of(lambda: open_store(URL)), error_of(lambda: open_store(f"sqlite:///{FOLDER}/new.db"))]


def spool():
    """Its store is elsewhere."""
    seen = {}
    server = FaultyStore(open_store(f"sqlite:///{FOLDER}.server.db"))
    server.close = lambda: None  # it survives a queue
    with JobQueue(server, spool=f"sqlite:///{FOLDER}/spool.db") as queue:
        server.away = True
        taken, seen["refused"] = put_until_full(queue, bytes(50_000))
        back(queue, server)
        seen["accepted"], seen["forwarded"] = len(taken), server.inner.ask(CountJobs())["t"].delayed
    with JobQueue(server, spool=f"sqlite:///{FOLDER}/other.db") as queue:
        for file in FOLDER.glob("spool.db*"):
            file.unlink()
        server.away = True
        waits = queue.put("t", b"waits")
        fill()
        seen["filled"] = put_until_full(queue, bytes(50_000))[1]
        server.away = False

        def direct():
            """Whether a put goes to the store."""
            with suppress(StoreFull):
                return queue.put("t", b"direct") > 0

        until(direct)
        seen["direct"] = waits < 0
        BALLAST.unlink()
        back(queue, server)
        seen["forwarded later"] = queue.get(waits).body == b"waits"
    return seen


print(json.dumps({"full": full, "read_only": read_only, "spool": spool}[sys.argv[2]]()))
