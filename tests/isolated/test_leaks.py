"""Nothing is forgotten in memory, and no reference is dropped twice."""

import pytest

from tests.implementations import CORES
from tests.isolated.child import run_well, script
from tests.often import often


@pytest.mark.parametrize("implementation", often(CORES))
def test_the_same_work_done_again_needs_no_more_memory(implementation):
    run_well(script("leaks_child.py"), implementation)
