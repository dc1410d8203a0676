"""A thread that is preempted where it holds a lock, as the process forks."""

import pytest

from tests.faults.calls import library, needs_preload
from tests.implementations import PURE_ONLY
from tests.isolated.child import run_well

pytestmark = [
    pytest.mark.stress,
    needs_preload,
    pytest.mark.skipif(PURE_ONLY, reason="the twin has no gate"),
]

BULK_CALLS_AFTER_A_FORK = """
import os, signal, sys, threading, warnings
import numpy
from pywheel.core import KeyWheel

warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forking with threads
keys, ticks, done = KeyWheel(), numpy.arange(5000), False
keys.schedule_many(ticks, ticks)

def work():
    while not done:
        keys.reschedule_many(ticks, ticks)  # so many that others run meanwhile

def wait():
    while not done:
        len(keys)

threads = [threading.Thread(target=function) for function in [work] + 6 * [wait]]
sys.setswitchinterval(1e-5)
for thread in threads:
    thread.start()
for _ in range(60):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs ends so
        try:
            keys.cancel_many([1])
        except RuntimeError as error:
            assert "fork" in str(error)  # it says what happened
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        done = True
        raise AssertionError("the child hung")
done = True
"""


def test_a_child_does_not_wait_for_a_thread_of_its_parent_that_was_in_the_gate():
    run_well("-c", BULK_CALLS_AFTER_A_FORK, LD_PRELOAD=library("locks"))
