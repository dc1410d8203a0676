"""The end of the interpreter, and of wheels inside wheels inside wheels."""

import sys

import pytest

from tests.implementations import CORES, MODULES
from tests.isolated.child import run_well

pytestmark = pytest.mark.stress

PENDING = """
import sys, {module} as core
class Late:
    def __del__(self):
        if wheel is not None:
            wheel.schedule(5, None)
            wheel.cancel(handle)
            wheel.advance(wheel.now)
wheel = core.TimingWheel()
handle = wheel.schedule(3, Late())
keys = core.KeyWheel()
for number in range(1000):
    wheel.schedule(10 * number, Late())
    keys.schedule(10 * number, number)
wheel.schedule(1, wheel)
sys.modules["nowhere"] = wheel  # lives until the modules are torn down
print("bye")
"""

IN_A_TRACEBACK = """
import sys, {module} as core
def begin():
    wheel = core.TimingWheel()
    wheel.schedule(5, wheel)
    raise ValueError
try:
    begin()
except ValueError as error:
    sys.kept = error  # and its traceback the wheel, until the last collection of all
print("bye")
"""

NESTED = """
import gc, threading, {module} as core
depth = {depth}
class Mine(core.TimingWheel):
    pass

def chain(cls):
    inner = None
    for _ in range(depth):
        wheel = cls()
        wheel.schedule(5, inner)
        inner = wheel
    return inner

def drop_them():
    for cls in (core.TimingWheel, Mine):
        wheel = chain(cls)
        del wheel  # dealloc after dealloc
        outer = cls()
        assert outer.cancel(outer.schedule(5, chain(cls)))
        outer.schedule(5, chain(cls))
        outer.clear()
        outer.schedule(5, chain(cls))
        del outer
        wheel = last = cls()
        for _ in range(depth):
            outer = cls()
            outer.schedule(5, wheel)
            wheel = outer
        last.schedule(5, wheel)  # one large cycle
        del wheel, last, outer
        gc.collect()
    print("bye")

threading.stack_size({stack} * 1024)
thread = threading.Thread(target=drop_them)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("name", CORES)
def test_the_interpreter_exits_with_timers_pending(name):
    assert run_well("-c", PENDING.format(module=MODULES[name])) == "bye\n"


@pytest.mark.parametrize("name", CORES)
def test_a_wheel_of_the_last_collection_goes_silently(name):
    assert run_well("-c", IN_A_TRACEBACK.format(module=MODULES[name])) == "bye\n"


@pytest.mark.parametrize("name", CORES)
def test_thousands_of_wheels_inside_each_other_can_be_dropped(name):
    """Each holds the next as an item, on a stack with 64 bytes for each; 256 in the twin, whose wheels are large.

    From 3.13 on CPython bounds the depth of what it releases by thousands of levels, not by fifty: lists inside each
    other take more than 256 KB there as well.
    """
    depth, stack = {"native": 4000, "pure": 1000}[name], 256
    if sys.version_info >= (3, 13):
        depth, stack = 10 * depth, 128 * stack
    assert run_well("-c", NESTED.format(module=MODULES[name], depth=depth, stack=stack)) == "bye\n"
