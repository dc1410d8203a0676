"""Run a fixed plan against a store and note each step before and after it; be killed at the n-th statement.

usage: crash_child.py FOLDER N ...

Once for each N, in a process and on a file of its own, until one is not killed; at 0 it also notes what is held.
"""

import json
import os
import signal
import sys
import traceback

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores.sqlite import database as module
from pywheel.testing import ManualClock
from tests.faults.store_life import NOW, POLICY, held


def main(folder, *numbers):
    for at in map(int, numbers):
        child = os.fork()  # it need not import all this
        if child == 0:
            code = 1
            try:
                plan(f"{folder}/{at}", at)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(at, code)
        if at and code != -signal.SIGKILL:
            return


def plan(name, at):
    file = os.open(f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    left = [at]

    def count(statement):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    connect = module.connect

    def traced(path, **options):
        connection = connect(path, **options)
        connection.set_trace_callback(count)
        return connection

    module.connect = traced
    store = open(f"sqlite:///{name}.db", clock=ManualClock(wall=NOW))

    def note(what, value=None):
        os.write(file, f"{json.dumps([what, value])}\n".encode())

    def run(op):
        note("begin")
        [outcome] = store.apply([op])
        note("end", held(store) if at == 0 else None)
        return outcome

    notifier = store.notifier("w")  # so that there are hints to write
    run(ops.Announce(notifier.worker, ("t",)))
    notifier.publish(NOW)
    for number in range(3):
        jobs = NewJob("t", b"%d" % number, NOW), NewJob("t", b"%d+" % number, NOW, f"k{number}")
        run(ops.Put(jobs, f"n{number}"))
    run(ops.Cancel(2))
    jobs = run(ops.Reserve("t", 4, POLICY, "w"))
    run(ops.Ack(jobs[0].id, 1))
    run(ops.Nack(jobs[1].id, 1, 0, "no"))
    run(ops.Put((NewJob("t", b"next", NOW, "k1", parent=(jobs[2].id, 1)),)))
    run(ops.Release(jobs[2].id, 1))
    run(ops.Edit(6, NOW - 5))
    run(ops.Retry(jobs[0].id, NOW))
    run(ops.Edit(jobs[0].id, body=b"new", fields={"priority": 4}))
    run(ops.Claim("t", (6,), POLICY, "w", 0))
    run(ops.Begin(6, 1, 10**6))
    run(ops.Delete(7))
    run(ops.Rewrite(6, b"2+", b"two"))
    run(ops.SetNote("n", b"1", 10**9))
    run(ops.SetNote("n", b"2", absent=True))
    run(ops.SetNote("n", None))
    run(ops.Expire(10))
    run(ops.Pause("t", True))
    run(ops.Pause("t", False))
    run(ops.Purge(State.CANCELLED, 0, None, 10))
    run(ops.Announce(notifier.worker, ()))
    notifier.close()
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
