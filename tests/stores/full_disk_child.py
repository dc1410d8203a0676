"""Use a store on a disk that is full, then has room again, then is full once more; print the outcomes as JSON.

usage: full_disk_child.py FOLDER
"""

import json
import sys
from pathlib import Path

from pywheel import JobQueue, StoreFull
from pywheel.jobs import Counts

FOLDER = Path(sys.argv[1])
BALLAST = FOLDER / "ballast"


def fill():
    """Leave no byte on the disk."""
    with BALLAST.open("ab", buffering=0) as file:
        for size in (65_536, 512, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass


def put_until_full(queue):
    """Return the ids that were told, and the error."""
    ids = []
    try:
        while len(ids) < 100_000:
            ids.append(queue.put("t", bytes(500)))
    except StoreFull as error:
        return ids, str(error)
    return ids, None


seen = {}
queue = JobQueue(f"sqlite:///{FOLDER}/jobs.db")
before = [queue.put("t", b"before") for _ in range(20)]
claimed = queue.reserve("t", 10, ttr=3600)
fill()
told, seen["put"] = put_until_full(queue)
try:
    while True:
        queue.nack(claimed[-1], 3600, error="x" * 100_000)
        claimed.pop()
except StoreFull as error:
    seen["nack"] = str(error)
seen["still_leased"] = sum(queue.get(job).state == "running" for job in claimed) == len(claimed)
BALLAST.unlink()
seen["acked"] = all(queue.ack(job) for job in claimed)
later = [queue.put("t", b"later") for _ in range(20)]
seen["intact"] = all(queue.get(id).id == id for id in [*before, *told, *later])
seen["whole"] = sum(queue.topics.counts()["t"]) == len(before) + len(told) + len(later)
queue.close()
with JobQueue(f"sqlite:///{FOLDER}/jobs.db") as again:
    seen["reopened"] = sum(again.topics.counts().get("t", Counts())) == len(before) + len(told) + len(later)
fill()
try:
    JobQueue(f"sqlite:///{FOLDER}/other.db")
except StoreFull as error:
    seen["new_file"] = str(error)
try:
    JobQueue(f"sqlite:///{FOLDER}/jobs.db")
except StoreFull as error:  # of SQLite's file of shared memory
    seen["old_file"] = str(error)
print(json.dumps(seen))
