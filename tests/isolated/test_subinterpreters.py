"""Subinterpreters: the native wheel is the main interpreter's; elsewhere the twin serves, and says so."""

import sys

import pytest

from tests.implementations import PURE_ONLY
from tests.isolated import child
from tests.isolated.subinterpreter_child import OWN_GIL, SHARED_GIL

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(sys.implementation.name != "cpython", reason="subinterpreters are CPython's"),
]

both_kinds = pytest.mark.parametrize("config", [OWN_GIL, SHARED_GIL])

SHOW = "import pywheel; print(pywheel.implementation, flush=True)"
USE = """
import pywheel
fired, clock = [], pywheel.ManualClock()
timers = pywheel.Timers(clock=clock)
timers.call_later(1, fired.append, "fired")
clock.advance(2)
print(*fired, flush=True)
"""


def run(*arguments, **variables):
    return child.run(child.script("subinterpreter_child.py"), *arguments, **{**child.UNSET, **variables})


@both_kinds
def test_a_subinterpreter_gets_the_twin_and_one_warning_that_says_why(config):
    result = run(config, child.COUNT_WARNINGS)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("pure [")
    assert result.stdout.count("Warning: ") == result.stdout.count("RuntimeWarning: ") == 1
    for word in ("subinterpreter", "many times slower", "PYWHEEL_PURE=1"):  # why, what it costs, how to silence it
        assert word in result.stdout
    assert "compiler" not in result.stdout  # which would not help


@both_kinds
def test_pure_is_silent_in_a_subinterpreter_too(config):
    result = run(config, "import warnings; warnings.simplefilter('error'); " + SHOW, PYWHEEL_PURE="1")
    assert (result.returncode, result.stdout, result.stderr) == (0, "pure\n", "")


@both_kinds
def test_require_native_is_an_import_error_in_a_subinterpreter(config):
    result = run(
        config, f"try:\n    {SHOW}\nexcept ImportError as error: print(error, flush=True)", PYWHEEL_REQUIRE_NATIVE="1"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PYWHEEL_REQUIRE_NATIVE is set")
    assert "subinterpreter" in result.stdout


@pytest.mark.skipif(PURE_ONLY, reason="PYWHEEL_PURE=1: the extension need not be there")
@both_kinds
def test_the_main_interpreter_has_the_native_wheel_though_a_subinterpreter_was_first(config):
    result = run(config, SHOW, SHOW)
    assert (result.returncode, result.stdout) == (0, "pure\nnative\n"), result.stderr


@both_kinds
def test_timers_fire_in_a_subinterpreter(config):
    result = run(config, USE, PYWHEEL_PURE="1")
    assert (result.returncode, result.stdout, result.stderr) == (0, "fired\n", "")
