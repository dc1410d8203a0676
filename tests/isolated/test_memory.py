"""Nothing is forgotten in memory, no reference is dropped twice, and without memory nothing is lost."""

import importlib.util
import sys

import pytest

from tests.implementations import CORES, SMALL, TINY_POOL
from tests.isolated.child import run_well, script

pytestmark = pytest.mark.stress

NEEDS_TESTCAPI = pytest.mark.skipif(
    importlib.util.find_spec("_testcapi") is None, reason="this Python comes without _testcapi"
)
# There the interpreter itself damages its heap, with no extension loaded but that which has the memory run out.
DAMAGED = pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 14), reason="this Python crashes by itself when the twin finds no memory"
)
TWIN = pytest.param("pure", marks=DAMAGED)
NATIVE = [name for name in CORES if name == "native"]


@pytest.mark.parametrize("implementation", CORES)
@pytest.mark.parametrize("program", ["leaks_child.py", "timers_leaks_child.py"])
def test_the_same_work_done_again_needs_no_more_memory(program, implementation):
    run_well(script(program), implementation)


@NEEDS_TESTCAPI
@pytest.mark.parametrize("class_name", ["TimingWheel", "KeyWheel"])
@pytest.mark.parametrize("implementation", [*NATIVE, TWIN, *SMALL, *TINY_POOL])
def test_an_operation_without_memory_raises_memory_error_and_loses_no_timer(implementation, class_name):
    run_well(script("nomemory_child.py"), implementation, class_name, OPENBLAS_NUM_THREADS="1")


@NEEDS_TESTCAPI
@pytest.mark.parametrize("implementation", [*NATIVE, "pure"])
def test_an_allocation_that_fails_in_a_turn_of_the_loop_costs_one_callback_at_most(implementation):
    run_well(script("loop_nomemory_child.py"), implementation)


@NEEDS_TESTCAPI
@pytest.mark.parametrize("implementation", NATIVE)
def test_an_allocation_that_fails_in_a_turn_of_timers_costs_no_call(implementation):
    run_well(script("timers_nomemory_child.py"), implementation)
