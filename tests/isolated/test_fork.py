"""A child process has a copy of every wheel."""

import os

import pytest

from tests.implementations import CORES, MODULES
from tests.isolated.child import run_well

pytestmark = [pytest.mark.stress, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]

COMMON = """
import faulthandler, os, sys, threading, warnings, {module} as core
import numpy  # now: a child forked while a thread imports it could never import it
warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of forking with threads

def in_child(function):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)  # a child that hangs says where
        try:
            function()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the child failed or hung"
"""

COPY = (
    COMMON
    + """
timing, keys = core.TimingWheel(5), core.KeyWheel(5)
handles = [[wheel.schedule(10 * number, number) for number in range(100)] for wheel in (timing, keys)]

def use():
    for wheel, mine in zip((timing, keys), handles):
        assert wheel.cancel(mine[50])
        assert wheel.reschedule(mine[51], 5000)
        wheel.schedule(7, 1000)
        assert wheel.advance(990) == [0, 1000, *range(1, 50), *range(52, 100)]
        assert len(wheel) == 1
        wheel._check()
        wheel.clear()

in_child(use)
for wheel in (timing, keys):
    assert len(wheel) == 100
    wheel._check()
    assert wheel.advance(990) == list(range(100))
"""
)

BUSY = (
    COMMON
    + """
keys, timing, done = core.KeyWheel(), core.TimingWheel(), threading.Event()
ticks = list(range(3000))

def work():
    while not done.is_set():
        keys.schedule_many(ticks, ticks)
        keys.advance_many(3000, 2000)
        keys.reschedule_many(ticks, ticks)
        keys.clear()
        for number in range(50):
            timing.schedule(number, None)
        timing.advance(100, 30)
        timing.clear()

def use():
    try:
        keys.schedule(5, 5)
        keys.advance(5000)
        keys._check()
    except RuntimeError as error:
        assert "fork" in str(error)  # it says what happened
    timing.schedule(5, None)
    timing.advance(5000)
    timing._check()
    fresh = core.KeyWheel()
    fresh.schedule_many([5, 6], [1, 2])
    assert fresh.advance_many(6).tolist() == [1, 2]

keys.schedule_many(ticks, ticks)  # imports NumPy: a child forked during an import waits for that for ever
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for _ in range(40):
        in_child(use)
finally:
    done.set()
    for thread in threads:
        thread.join()
"""
)


@pytest.mark.parametrize("name", CORES)
def test_a_forked_child_uses_its_copy_and_the_parent_its_own(name):
    run_well("-c", COPY.format(module=MODULES[name]))


@pytest.mark.parametrize("name", CORES)
def test_a_child_forked_while_other_threads_use_the_wheel_does_not_hang(name):
    run_well("-c", BUSY.format(module=MODULES[name]))
