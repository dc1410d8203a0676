"""CPython's own tests of asyncio.timeout pass on ours, on every loop."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.implementations import PURE_ONLY

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.stress,
    pytest.mark.stress,
    pytest.mark.skipif(PURE_ONLY, reason="the twin is asyncio's own"),
    pytest.mark.skipif(
        importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_asyncio") is None,
        reason="this Python comes without its tests",
    ),
]


@pytest.mark.parametrize("mode", ["plain", "debug"])
@pytest.mark.parametrize("kind", ["EventLoop", "asyncio", "uvloop"])
def test_cpythons_tests_of_timeouts_pass(kind, mode):
    if kind == "uvloop":
        pytest.importorskip("uvloop")
    command = [sys.executable, "-m", "tests.timers.cpython_timeouts", kind, mode]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
