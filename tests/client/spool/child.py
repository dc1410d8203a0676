"""Put while the store is away, and be killed somewhere between a put and the note that it was forwarded.

usage: child.py STORE SPOOL WHERE COUNT

WHERE: spooled, before, after, noted. It prints the id of each put as it returns, and kills itself.
"""

import os
import signal
import sys
import time

from pywheel import JobQueue
from pywheel.client import spool as module
from pywheel.jobs.commands import Put
from pywheel.stores import open
from pywheel.testing import FaultyStore


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def main(url, spool, where, count):
    module._LEASE, module._TERMS = 500, module._TERMS._replace(ttr=500)  # ms, so that the next process waits briefly
    server = FaultyStore(open(url))
    server.away = True
    queue = JobQueue(server, spool=spool)
    for number in range(int(count)):
        key = {"key": f"k{number % 3}", "replace": True} if number % 2 else {}
        print(queue.put("t", number, **key), flush=True)
    if where == "spooled":
        die()
    if where == "noted":
        settle = queue.store._spool.settle

        def settle_and_die(*args):
            settle(*args)
            die()

        queue.store._spool.settle = settle_and_die

    def fault(when, commands):
        if when == where and any(isinstance(command, Put) and command.jobs for command in commands):
            die()

    server.fault = fault
    server.away = False
    time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
