"""Put through a spool while the store comes and goes, and note each step before and after it.

usage: spool_life.py FOLDER LOG SEED STEPS SYNCHRONOUS
"""

import logging
import random
import sys

from pywheel import JobQueue, StoreAway, StoreError
from pywheel.client.forwarder import Forwarder
from pywheel.stores import open
from pywheel.testing import FaultyStore
from tests.faults.notes import NAME, Notes, with_settings

SERVER = "server.db"
FAR = 10**6  # seconds


def main(folder, log, seed, steps, synchronous):
    Forwarder.start = lambda self: None  # what is forwarded, and when, follows from the seed
    logging.disable()
    with_settings(synchronous)
    notes, dice = Notes(folder, log), random.Random(int(seed))
    server = FaultyStore(open(f"sqlite:///{folder}/{SERVER}"))

    def fault(when, commands):
        if dice.random() < 0.1:
            raise StoreAway(f"a connection broke {when} the commit")

    server.fault = fault
    server.away = True
    queue = JobQueue(server, spool=f"sqlite:///{folder}/{NAME}")
    ids = {}  # number: what put returned
    number = int(seed) * 1_000  # of the next job: no other life has it
    for _ in range(int(steps)):
        what = dice.choice(("put", "put", "put", "many", "cancel", "forward", "forward", "switch"))
        try:
            if what in ("put", "many"):
                numbers = list(range(number, number + (1 if what == "put" else dice.randint(2, 5))))
                number = numbers[-1] + 1
                notes.note(put=numbers)
                ids |= zip(numbers, queue.put_many([queue.job("t", n, delay=FAR) for n in numbers]), strict=True)
                notes.note(kept=numbers)
            elif what == "cancel" and ids:
                chosen = dice.choice(list(ids))
                notes.note(cancel=chosen)
                if queue.cancel(ids[chosen]):
                    notes.note(cancelled=chosen)
            elif what == "forward":
                queue.store._forwarder.forward()
            elif what == "switch":
                server.away = not server.away
        except StoreError:
            pass  # away: then nobody was told anything


if __name__ == "__main__":
    main(*sys.argv[1:])
