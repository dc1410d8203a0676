"""The environment variables that choose the implementation."""

import pytest

from tests.implementations import PURE_ONLY
from tests.isolated.child import COUNT_WARNINGS, UNSET, run, run_well

pytestmark = pytest.mark.stress

needs_extension = pytest.mark.skipif(PURE_ONLY, reason="PYWHEEL_PURE=1: the extension need not be there")

SHOW = "import pywheel; print(pywheel.implementation, pywheel.TimingWheel.__module__, pywheel.KeyWheel.__module__)"
NATIVE = "native pywheel.core._wheel pywheel.core._wheel\n"
PURE = "pure pywheel.core._pure pywheel.core._pure\n"

MISSING = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name == "pywheel.core._wheel":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
"""
BROKEN = MISSING.replace("raise ModuleNotFoundError(f", "raise ImportError(")

OFF = {"PYWHEEL_PURE": "0", "PYWHEEL_REQUIRE_NATIVE": ""}


@needs_extension
@pytest.mark.parametrize("switches", [UNSET, OFF, {"PYWHEEL_PURE": "", "PYWHEEL_REQUIRE_NATIVE": "1"}], ids=str)
def test_the_native_wheel_is_used_where_it_is(switches):
    assert run_well("-W", "error", "-c", SHOW, **switches) == NATIVE


@pytest.mark.parametrize("blocker", ["", MISSING, BROKEN], ids=["there", "missing", "broken"])
def test_pure_forces_the_twin_silently(blocker):
    assert run_well("-W", "error", "-c", blocker + SHOW, PYWHEEL_PURE="1", PYWHEEL_REQUIRE_NATIVE="0") == PURE


@pytest.mark.parametrize(
    ("blocker", "pure", "word"),
    [
        (MISSING, None, "install"),
        (BROKEN, None, "install"),
        ("", "1", "PYWHEEL_PURE"),
        (MISSING, "1", "PYWHEEL_PURE"),
    ],
)
def test_require_native_is_an_import_error_without_the_extension_and_beside_pure(blocker, pure, word):
    result = run("-c", blocker + SHOW, PYWHEEL_REQUIRE_NATIVE="1", PYWHEEL_PURE=pure)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "PYWHEEL_REQUIRE_NATIVE" in last
    assert word in last


@pytest.mark.parametrize(("blocker", "switches"), [(MISSING, UNSET), (BROKEN, OFF)], ids=["missing", "broken"])
def test_without_the_extension_there_is_one_warning_and_the_twin(blocker, switches):
    printed = run_well("-c", blocker + COUNT_WARNINGS, **switches)
    assert printed.startswith("pure [")
    assert printed.count("Warning: ") == printed.count("RuntimeWarning: ") == 1
    assert "PYWHEEL_PURE=1" in printed  # how to silence it
    assert "install" in printed  # how to mend it


def test_the_warning_is_shown_by_default_and_the_twin_works():
    code = "import pywheel; w = pywheel.TimingWheel(); w.schedule(3, 'a'); print(w.advance(3), pywheel.implementation)"
    result = run("-c", MISSING + code, **UNSET)
    assert (result.returncode, result.stdout) == (0, "['a'] pure\n")
    assert result.stderr.count("RuntimeWarning") == 1


@pytest.mark.parametrize("name", ["AsyncTimers", "timeout"])
def test_asyncio_is_imported_only_when_it_is_asked_for(name):
    code = f"import sys, pywheel; print('asyncio' in sys.modules); pywheel.{name}; print('asyncio' in sys.modules)"
    assert run_well("-c", code, **UNSET) == "False\nTrue\n"
