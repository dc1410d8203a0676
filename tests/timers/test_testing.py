"""`pywheel.testing`: fixtures for the tests of others."""

import pytest

from tests.isolated.child import run

pytestmark = pytest.mark.stress

TESTS = """
import pywheel

def test_a_manual_clock(manual_clock):
    assert type(manual_clock) is pywheel.ManualClock
    assert (manual_clock.time(), manual_clock.autojump) == (0, False)
    calls = []
    timers = pywheel.Timers(manual_clock)
    timers.call_later(1800, calls.append, 1)
    manual_clock.advance(1800)
    assert calls == [1]

def test_a_clock_of_its_own_for_each_test(manual_clock):
    assert manual_clock.time() == 0

def test_a_clock_that_jumps(autojump_clock):
    assert autojump_clock.autojump
"""


def test_the_fixtures_serve_a_test_suite_that_asks_for_them(pywheel, tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["pywheel.testing"]\n')
    (tmp_path / "test_users.py").write_text(TESTS)
    pure = "1" if pywheel.implementation == "pure" else None
    result = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path), PYWHEEL_PURE=pure
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 passed" in result.stdout


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
