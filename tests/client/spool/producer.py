"""Put all the time, to a store that comes and goes, until it is killed.

usage: producer.py STORE SPOOL NAME SEED

Prints each number once its put has returned. Now and then the store does it and the answer is lost.
"""

import logging
import random
import sys

from pywheel import JobQueue, StoreAway
from pywheel.client import spool as module
from pywheel.stores import open
from pywheel.testing import FaultyStore


def main(url, spool, name, seed):
    module._LEASE, module._TERMS = 300, module._TERMS._replace(ttr=300)
    logging.disable()
    dice = random.Random(int(seed))
    server = FaultyStore(open(url))

    def fault(when, commands):
        if dice.random() < 0.03:
            raise StoreAway(f"a connection broke {when} the commit")

    server.fault = fault
    queue = JobQueue(server, spool=spool)
    number = 0
    while True:
        if dice.random() < 0.05:
            server.away = not server.away
        count = dice.choice((1, 1, 1, 3))
        numbers = list(range(number, number + count))
        number += count
        queue.put_many([queue.job(name, n) for n in numbers])
        print(*numbers, sep="\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
