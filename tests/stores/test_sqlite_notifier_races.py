"""No job falls between two owners, two horizons or two pages, however puts, workers and deletions meet."""

import random
import threading
import time

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs.job import slice_of
from pywheel.stores.notifier import SILENT
from pywheel.stores.ownership import shards_of
from pywheel.stores.sqlite.presence import Telling
from tests.jobs.waiting import LIMIT, until
from tests.stores import calls
from tests.stores.notifying import Host, workers_of

pytestmark = pytest.mark.stress

ROUNDS = 6
PUTS = 60
SPAN = 1_000  # due times lie in there
LOOKS = 0.3  # seconds within which each looks whether the page is still the file of its name


class Worker(threading.Thread):
    """Reads what it owns and did not know, and hears of the rest."""

    def __init__(self, path, seed):
        super().__init__()
        self.host = Host(path)
        self.random = random.Random(seed)
        self.known = set()
        self.horizon = 0
        self.shards = 0
        self.notifier = None
        self.stop = False
        self.looked = 0.0  # when the last step began that is over
        self.stirred = float("inf")  # when the last one ended that changed anything
        self.error = None

    def run(self):
        try:
            while not self.stop:
                began = time.monotonic()
                if self.step():
                    self.stirred = time.monotonic()
                self.looked = began
            self.notifier.close()
            self.host.close()
        except BaseException as error:
            self.error = error
            raise

    def begin(self):
        self.known, self.shards = set(), 0
        self.notifier = self.host.presence.notifier("w")
        self.host.announce(self.notifier.worker, "t")

    def step(self):
        """Go on; return whether there was anything to do."""
        if self.notifier is None:
            self.begin()
        notifier = self.notifier
        rung = notifier.wait(0.004)
        notifier.beat(0)
        members = [member.worker for member in notifier.members() if member.silent <= SILENT]
        if notifier.worker not in members:
            self.host.announce(notifier.worker, "t")
            return True
        shards = shards_of(notifier.worker, "t", members)
        gained, self.shards = shards & ~self.shards, shards
        if rung:
            hints = notifier.hints()
            self.known |= {due.id for due in hints.due}
            if hints.reload:
                gained = shards
        if gained:
            notifier.publish(self.horizon)
            self.read(gained, -1)
        moved = self.horizon < SPAN
        if moved:
            before, self.horizon = self.horizon, self.horizon + self.random.randrange(10)
            notifier.publish(self.horizon)
            self.read(shards, before)
        return bool(rung or gained or moved)

    def read(self, shards, above):
        """Only what this worker cannot know yet: so a hint that is missing stays missing."""
        query = "SELECT id, next FROM job WHERE next > ? AND next <= ?"
        rows = self.host.presence.rows(query, (above, self.horizon))
        self.known |= {id for id, due in rows if shards >> slice_of(due) & 1}


def puts(path, seed, counts, workers):
    host, chance = Host(path), random.Random(seed)
    for _ in range(PUTS):
        if chance.random() < 0.3:
            calls.put(host.store, *(NewJob("t", b"", near(workers, chance)) for _ in range(10)))
        else:
            with host.begun() as turn:
                turn.put(near(workers, chance))
            time.sleep(chance.random() * 0.005)
            turn.tell()
    counts.append(PUTS)
    host.close()


def settled(workers, since):
    """Whether each worker has looked, and found nothing to do, after all others had done their last."""
    looked = [worker.looked for worker in workers]  # first: what is done from here on makes `stirred` later
    return min(looked) > max(since, *(worker.stirred for worker in workers)) + LOOKS


def near(workers, chance):
    """Return a due time near some horizon, as it moves just now."""
    return min(max(chance.choice(workers).horizon + chance.randrange(-5, 30), 0), SPAN)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_every_job_is_known_to_its_owner_in_the_end(path, monkeypatch, seed):
    Host(path).close()
    chance, begin = random.Random(seed), Telling.begin

    def slowly(telling):
        begin(telling)
        time.sleep(chance.random() * 0.005)  # what is told is known, and not yet committed

    monkeypatch.setattr(Telling, "begin", slowly)
    counts = []
    workers = [Worker(path, seed * 10 + n) for n in range(3)]
    producers = [threading.Thread(target=puts, args=(path, seed * 10 + n, counts, workers)) for n in range(2)]
    for thread in producers + workers[:1]:
        thread.start()
    for worker in workers[1:]:
        time.sleep(chance.random() * 0.1)
        worker.start()
        if seed % 2:
            workers_of(path).unlink(missing_ok=True)
    for thread in producers:
        thread.join(LIMIT)
    # Nobody reads by itself after that: what is not known by then was lost.
    over = time.monotonic()
    until(lambda: settled(workers, over) or any(worker.error for worker in workers))
    host = Host(path)
    jobs = host.presence.rows("SELECT id, next FROM job", ())
    host.close()
    for worker in workers:
        worker.stop = True
        worker.join(LIMIT)
        assert worker.error is None
    owned = {(id, worker) for worker in workers for id, due in jobs if worker.shards >> slice_of(due) & 1}
    lost = {id for id, worker in owned if id not in worker.known}
    covered = workers[0].shards | workers[1].shards | workers[2].shards
    assert len(counts) == 2
    assert covered == 2**32 - 1
    assert lost == set()
