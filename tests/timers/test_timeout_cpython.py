"""CPython's own tests of asyncio.timeout pass on ours: python -m tests.timers.test_timeout_cpython EventLoop [debug]

Beside EventLoop there are asyncio and uvloop. Those tests ask for debug mode, in which ours goes another way: without
the word they run without it.
"""

import asyncio
import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

import pytest

from tests.implementations import PURE_ONLY
from tests.timers.cpython_asyncio import PACKAGE, replace_timeouts

MODULES = ["test_timeouts", "test_waitfor"]
# uvloop counts in whole milliseconds from the present time on: of two timers for one time, either may be the first.
UNDECIDED = {"uvloop": ["test_nested_timeouts"]}
ROOT = Path(__file__).parents[2]


@pytest.mark.stress
@pytest.mark.skipif(PURE_ONLY, reason="the twin is asyncio's own")
@pytest.mark.skipif(
    importlib.util.find_spec("test") is None or importlib.util.find_spec(PACKAGE) is None,
    reason="this Python comes without its tests",
)
@pytest.mark.parametrize("mode", ["plain", "debug"])
@pytest.mark.parametrize("kind", ["EventLoop", "asyncio", "uvloop"])
def test_cpythons_tests_of_timeouts_pass(kind, mode):
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    command = [sys.executable, "-m", "tests.timers.test_timeout_cpython", kind, mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def main(kind: str, debug: bool) -> None:
    """Run them on loops of a kind; the exit code is 1 if one fails."""
    runner, maker = asyncio.Runner, _maker(kind)
    asyncio.Runner = lambda **options: runner(debug=debug, loop_factory=maker)
    replace_timeouts()
    importlib.import_module("test.support").verbose = False
    names = [f"{PACKAGE}.{name}" for name in MODULES if importlib.util.find_spec(f"{PACKAGE}.{name}")]
    outcome = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromNames(names))
    assert outcome.testsRun > 20
    failed = {test.id().rpartition(".")[2] for test, _ in (*outcome.failures, *outcome.errors)}
    sys.exit(bool(failed.difference(UNDECIDED.get(kind, ())) or outcome.unexpectedSuccesses))


def _maker(kind: str):
    if kind == "asyncio":
        return asyncio.SelectorEventLoop
    if kind == "uvloop":
        return importlib.import_module("uvloop").new_event_loop
    return importlib.import_module("pywheel").EventLoop


if __name__ == "__main__":
    main(sys.argv[1], "debug" in sys.argv)
