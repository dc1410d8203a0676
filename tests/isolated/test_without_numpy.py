"""NumPy is needed by the bulk calls alone."""

import pytest

from tests.implementations import CORES, MODULES
from tests.isolated.child import run_well

pytestmark = pytest.mark.stress

CODE = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
import {module} as core
wheel = core.KeyWheel()
handle = wheel.schedule(5, 7)
for call in (
    lambda: wheel.schedule_many([1], [2]),
    lambda: wheel.reschedule_many([handle], [2]),
    lambda: wheel.cancel_many([handle]),
    lambda: wheel.advance_many(10),
):
    try:
        call()
    except ImportError as error:
        assert "pywheel-timer[numpy]" in str(error), error
    else:
        raise SystemExit("no ImportError")
    wheel._check()
    assert (wheel.now, len(wheel), wheel.deadline(handle)) == (0, 1, 5)
assert wheel.advance(5) == [7]
wheel = core.TimingWheel()
assert wheel.cancel_many(wheel.schedule_many([1, 2], "ab")) == [True, True]
print("well")
"""


@pytest.mark.parametrize("name", CORES)
def test_without_numpy_the_bulk_calls_say_what_to_install_and_the_rest_works(name):
    assert run_well("-c", CODE.format(module=MODULES[name])) == "well\n"
