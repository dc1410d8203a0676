"""Nothing is forgotten in memory, and no reference is dropped twice."""

import pytest

from tests.implementations import CORES
from tests.isolated.child import run_well, script

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("implementation", CORES)
def test_the_same_work_done_again_needs_no_more_memory(implementation):
    run_well(script("leaks_child.py"), implementation)
