"""Run a fixed plan against a store and note each operation before and after it; be killed at the n-th statement.

usage: crash_child.py URL LEDGER N ...

Once for each N, in a process of its own, until one is not killed; prints N and exit codes. {} in URL and LEDGER is N.
"""

import os
import signal
import sys
import traceback

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.stores import open
from pywheel.stores.sqlite import database as module
from pywheel.testing import ManualClock

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(10**9, 2)


def main(url, ledger, *numbers):
    for at in numbers:
        child = os.fork()  # it need not import all this
        if child == 0:
            code = 1
            try:
                plan(url.format(at), ledger.format(at), at)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(at, code)
        if code != -signal.SIGKILL:
            return


def plan(url, ledger, at):
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    left = [int(at)]

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
    store = open(url, clock=ManualClock(wall=NOW))

    def run(name, op):
        os.write(file, f"begin {name}\n".encode())
        [outcome] = store.apply([op])
        os.write(file, f"end {name} {outcome_text(outcome)}\n".encode())
        return outcome

    notifier = store.notifier("w")  # so that there are hints to write
    run("announce", ops.Announce(notifier.worker, ("t",)))
    notifier.publish(NOW)
    for number in range(3):
        run(
            f"put-{number}",
            ops.Put((NewJob("t", b"%d" % number, NOW), NewJob("t", b"%d+" % number, NOW, f"k{number}")), f"n{number}"),
        )
    run("cancel-2", ops.Cancel(2))
    jobs = run("claim", ops.Reserve("t", 4, TERMS, "w"))
    run("ack", ops.Ack(jobs[0].id, 1))
    run("nack", ops.Nack(jobs[1].id, 1, 0, "no"))
    run("successor", ops.Put((NewJob("t", b"next", NOW, "k1", parent=(jobs[2].id, 1)),)))
    run("release", ops.Release(jobs[2].id, 1))
    run("reschedule", ops.Edit(6, NOW - 5))
    run("retry", ops.Retry(jobs[0].id, NOW))
    run("edit", ops.Edit(jobs[0].id, body=b"new", fields={"priority": 4}))
    run("hold", ops.Claim("t", (6,), TERMS, "w", 0))
    run("begin", ops.Begin(6, 1, 10**9))
    run("delete", ops.Delete(7))
    run("rewrite", ops.Rewrite(6, b"2+", b"two"))
    run("keep", ops.SetNote("n", b"1", 10**9))
    run("keep-again", ops.SetNote("n", b"2", absent=True))
    run("forget", ops.SetNote("n", None))
    run("expire", ops.Expire(10))
    run("pause", ops.Pause("t", True))
    run("resume", ops.Pause("t", False))
    run("purge", ops.Purge(State.CANCELLED, 0, None, 10))
    run("leave", ops.Announce(notifier.worker, ()))
    notifier.close()
    store.close()
    os.write(file, b"over\n")


def outcome_text(outcome):
    return ",".join(str(getattr(item, "id", item)) for item in outcome) if isinstance(outcome, list) else str(outcome)


if __name__ == "__main__":
    main(*sys.argv[1:])
