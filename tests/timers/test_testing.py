"""`pywheel.testing` without pytest: its fixtures are shown in tests/testing."""

import pytest

from tests.isolated.child import run

pytestmark = pytest.mark.stress


def test_without_pytest_the_clock_is_still_there(pywheel):
    pure = "1" if pywheel.implementation == "pure" else None
    code = """
import sys
sys.modules["pytest"] = None
from pywheel.testing import ManualClock, autojump_clock, manual_clock
assert type(manual_clock()) is ManualClock and autojump_clock().autojump
print("fine")
"""
    result = run("-c", code, PYWHEEL_PURE=pure)
    assert (result.stdout, result.stderr) == ("fine\n", "")
