"""Timers forget nothing in memory, and drop no reference twice."""

import pytest

from tests.implementations import CORES
from tests.isolated.child import run_well, script

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("implementation", CORES)
def test_the_same_timers_again_need_no_more_memory(implementation):
    run_well(script("timers_leaks_child.py"), implementation)
